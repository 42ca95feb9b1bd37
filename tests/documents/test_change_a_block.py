"""What docs/change_a_block.md says is true: its code runs, its model trains."""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from reference.weights import ids

pytestmark = pytest.mark.one_backend
TEXT = Path(__file__).parents[2] / "docs" / "change_a_block.md"


@pytest.fixture(scope="module")
def names():
    """What the code blocks define, run one after the other."""
    names = {}
    for code in re.findall(r"```python\n(.*?)```", TEXT.read_text("utf-8"), re.DOTALL):
        exec(compile(code, TEXT.name, "exec"), names)
    return names


def test_the_code_runs_and_its_parts_are_in_the_model(names):
    model = names["model"]
    for block in (*model.encoder_blocks, *model.decoder_blocks):
        assert type(block.self_attention) is names["CosineAttention"]
        assert type(block.feed_forward) is names["SquaredRelu"]
        assert type(block.feed_forward_residual.norm) is names["Squash"]
        assert isinstance(block.self_attention.positional_encoding, names["Alibi"])


def test_the_model_trains_and_its_file_comes_back(names, tmp_path):
    model = names["model"]
    model.compile(kt.training.adam(1e-2), kt.training.LabelSmoothedCrossEntropy(0.0))
    source = ids((6,) * 32, seed=1, vocabulary_size=50)
    target = np.concatenate([np.ones((32, 1), "int32"), source[:, :-1]], axis=1)
    inputs = {"source": source, "target": target}
    losses = model.fit(inputs, source, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is names["MyTransformer"]
    np.testing.assert_array_equal(
        ops.convert_to_numpy(again(inputs)), ops.convert_to_numpy(model(inputs))
    )
