"""Masks against their definitions, pair by pair."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import AttentionBias
from keras_transformer.layers import masks
from reference.numpy_layers import causal_mask
from reference.numpy_layers import local_mask
from reference.sizes import SOURCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.weights import numpy
from reference.weights import targets

pytestmark = pytest.mark.no_tensorflow


def test_padding_mask_is_true_at_tokens():
    ids = targets()
    mask = numpy(masks.padding_mask(ops.convert_to_tensor(ids)))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, (ids != 0)[:, None, None, :])
    other = numpy(masks.padding_mask(ops.convert_to_tensor(ids), pad_id=int(ids[0, 0])))
    assert not other[0, 0, 0, 0] and other[1, 0, 0, -1]


def test_causal_mask_lets_see_what_is_not_later():
    mask = numpy(masks.causal_mask(TARGET_LENGTH))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, causal_mask(TARGET_LENGTH))


@pytest.mark.parametrize("window", [1, 3, 100])
def test_local_mask_lets_see_the_neighbours(window):
    mask = numpy(masks.local_mask(SOURCE_LENGTH, window))
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, local_mask(SOURCE_LENGTH, window))


@pytest.mark.parametrize("position", range(TARGET_LENGTH))
def test_an_offset_gives_one_row_of_the_whole_mask(position):
    """What cached decoding asks for, with the position as a tensor."""
    offset = ops.convert_to_tensor(position, dtype="int32")
    for row, whole in (
        (masks.causal_mask(1, TARGET_LENGTH, offset), causal_mask(TARGET_LENGTH)),
        (masks.local_mask(1, 2, TARGET_LENGTH, offset), local_mask(TARGET_LENGTH, 2)),
    ):
        np.testing.assert_array_equal(numpy(row), whole[position : position + 1])


def test_combine_is_the_conjunction_and_none_allows_all():
    first = ops.convert_to_tensor([[True], [False]])
    second = ops.convert_to_tensor([[True, False]])
    both = numpy(masks.combine(None, first, None, second))
    np.testing.assert_array_equal(both, [[True, False], [False, False]])
    assert masks.combine(None, first) is first
    assert masks.combine(None) is None


def test_bias_blocks_exactly_and_stays_finite():
    bias = masks.attention_bias(ops.convert_to_tensor([True, False]))
    assert numpy(bias).dtype == "float32"
    for dtype in ("float32", "bfloat16", "float16"):  # as a layer may get it
        allowed, blocked = numpy(ops.cast(bias, dtype))
        assert allowed == 0 and np.isfinite(blocked)
        assert np.exp(np.float32(50_000) + blocked) == 0  # whatever the score is


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({}, (1, 1, 1, TARGET_LENGTH)),
        ({"pad_id": 0}, (5, 1, 1, TARGET_LENGTH)),
        ({"causal": True}, (1, 1, TARGET_LENGTH, TARGET_LENGTH)),
        ({"window": 2}, (1, 1, TARGET_LENGTH, TARGET_LENGTH)),
        ({"pad_id": 0, "window": 2}, (5, 1, TARGET_LENGTH, TARGET_LENGTH)),
        (
            {"pad_id": 0, "causal": True, "window": 2},
            (5, 1, TARGET_LENGTH, TARGET_LENGTH),
        ),
    ],
    ids=str,
)
def test_attention_bias_layer_combines_the_masks(arguments, shape):
    ids = targets()
    layer = AttentionBias(**arguments)
    bias = numpy(layer(ops.convert_to_tensor(ids)))
    assert bias.shape == layer.compute_output_shape(ids.shape) == shape
    expected = np.ones((1, 1, TARGET_LENGTH, TARGET_LENGTH), dtype=bool)
    if "pad_id" in arguments:
        expected = expected & (ids != 0)[:, None, None, :]
    if "causal" in arguments:
        expected = expected & causal_mask(TARGET_LENGTH)
    if "window" in arguments:
        expected = expected & local_mask(TARGET_LENGTH, 2)
    np.testing.assert_array_equal(np.broadcast_to(bias == 0, expected.shape), expected)


@pytest.mark.one_backend
def test_what_is_no_window_and_no_batch_is_refused():
    with pytest.raises(ValueError, match="window must be at least 0, got -1"):
        AttentionBias(window=-1)
    with pytest.raises(ValueError, match=r"shape \(3,\).*a batch of one"):
        AttentionBias(pad_id=0)(np.array([5, 6, 0]))
