"""Which positions may attend to which: pure functions on boolean tensors.

True means "may attend", everywhere. A mask has any shape that broadcasts to the
attention scores (B, H, T, S).

B batch, T query positions, S key positions.
"""

from keras import ops

# Added to the float32 scores of blocked pairs. Finite, so that a row in which
# everything is blocked stays finite; also in float16, to which Keras casts the inputs
# of a layer under that policy. So large that exp() of it is exactly 0 in any row where
# something is allowed.
BLOCKED = -6e4


def padding_mask(ids, pad_id=0):
    """True where `ids` hold a token: (B, S) int -> (B, 1, 1, S) bool.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import masks
    >>> ops.convert_to_numpy(masks.padding_mask(ops.array([[5, 6, 0]])))[0, 0]
    array([[ True,  True, False]])
    """
    return ops.expand_dims(ops.not_equal(ids, pad_id), (1, 2))


def causal_mask(query_length, key_length=None, offset=0):
    """True where the key is not later than the query: (T, S) bool.

    Args:
        query_length: T, an int or a scalar tensor.
        key_length: S; default T.
        offset: the position of the first query, for cached decoding.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    distance = _distance(query_length, key_length, offset)
    return ops.less_equal(distance, 0)


def local_mask(query_length, window, key_length=None, offset=0):
    """True where query and key are at most `window` apart: (T, S) bool.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 4,
    "restricted self-attention" with neighbourhood r = `window`.
    """
    distance = _distance(query_length, key_length, offset)
    return ops.less_equal(ops.abs(distance), window)


def combine(*masks):
    """The masks' conjunction, broadcast; None counts as "all allowed"."""
    combined = None
    for mask in masks:
        if mask is None:
            continue
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def attention_bias(mask):
    """A boolean mask as a float32 term to add to the scores: 0 or `BLOCKED`."""
    return ops.where(mask, 0.0, BLOCKED)


def _distance(query_length, key_length, offset):
    """Key position minus query position: (T, S) int32."""
    queries = ops.arange(query_length, dtype="int32") + offset
    if key_length is None:
        key_length = query_length
    keys = ops.arange(key_length, dtype="int32")
    return ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)
