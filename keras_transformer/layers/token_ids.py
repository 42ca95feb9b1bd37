"""Ids of tokens as layers get them: whole numbers, whatever their dtype.

B batch, T positions.
"""

from __future__ import annotations

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.tensors import Tensor


def whole_ids(ids: Tensor, name: str) -> Tensor:
    """Ids (B, T) as whole numbers; int tensors are returned unchanged.

    Keras converts inputs without a dtype to floats. Float32 represents every id up to
    2 ** 24 exactly; half precision would round ids and so look up another row.

    Args:
        ids: (B, T), or any other shape.
        name: of the layer or argument, for the message.

    Returns:
        The ids; int32 where they were floats.

    Raises:
        ValueError: the ids are floats of half precision, or are known not to be whole.
    """
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if "int" in dtype:
        return ids
    if dtype not in ("float32", "float64"):
        raise ValueError(
            f"{name} got ids as {dtype}, which cannot represent large integers "
            f"exactly; give them as int32"
        )
    values = backends.concrete(ids)
    if values is not None and (values % 1 != 0).any():
        wrong = values[values % 1 != 0][0]
        raise ValueError(f"{name} got the id {wrong}, which is not a whole number")
    return ops.cast(ids, "int32")
