"""What a layer takes as a mask or a bias, how it reads it, and what it refuses."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers import GatedConvolution
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import masks
from keras_transformer.layers import scaled_dot_product_attention
from reference.autodiff import of_tensors
from reference.sizes import BATCH
from reference.sizes import HEAD_DIM
from reference.sizes import HIDDEN_DIM
from reference.sizes import SOURCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.weights import normal
from reference.weights import numpy

pytestmark = pytest.mark.one_backend
TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=1)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=2)
RANDOM = np.random.default_rng(3)


def random_mask(*shape):
    mask = RANDOM.random(shape) < 0.5
    mask[..., 0] = True
    return mask


def attention(num_heads=BATCH):
    """As many heads as sentences, unless told otherwise."""
    layer = MultiHeadAttention(num_heads, HEAD_DIM, name="attention")
    layer.build(TARGET.shape, SOURCE.shape)
    return layer


def output(layer, dtype=None, **arguments):
    arguments = {
        name: ops.convert_to_tensor(array) for name, array in arguments.items()
    }
    tensors = (ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE))
    return numpy(layer(*tensors, **arguments))


# === How a mask is read ===


@pytest.mark.each_backend
def test_three_axes_are_sentences_even_where_there_are_as_many_heads():
    layer = attention()
    mask = random_mask(BATCH, TARGET_LENGTH, SOURCE_LENGTH)
    whole = np.broadcast_to(mask[:, None], (BATCH, BATCH, *mask.shape[1:]))
    expected = output(layer, attention_mask=whole)
    np.testing.assert_array_equal(output(layer, attention_mask=mask), expected)
    bias = np.where(mask, 0.0, masks.BLOCKED).astype("float32")
    np.testing.assert_array_equal(output(layer, attention_bias=bias), expected)
    heads = output(layer, attention_mask=mask[None])  # four axes: each head its own
    assert np.abs(heads - expected).max() > 1e-3


@pytest.mark.parametrize(
    "shape",
    [
        (SOURCE_LENGTH,),
        (TARGET_LENGTH, SOURCE_LENGTH),
        (1, TARGET_LENGTH, SOURCE_LENGTH),
        (BATCH, 1, SOURCE_LENGTH),
        (BATCH, 1, 1, SOURCE_LENGTH),
        (1, 3, TARGET_LENGTH, SOURCE_LENGTH),
    ],
    ids=str,
)
def test_masks_broadcast_from_the_axes_that_they_have(shape):
    layer, mask = attention(num_heads=3), random_mask(*shape)
    axes = mask[:, None] if len(shape) == 3 else mask
    whole = np.broadcast_to(axes, (BATCH, 3, TARGET_LENGTH, SOURCE_LENGTH))
    expected = output(layer, attention_mask=whole)
    np.testing.assert_array_equal(output(layer, attention_mask=mask), expected)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_whole_numbers_1_and_0_are_a_mask_as_in_keras(dtype):
    layer = attention()
    mask = random_mask(TARGET_LENGTH, SOURCE_LENGTH)
    found = output(layer, attention_mask=mask.astype(dtype))
    np.testing.assert_array_equal(found, output(layer, attention_mask=mask))


def test_a_mask_may_be_a_list():
    layer = attention()
    tensors = (ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE))
    mask = random_mask(TARGET_LENGTH, SOURCE_LENGTH)
    found = numpy(layer(*tensors, attention_mask=mask.tolist()))
    np.testing.assert_array_equal(found, output(layer, attention_mask=mask))


# === Mask and bias ===


def test_mask_and_bias_both_apply():
    layer = attention(num_heads=3)
    mask = random_mask(BATCH, TARGET_LENGTH, SOURCE_LENGTH)
    bias = normal(3, TARGET_LENGTH, SOURCE_LENGTH, seed=4)[None]
    found = output(layer, attention_mask=mask, attention_bias=bias)
    both = np.where(mask[:, None], bias, masks.BLOCKED).astype("float32")
    np.testing.assert_allclose(found, output(layer, attention_bias=both), atol=1e-6)
    for alone in ({"attention_mask": mask}, {"attention_bias": bias}):
        assert np.abs(found - output(layer, **alone)).max() > 1e-3


def test_mask_and_bias_both_apply_in_blocks():
    tensors = [ops.convert_to_tensor(array) for array in (TARGET, SOURCE)]
    mask = {"self": random_mask(TARGET_LENGTH, TARGET_LENGTH)}
    mask["cross"] = random_mask(TARGET_LENGTH, SOURCE_LENGTH)
    bias = {name: normal(*each.shape) for name, each in mask.items()}
    joined = {
        name: np.where(each, bias[name], masks.BLOCKED).astype("float32")
        for name, each in mask.items()
    }
    encoder, decoder = EncoderBlock(8, 2), DecoderBlock(8, 2)
    for block, inputs in ((encoder, tensors[:1]), (decoder, tensors)):
        arguments, expected = {}, {}
        for name in ("self", "cross")[: len(inputs)]:
            prefix = "" if name == "self" else "cross_"
            arguments[f"{prefix}attention_mask"] = ops.convert_to_tensor(mask[name])
            arguments[f"{prefix}attention_bias"] = ops.convert_to_tensor(bias[name])
            expected[f"{prefix}attention_bias"] = ops.convert_to_tensor(joined[name])
        np.testing.assert_allclose(
            numpy(block(*inputs, **arguments)),
            numpy(block(*inputs, **expected)),
            atol=1e-6,
        )


# === What is refused ===

FLOATS = [np.ones((1, 1), "float32"), np.zeros((1, 1), "float16")]


@pytest.mark.parametrize("mask", FLOATS, ids=["ones", "zeros"])
def test_floats_are_no_mask(mask):
    """Read as boolean, 0 and -1e9 would be exactly reversed."""
    with pytest.raises(ValueError, match=r"attention: attention_mask is .*_bias"):
        output(attention(), attention_mask=mask)
    tensor = ops.convert_to_tensor(mask)
    with pytest.raises(ValueError, match=r"attention_mask is .* attention_bias"):
        masks.attention_bias(tensor)
    with pytest.raises(ValueError, match="joins boolean masks, got one of float"):
        masks.combine(tensor)
    convolution = GatedConvolution(3, name="convolution")
    with pytest.raises(ValueError, match="convolution: padding_mask is float"):
        convolution(ops.zeros((2, 3, 4)), padding_mask=ops.zeros((2, 1, 1, 3)))


@pytest.mark.parametrize(
    "block", [EncoderBlock(8, 2), DecoderBlock(8, 2)], ids=["encoder", "decoder"]
)
def test_floats_are_no_mask_of_a_functional_model(block):
    """Said when it is put together, not when it runs."""
    inputs = [keras.Input((None, HIDDEN_DIM))] * (1 + isinstance(block, DecoderBlock))
    with pytest.raises(ValueError, match="attention_mask is float32"):
        block(*inputs, attention_mask=keras.Input((1, 1, None)))


@pytest.mark.parametrize("number", [-1, 2, -10_000])
def test_other_whole_numbers_are_no_mask(number):
    mask = np.array([[1, number] + [0] * (SOURCE_LENGTH - 2)], "int32")
    with pytest.raises(ValueError, match=f"whole number {number}, .*attention_bias"):
        output(attention(), attention_mask=mask)


@pytest.mark.each_backend
def test_other_whole_numbers_inside_a_program_are_no_plausible_output():
    layer = attention()

    def program(mask):
        tensors = (ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE))
        mask = ops.cast(mask, "int32")
        return layer(*tensors, attention_mask=mask)

    if keras.backend.backend() == "jax":
        import jax

        program = jax.jit(program)
    elif keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        program = tf.function(program)
    else:
        pytest.skip("PyTorch runs what it is told at once, and looks at the numbers")
    mask = random_mask(TARGET_LENGTH, SOURCE_LENGTH).astype("int32")
    found = numpy(program(ops.convert_to_tensor(mask)))
    expected = output(layer, attention_mask=mask.astype(bool))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    wrong = numpy(program(ops.convert_to_tensor(-10_000 * mask)))
    assert np.isnan(wrong).all()


@pytest.mark.parametrize("dtype", ["bool", "int32"])
def test_a_mask_is_no_bias(dtype):
    """Added to the scores, True would hide nothing and raise a little."""
    bias = np.ones((TARGET_LENGTH, SOURCE_LENGTH), dtype)
    with pytest.raises(ValueError, match=rf"attention_bias is {dtype}.*attention_mask"):
        output(attention(), attention_bias=bias)
    query = ops.convert_to_tensor(TARGET)
    with pytest.raises(ValueError, match=f"bias is {dtype}"):
        scaled_dot_product_attention(query, query, query, ops.convert_to_tensor(bias))


@pytest.mark.parametrize(
    "shape",
    [
        (BATCH, SOURCE_LENGTH),
        (3, TARGET_LENGTH, SOURCE_LENGTH),
        (3, BATCH, TARGET_LENGTH, SOURCE_LENGTH),
        (BATCH, 1, 1, 1, SOURCE_LENGTH),
        (BATCH, 1, 1, TARGET_LENGTH),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["attention_mask", "attention_bias"])
def test_a_mask_that_fits_no_reading_is_refused(name, shape):
    """Of padding without its axes, of heads without the batch, of other axes."""
    dtype = "bool" if name == "attention_mask" else "float32"
    with pytest.raises(ValueError, match=rf"attention: {name} has the shape .*padding"):
        output(attention(num_heads=3), **{name: np.ones(shape, dtype)})


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3, 3), (3,)], ids=str)
def test_a_convolution_refuses_other_masks_than_of_padding(shape):
    with pytest.raises(ValueError, match=r"padding_mask has the shape .*positions"):
        GatedConvolution(3)(ops.zeros((2, 3, 4)), padding_mask=ops.ones(shape, "bool"))


@pytest.mark.each_backend
def test_gradients_of_a_masked_bias_are_those_of_what_is_allowed():
    mask = random_mask(TARGET_LENGTH, SOURCE_LENGTH)
    layer = attention()

    def function(bias):
        tensors = (ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE))
        found = layer(*tensors, attention_mask=mask, attention_bias=bias)
        return ops.sum(found), ()

    _, (gradient,) = of_tensors(function, [normal(*mask.shape, seed=5)])
    assert (gradient[~mask] == 0).all() and np.abs(gradient[mask]).max() > 1e-3


@pytest.mark.each_backend
@pytest.mark.parametrize("policy", ["float16", "mixed_float16"])
def test_a_bias_that_float16_cannot_hold_blocks_as_a_mask_does(policy):
    layer = MultiHeadAttention(num_heads=2, head_dim=4, dtype=policy)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(2, 3, 8)).astype("float32")
    mask = np.array([[True, True, False], [False, False, False]])[:, None, None]
    bias = np.where(mask, 0.0, -1e9).astype("float32")
    by_bias = ops.convert_to_numpy(layer(inputs, attention_bias=bias))
    by_mask = ops.convert_to_numpy(layer(inputs, attention_mask=mask))
    np.testing.assert_array_equal(by_bias, by_mask)
    assert np.isfinite(by_bias).all()
