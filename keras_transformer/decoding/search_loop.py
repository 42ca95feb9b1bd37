"""The loop of a search, which goes on without the rows that are done.

B batch, N rows that go on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: With fewer rows a step takes nearly as long, and each loop has its time to compile.
MANY_ROWS = 32


def search_loop(
    body: Callable[..., Any],
    state: Any,
    constants: Tensors,
    *,
    rows: int | Tensor,
    length: int | Tensor,
) -> Any:
    """Steps until all rows are done.

    Rows end at very different steps, and one that is done costs a step as much as any
    other. So where the batch is large, the loop ends once half of its rows are left,
    and another one follows it, over state and constants of that half.

    Args:
        body: `(state, constants) -> state`, which leaves rows that are done as they
            are, but for their cache.
        state: a named tuple with `position`, `done` and `cache`. Its tensors, and those
            nested in it, have B along the first axis, or a multiple of it (all of a row
            together), or are scalars.
        constants: nested tensors of such shapes.
        rows: B; where it is not known before the program runs, there is one loop.
        length: the most steps taken.

    Returns:
        The state in the end, without its cache.
    """
    divided = isinstance(rows, int) and rows >= MANY_ROWS
    half = rows // 2 if divided else 0

    def condition(state: Any) -> Tensor:
        if half:
            going = ops.sum(ops.cast(_going(state.done, rows), "int32")) > half
        else:
            going = ops.logical_not(ops.all(state.done))
        return ops.logical_and(state.position < length, going)

    state = backends.loop(condition, body, state, constants)
    if not half:
        return state._replace(cache=())
    # Those that go on first; where they are fewer than half, others fill it.
    going = ops.cast(_going(state.done, rows), "float32")
    _, left = backends.top_k(going, half)  # (N,)
    part = tree.map_structure(lambda t: _take(t, left, rows), (state, constants))
    part = search_loop(body, *part, rows=half, length=length)
    state = state._replace(cache=())
    return tree.map_structure(lambda t, new: _put(t, new, left, rows), state, part)


def _going(done: Tensor, rows: int | Tensor) -> Tensor:
    """Which rows (B,) have something that is not done."""
    return ops.logical_not(ops.all(ops.reshape(done, (rows, -1)), axis=1))


def _take(tensor: Tensor, left: Tensor, rows: int | Tensor) -> Tensor:
    """The rows `left` (N,) of a tensor."""
    if len(tensor.shape) == 0:
        return tensor
    _, *rest = tensor.shape
    each = ops.reshape(tensor, (rows, -1, *rest))
    return ops.reshape(ops.take(each, left, axis=0), (-1, *rest))


def _put(tensor: Tensor, new: Tensor, left: Tensor, rows: int | Tensor) -> Tensor:
    """A tensor with new rows in the places `left`; for a scalar the new one."""
    if len(tensor.shape) == 0:
        return new
    _, *rest = tensor.shape
    each = ops.reshape(tensor, (rows, -1, *rest))
    new = ops.reshape(new, (left.shape[0], -1, *rest))
    each = ops.scatter_update(each, ops.expand_dims(left, 1), new)
    return ops.reshape(each, tensor.shape)
