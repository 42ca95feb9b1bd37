"""Repeatable random draws for layers that the backward pass recomputes.

Recomputation (`keras.RematScope`, `torch.utils.checkpoint`) runs a function again and
resets PyTorch's generator first, but not Keras' seed generators. So each draw is
identified by a number from PyTorch's generator.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import torch

_MOST = 2**16  # draws between a forward pass and its backward pass

_drawn: collections.OrderedDict[Any, Any] = (
    collections.OrderedDict()
)  # identifier -> the drawn value


def once(draw: Callable[[], Any]) -> Any:
    """`draw()`; during recomputation, its value in the forward pass."""
    backward = torch._C._current_graph_task_id() != -1
    if not backward and not _recomputing_later():
        return draw()
    name = int(torch.randint(2**62, (), device="cpu"))
    if backward:
        if name not in _drawn:
            raise RuntimeError(
                "dropout is recomputed in a backward pass, but its mask of the "
                "forward pass is not known; call torch.utils.checkpoint with "
                "use_reentrant=False and preserve_rng_state=True, as "
                "keras.RematScope does"
            )
        return _drawn[name]
    _drawn[name] = draw()
    if len(_drawn) > _MOST:
        _drawn.popitem(last=False)
    return _drawn[name]


def _recomputing_later() -> bool:
    """Whether saved tensors for gradients are replaced, as in recomputation."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
