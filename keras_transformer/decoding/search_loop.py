"""Loop of a search, which drops rows that are finished.

B batch, N active rows.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: With fewer rows a step takes nearly as long, and each loop takes time to compile.
MANY_ROWS = 32

_is_whole = contextvars.ContextVar("is_whole", default=False)


@contextlib.contextmanager
def one_loop() -> Iterator[None]:
    """A context in which a search is one loop, however many rows it has.

    That compiles sooner and runs longer.
    """
    token = _is_whole.set(True)
    try:
        yield
    finally:
        _is_whole.reset(token)


def search_loop(
    body: Callable[..., Any],
    state: Any,
    constants: Tensors,
    *,
    rows: int | Tensor,
    length: int | Tensor,
) -> Any:
    """Runs steps until all rows are finished.

    Rows end at very different steps, and a finished row costs as much as any other. So
    for a large batch the loop ends once half of its rows are left, and another loop
    continues with the state and constants of that half. Not so within `one_loop()`.

    Args:
        body: `(state, constants) -> state`, which does not change finished rows, except
            for their cache.
        state: a named tuple with `position`, `done` and `cache`. Its tensors, nested
            ones too, have B along the first axis, or a multiple of it (a row's entries
            adjacent), or are scalars.
        constants: nested tensors of such shapes.
        rows: B; where it is dynamic, there is only one loop.
        length: the maximum number of steps.

    Returns:
        The final state, without its cache.
    """
    is_large = isinstance(rows, int) and rows >= MANY_ROWS
    divided = is_large and not _is_whole.get()
    half = rows // 2 if divided else 0

    def condition(state: Any) -> Tensor:
        if half:
            active = ops.sum(ops.cast(_active(state.done, rows), "int32")) > half
        else:
            active = ops.logical_not(ops.all(state.done))
        return ops.logical_and(state.position < length, active)

    state = backends.loop(condition, body, state, constants)
    if not half:
        return state._replace(cache=())
    # Active rows first; where they are fewer than half, others fill up.
    active = ops.cast(_active(state.done, rows), "float32")
    _, kept_rows = backends.top_k(active, half)  # (N,)
    part = tree.map_structure(lambda t: _take(t, kept_rows, rows), (state, constants))
    part = search_loop(body, *part, rows=half, length=length)
    state = state._replace(cache=())
    return tree.map_structure(lambda t, new: _put(t, new, kept_rows, rows), state, part)


def _active(done: Tensor, rows: int | Tensor) -> Tensor:
    """Which rows (B,) are not finished."""
    return ops.logical_not(ops.all(ops.reshape(done, (rows, -1)), axis=1))


def _take(tensor: Tensor, indices: Tensor, rows: int | Tensor) -> Tensor:
    """The rows `indices` (N,) of a tensor."""
    if len(tensor.shape) == 0:
        return tensor
    _, *rest = tensor.shape
    by_row = ops.reshape(tensor, (rows, -1, *rest))
    return ops.reshape(ops.take(by_row, indices, axis=0), (-1, *rest))


def _put(tensor: Tensor, new: Tensor, indices: Tensor, rows: int | Tensor) -> Tensor:
    """A tensor with new rows at `indices`; for a scalar, the new scalar."""
    if len(tensor.shape) == 0:
        return new
    _, *rest = tensor.shape
    by_row = ops.reshape(tensor, (rows, -1, *rest))
    new = ops.reshape(new, (indices.shape[0], -1, *rest))
    by_row = ops.scatter_update(by_row, ops.expand_dims(indices, 1), new)
    return ops.reshape(by_row, tensor.shape)
