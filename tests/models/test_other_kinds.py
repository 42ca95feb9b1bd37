"""The models that the paper compares with, against their promises."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.config import KINDS
from keras_transformer.errors import InputError
from reference import configs
from reference import models
from reference.weights import ids
from reference.weights import numpy
from reference.weights import sources
from reference.weights import targets

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"transformer"}))
def test_the_options_of_the_small_models_cover_the_config(kind):
    used = {
        field
        for its, fields in configs.OTHERS.values()
        if its == kind
        for field in fields
    }
    apart = {
        "dropout",
        "source_end",
        "source_vocabulary_size",
        "target_vocabulary_size",
        "tie_embeddings",
        "scale_embeddings",
        "output_bias",
        "layer_norm_epsilon",
        "pad_id",
        "start_id",
        "end_id",
    }  # of all kinds, used by one of them, or of training and data alone
    fields = set(KINDS[kind].model_fields)
    assert used | set(configs.SMALL_OTHERS) | apart == fields


@pytest.mark.parametrize("name", ["recurrent", "recurrent, no attention"])
def test_what_a_recurrent_model_knows_of_the_source(name):
    """Without attention it is the ends of the memory, and nothing between."""
    model = models.model(name)
    source, target = (ops.convert_to_tensor(i) for i in (sources(), targets()))
    memory, mask, _ = model.encode(source)
    other = numpy(memory).copy()
    other[:, 1] += 1.0  # of 2 to 11 tokens: the last one of row 3
    found = [numpy(model.decode(target, m, mask).hidden) for m in (memory, other)]
    changed = np.abs(found[0] - found[1]).max(axis=(1, 2)) > 1e-4
    expected = [True] * 5 if name == "recurrent" else [False] * 3 + [True, False]
    assert changed.tolist() == expected


def test_the_attention_of_other_kinds_is_given():
    source, target = (ops.convert_to_tensor(i) for i in (sources(), targets()))
    for name, layers in (("recurrent", 1), ("convolutional, dilated", 2)):
        model = models.model(name)
        memory, mask, encoder = model.encode(source, return_attention_weights=True)
        _, own, cross = model.decode(
            target, memory, mask, return_attention_weights=True
        )
        assert (encoder, own, len(cross)) == ([], [], layers)
        blocked = np.broadcast_to((sources() == 0)[:, None, None], cross[0].shape)
        for weights in cross:
            np.testing.assert_allclose(numpy(weights).sum(axis=-1), 1.0, rtol=1e-5)
            assert (numpy(weights)[blocked] == 0).all()
        constants, cache = model.start(memory, mask, 1, 3)
        for position in range(3):
            place = ops.convert_to_tensor(position, dtype="int32")
            column = target[:, position : position + 1]  # (B, 1)
            _, cache, weights = model.decode_step(
                column, place, constants, cache, return_attention_weights=True
            )
            for its, whole in zip(weights, cross, strict=True):
                expected = numpy(whole)[:, :, position]  # (B, 1, S)
                np.testing.assert_allclose(numpy(its)[:, :, 0], expected, atol=1e-5)


def test_where_there_is_no_attention_none_is_given():
    source, target = (ops.convert_to_tensor(i) for i in (sources(), targets()))
    model = models.model("recurrent, no attention")
    memory, mask, _ = model.encode(source)
    constants, cache = model.start(memory, mask, 1, 3)
    message = "attention weights need .* this recurrent model has none"
    with pytest.raises(InputError, match=message):
        model.decode(target, memory, mask, return_attention_weights=True)
    with pytest.raises(InputError, match=message):
        model.decode_step(
            target[:, :1], 0, constants, cache, return_attention_weights=True
        )


@pytest.mark.parametrize(
    ("name", "reach"), [("convolutional", 4), ("convolutional, dilated", 2 + 4)]
)
def test_a_convolution_sees_so_far_and_no_further(name, reach):
    """Of the decoder: (kernel_size - 1) * dilation positions more with each layer."""
    model = models.build(name, num_decoder_layers=1 if name == "convolutional" else 2)
    target = ids((11,), seed=3)
    memory, mask, _ = model.encode(ops.convert_to_tensor(sources()[:1]))
    before = numpy(model.decode(ops.convert_to_tensor(target), memory, mask).hidden)
    target[:, 2] = target[:, 2] % 49 + 4
    after = numpy(model.decode(ops.convert_to_tensor(target), memory, mask).hidden)
    changed = np.flatnonzero(np.abs(before - after).max(axis=(0, 2)))
    expected = range(2, 2 + reach + 1)
    if name != "convolutional":  # every second position of the dilated layer
        assert changed.min() == 2 and changed.max() <= expected[-1]
        assert changed.max() == min(10, expected[-1])
    else:
        assert changed.tolist() == list(expected)


#: {name of a model of one layer: its weights on disk}
NAMES = {
    "recurrent": """
        embedding/embeddings decoder_0/lstm_cell/kernel
        decoder_0/lstm_cell/recurrent_kernel decoder_0/lstm_cell/bias
        decoder_0_residual/norm/gamma decoder_0_residual/norm/beta
        decoder_0_first_state/kernel decoder_0_first_state/bias
        decoder_attention/query_kernel decoder_attention/key_kernel
        decoder_attention/value_kernel decoder_attention/output_kernel
        decoder_attention/score_weights decoder_attention_residual/norm/gamma
        decoder_attention_residual/norm/beta encoder_0_forward/lstm_cell/kernel
        encoder_0_forward/lstm_cell/recurrent_kernel encoder_0_forward/lstm_cell/bias
        encoder_0_backward/lstm_cell/kernel
        encoder_0_backward/lstm_cell/recurrent_kernel encoder_0_backward/lstm_cell/bias
        encoder_0_residual/norm/gamma encoder_0_residual/norm/beta
    """,
    "convolutional": """
        embedding/embeddings encoder_0_convolution/convolution/kernel
        encoder_0_convolution/convolution/bias
        encoder_0_convolution_residual/norm/gamma
        encoder_0_convolution_residual/norm/beta
        decoder_0_convolution/convolution/kernel decoder_0_convolution/convolution/bias
        decoder_0_convolution_residual/norm/gamma
        decoder_0_convolution_residual/norm/beta decoder_0_attention/query_kernel
        decoder_0_attention/key_kernel decoder_0_attention/value_kernel
        decoder_0_attention/output_kernel decoder_0_attention_residual/norm/gamma
        decoder_0_attention_residual/norm/beta
    """,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_on_disk_stay(name):
    """A file with weights of these names is read for ever."""
    model = models.build(name, num_decoder_layers=1)
    assert {weight.path for weight in model.weights} == set(NAMES[name].split())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_recurrent_model_may_have_weights_of_half_the_precision(dtype):
    """Though no backend has the decomposition that makes orthogonal values."""
    model = models.build("recurrent", dtype)
    kernels = [v for v in model.weights if v.path.endswith("recurrent_kernel")]
    assert kernels and {v.dtype for v in kernels} == {dtype}
    for kernel in kernels:
        values = ops.convert_to_numpy(ops.cast(kernel, "float32"))
        np.testing.assert_allclose(values @ values.T, np.eye(len(values)), atol=0.05)
