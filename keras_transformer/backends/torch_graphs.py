"""Steps of a loop as CUDA graphs: one launch a step instead of some hundred.

A step of a search has hundreds of small kernels, which a GPU ends faster than Python
can start them: on an H100, a step of one sentence took 10 ms and its 340 kernels 0.8.
A CUDA graph records the kernels once, with the addresses of their tensors, and starts
all of them at once. So the state of a loop and its constants lie in buffers that do not
move: a loop copies them there, and its result from there.

Reference: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#cuda-graphs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from keras_transformer.tensors import Tensors

Replay = Callable[[], Any]

#: Buffers begin at multiples of so many bytes, as those of CUDA itself.
_ALIGNMENT = 256

# What all buffers lie in: one loop runs at a time, and takes nothing from another.
_arenas: dict[torch.device, torch.Tensor] = {}


class RecordedSteps:
    """The steps of a loop for tensors of one shape, recorded as a graph.

    Args:
        step: `(state, constants) -> (state, going)`, traced, so that it neither moves
            data from the host nor waits for any; `going` says whether a next step is
            needed, () bool.
        state, constants: nested tensors, for their shapes.
        record: makes what repeats the kernels of a function, see `RECORDERS`.
    """

    def __init__(
        self,
        step: Callable[[Tensors, Tensors], tuple[Tensors, torch.Tensor]],
        state: Tensors,
        constants: Tensors,
        record: Callable[[Callable[[], None]], Replay],
    ) -> None:
        leaves, self._structure = pytree.tree_flatten((state, constants))
        self._num_state = len(pytree.tree_leaves(state))
        self._buffers = _buffers(leaves)
        self._going = torch.ones((), dtype=torch.bool, device=leaves[0].device)
        self._load(leaves)
        self._replay = record(functools.partial(self._step, step))

    def run(self, state: Tensors, constants: Tensors) -> Tensors:
        """The state after the last step, from one that needs a step."""
        self._load(pytree.tree_leaves((state, constants)))
        going = True
        while going:
            self._replay()
            going = self._going.item()  # waits for the device
        leaves = [buffer.clone() for buffer in self._buffers[: self._num_state]]
        return pytree.tree_unflatten(leaves, pytree.tree_structure(state))

    def _load(self, leaves: list[torch.Tensor]) -> None:
        for buffer, leaf in zip(self._buffers, leaves, strict=True):
            buffer.copy_(leaf)

    def _step(self, step: Callable[..., Any]) -> None:
        buffers = self._buffers[: self._num_state]
        results, going = step(*pytree.tree_unflatten(self._buffers, self._structure))
        changed = [
            (buffer, self._apart(result))
            for buffer, result in zip(buffers, pytree.tree_leaves(results), strict=True)
            if result is not buffer  # a cache is written in place
        ]
        for buffer, result in changed:
            buffer.copy_(result)
        self._going.copy_(going)

    def _apart(self, result: torch.Tensor) -> torch.Tensor:
        """A result that no buffer holds, since they are written one after another."""
        arena = self._buffers[0].untyped_storage().data_ptr()
        lies_there = result.untyped_storage().data_ptr() == arena
        return result.clone() if lies_there else result


def _buffers(leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    """Contiguous tensors like these, in the arena of their device."""
    offsets, size = [], 0
    for leaf in leaves:
        offsets.append(size)
        size += -(-leaf.numel() * leaf.element_size() // _ALIGNMENT) * _ALIGNMENT
    device = leaves[0].device
    arena = _arenas.get(device)
    if arena is None or arena.numel() < size:
        # Recorded steps hold the one that they were recorded with.
        arena = _arenas[device] = torch.empty(size, dtype=torch.uint8, device=device)
    return [
        arena[start : start + leaf.numel() * leaf.element_size()]
        .view(leaf.dtype)
        .view(leaf.shape)
        for start, leaf in zip(offsets, leaves, strict=True)
    ]


@functools.cache
def _pool() -> Any:
    """The memory of all graphs for what they hold within a step."""
    return torch.cuda.graph_pool_handle()


def _cuda_graph(function: Callable[[], None]) -> Replay:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()  # libraries prepare themselves in a first run
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # Other threads may go on with the device.
    mode = {"capture_error_mode": "thread_local"}
    with torch.cuda.graph(graph, pool=_pool(), **mode):
        function()
    return graph.replay


#: By type of device: a function that makes a callable which repeats what a function
#: has the device do. Elsewhere steps are plain calls.
RECORDERS: dict[str, Callable[[Callable[[], None]], Replay]] = {"cuda": _cuda_graph}
