"""What must hold of every model, whatever its kind and its weights."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from reference import configs
from reference import models
from reference.marks import all_on_one_backend
from reference.models import logits_of
from reference.weights import numpy
from reference.weights import sources
from reference.weights import targets

KINDS = [
    ("pre-norm, nothing tied", "mixed_bfloat16"),
    *(
        pytest.param(case, marks=pytest.mark.one_backend, id=", ".join(case))
        for case in (
            ("paper", "float32"),
            ("pre-norm", "float32"),
            ("recurrent", "float32"),
            ("convolutional, dilated", "mixed_bfloat16"),
            ("learned, deep encoder", "float32"),
            ("paper", "mixed_float16"),
        )
    ),
]
CLOSE = {"float32": 1e-5, "mixed_bfloat16": 2e-2, "mixed_float16": 1e-2}
PLAIN = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


@pytest.fixture(params=KINDS, ids=", ".join)
def model(request):
    return models.model(*request.param)


def test_a_later_token_changes_no_earlier_logit(model):
    source, target = sources(), targets()
    before = logits_of(model, source, target)
    assert before.dtype == "float32" and np.isfinite(before).all()
    for position in (1, target.shape[1] - 1):
        changed = target.copy()
        changed[:, position:] = (target[:, position:] + 13) % 49 + 4
        after = logits_of(model, source, changed)
        np.testing.assert_array_equal(after[:, :position], before[:, :position])
        assert (after[:, position] != before[:, position]).any()


def test_more_padding_changes_no_logit_of_a_token(model):
    source, target = sources(), targets()
    before = logits_of(model, source, target)
    after = logits_of(
        model, np.pad(source, ((0, 0), (0, 6))), np.pad(target, ((0, 0), (0, 4)))
    )
    tokens = target != 0
    found, expected = after[:, : target.shape[1]][tokens], before[tokens]
    close = CLOSE[model.dtype_policy.name]
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_the_order_of_a_batch_changes_nothing(model):
    order = [3, 0, 4, 1, 2]
    expected = logits_of(model, sources(), targets())[order]
    found = logits_of(model, sources()[order], targets()[order])
    close = CLOSE[model.dtype_policy.name]
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


def test_every_source_token_matters_to_every_target_position(model):
    source, target = sources(), targets()
    before = logits_of(model, source, target)
    changed = source.copy()
    changed[:, 0] = (source[:, 0] + 13) % 49 + 4
    after = logits_of(model, changed, target)
    assert (np.abs(after - before).max(axis=-1) > 0).all()


@pytest.mark.one_backend
def test_a_source_of_padding_alone_is_finite():
    model = models.model("paper", "mixed_float16")
    source = np.zeros_like(sources())
    assert np.isfinite(logits_of(model, source, targets())).all()


@pytest.mark.parametrize("rate", all_on_one_backend(PLAIN, but=["activation_dropout"]))
def test_dropout_acts_in_training_alone(rate):
    source, target = sources(), targets()
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1, **configs.HEADS}
    plain = Transformer(configs.config("paper", **layers, **PLAIN))
    expected = logits_of(plain, source, target)
    found = logits_of(plain, source, target, training=True)
    np.testing.assert_array_equal(found, expected)
    model = Transformer(configs.config("paper", **layers, **{**PLAIN, rate: 0.5}))
    model.set_weights(plain.get_weights())
    np.testing.assert_array_equal(logits_of(model, source, target), expected)
    dropped = [logits_of(model, source, target, training=True) for _ in range(2)]
    assert np.abs(dropped[0] - expected).max() > 1e-3
    assert np.abs(dropped[0] - dropped[1]).max() > 1e-3


@pytest.mark.one_backend
def test_paper_dropout_acts_on_the_sums_of_embeddings_and_positions():
    """Also where there is no layer to drop anything in."""
    model = Transformer(configs.config("paper", dropout=0.5))
    ids = ops.convert_to_tensor(sources())
    dropped = numpy(model._embed("source", ids, training=True))
    kept = numpy(model._embed("source", ids))
    share = (dropped == 0).mean()
    assert 0.4 < share < 0.6
    survived = dropped != 0
    np.testing.assert_allclose(dropped[survived], 2.0 * kept[survived], rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    ["window", "recurrent", "convolutional"],
)
def test_lengths_known_only_when_it_runs_give_the_same(name):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow has lengths that are not known when it traces")
    import tensorflow as tf

    model = models.model(name)
    ids = tf.TensorSpec((None, None), tf.int32)
    program = tf.function(
        lambda source, target: model({"source": source, "target": target}),
        input_signature=[ids, ids],
    )
    expected = logits_of(model, sources(), targets())
    for source_length, length in ((11, 7), (4, 1)):
        found = program(sources()[:, :source_length], targets()[:, :length])
        if source_length < 11:
            continue  # another length through the same program: it runs
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
def test_attention_weights_are_those_of_each_block():
    model = models.model("learned, deep encoder")
    source, target = (ops.convert_to_tensor(ids) for ids in (sources(), targets()))
    memory, mask, encoder = model.encode(source, return_attention_weights=True)
    np.testing.assert_array_equal(numpy(mask), sources() != 0)
    hidden, own, cross = model.decode(
        target, memory, mask, return_attention_weights=True
    )
    expected = logits_of(model, sources(), targets())
    np.testing.assert_allclose(numpy(model.logits(hidden)), expected, atol=1e-5)
    assert [len(weights) for weights in (encoder, own, cross)] == [3, 1, 1]
    blocked = np.broadcast_to((sources() == 0)[:, None, None], cross[0].shape)
    for weights in (*encoder, *own, *cross):
        np.testing.assert_allclose(numpy(weights).sum(axis=-1), 1.0, rtol=1e-5)
    for weights in cross:
        assert (numpy(weights)[blocked] == 0).all()


@pytest.mark.one_backend
@pytest.mark.parametrize("wrong", [-1, 999])
@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_outside_of_the_vocabulary_are_refused(side, wrong):
    config = TransformerConfig.from_preset("tiny", vocabulary_size=999, hidden_dim=8)
    inputs = {name: np.full((2, 3), 5) for name in ("source", "target")}
    inputs[side][1, 2] = wrong
    with pytest.raises(InputError, match=f"{side} holds the id {wrong}, outside of"):
        Transformer(config)(inputs)
