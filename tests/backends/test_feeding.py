import contextlib

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.losses import LabelSmoothedCrossEntropy

SIZES = {
    "vocabulary_size": 20,
    "hidden_dim": 8,
    "intermediate_dim": 8,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        ids = np.full((2, 4), 5, "int32")
        return {"source": ids, "target": ids}, ids


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data")
def test_no_thread_looks_for_better_settings():
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    adapter = PyDatasetAdapter(Batches(workers=0))
    with backends.feeding():
        assert adapter.get_tf_dataset().options().autotune.enabled is False
    assert adapter.get_tf_dataset().options().autotune.enabled is None


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="tf.data")
def test_two_fits_at_once_leave_nothing_patched():
    from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

    default = PyDatasetAdapter.get_tf_dataset
    adapter = PyDatasetAdapter(Batches(workers=0))
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(backends.feeding())
    second.enter_context(backends.feeding())
    first.close()  # the one that began first ends first
    assert adapter.get_tf_dataset().options().autotune.enabled is False
    second.close()
    assert PyDatasetAdapter.get_tf_dataset is default


def test_fit_and_evaluate_read_their_batches_in_this_context(monkeypatch):
    entered = []

    @contextlib.contextmanager
    def feeding():
        entered.append("in")
        yield
        entered.append("out")

    monkeypatch.setattr(backends, "feeding", feeding)
    model = Transformer(TransformerConfig(**SIZES))
    model.compile(optimizer="sgd", loss=LabelSmoothedCrossEntropy(0.1))
    model.fit(Batches(workers=0), verbose=0)
    assert entered == ["in", "out"]
    model.evaluate(Batches(workers=0), verbose=0)
    assert entered == ["in", "out"] * 2
