"""Random draws that PyTorch must repeat when the backward pass recomputes a layer.

Recomputation (`keras.RematScope`, `torch.utils.checkpoint`) runs a function again and
winds back PyTorch's own generator before, but not what Keras draws seeds from. So a
number from that generator names each draw.
"""

import collections
from typing import Any

import torch

_MOST = 2**16  # draws between a forward pass and its backward pass

_drawn: collections.OrderedDict[Any, Any] = (
    collections.OrderedDict()
)  # name -> what was drawn


def once(draw):
    """`draw()`; while a layer is computed again, what it gave in the forward pass."""
    backward = torch._C._current_graph_task_id() != -1
    if not backward and not _recomputing_later():
        return draw()
    name = int(torch.randint(2**62, (), device="cpu"))
    if backward:
        if name not in _drawn:
            raise RuntimeError(
                "dropout is computed again in a backward pass, but what it dropped "
                "before is not known; call torch.utils.checkpoint with "
                "use_reentrant=False and preserve_rng_state=True, as "
                "keras.RematScope does"
            )
        return _drawn[name]
    _drawn[name] = draw()
    if len(_drawn) > _MOST:
        _drawn.popitem(last=False)
    return _drawn[name]


def _recomputing_later():
    """Whether something takes the place of tensors that are saved for gradients."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
