"""PyTorch: loops run a traced graph of their body; torch.distributed for replicas."""

import contextlib
import contextvars
import itertools

import keras
import numpy as np
import torch
from keras import ops
from keras import tree
from torch.utils import _pytree as pytree

from keras_transformer.backends.torch_tracing import trace

# Of the program that is running: {(loop, options, shapes): traced body}, its options,
# and the numbers of its loops.
_graphs = contextvars.ContextVar("graphs", default=None)


def compile(function, model):
    graphs = {}

    def run(*arguments, **options):
        arguments = tree.map_structure(ops.convert_to_tensor, arguments)
        with torch.no_grad(), _collecting(graphs, tuple(sorted(options.items()))):
            return function(*arguments, **options)

    return run


@contextlib.contextmanager
def _collecting(graphs, options):
    token = _graphs.set((graphs, options, itertools.count()))
    try:
        yield
    finally:
        _graphs.reset(token)


def concrete(tensor):
    if isinstance(tensor, keras.KerasTensor):
        return None
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    # A fake or meta tensor has a shape alone.
    if type(tensor) is not torch.Tensor or tensor.device.type != "cpu":
        return None
    return tensor.numpy()


def loop(condition, body, state, constants):
    if _graphs.get() is None:  # not compiled
        while condition(state):
            state = body(state, constants)
        return state
    graphs, options, numbers = _graphs.get()
    flat, structure = pytree.tree_flatten((state, constants))
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in flat)
    key = (next(numbers), options, structure, shapes)
    if key not in graphs:
        # On copies: the body writes into its caches.
        copies = pytree.tree_map(torch.clone, (state, constants))
        graphs[key] = trace(body, *copies)
    traced = graphs[key]
    while condition(state):
        state = traced(state, constants)
    return state


def scan(step, carry, chunks):
    outputs = []
    for chunk in zip(*chunks, strict=True):
        carry, output = step(carry, chunk)
        outputs.append(output)
    return carry, pytree.tree_map(lambda *parts: torch.stack(parts), *outputs)


def update_cache(cache, update, position):
    # In place: a fresh cache a step would cost more than the rest of the step.
    index = torch.as_tensor(position, device=cache.device).reshape(1)
    return cache.index_copy_(-2, index.long(), update.to(cache.dtype))


def top_k(scores, k):
    return _top_k(scores, k)


# An operation of its own: what it does depends on values, which a trace cannot.
@torch.library.custom_op("keras_transformer::top_k", mutates_args=())
def _top_k(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.topk breaks ties as it likes: rows that have one are sorted instead."""
    size = scores.shape[-1]
    values, indices = torch.topk(scores, min(k + 1, size))
    equal = (values[..., 1:] == values[..., :-1]) & (values[..., 1:] > -torch.inf)
    values, indices = values[..., :k].contiguous(), indices[..., :k].contiguous()
    tied = equal.any(-1)
    if tied.any():
        order = torch.sort(scores[tied], dim=-1, descending=True, stable=True)
        values[tied], indices[tied] = order.values[..., :k], order.indices[..., :k]
    return values, indices.int()


@_top_k.register_fake
def _(scores, k):
    values = scores.new_empty((*scores.shape[:-1], k))
    return values, torch.empty_like(values, dtype=torch.int32)


def sum_over_replicas(value):
    if not _several_processes():
        return value
    value = value.clone()
    torch.distributed.all_reduce(value)
    return value


def train_step(model, default, *arguments):
    if not _several_processes():
        return default(*arguments)
    with _summed_gradients(model.optimizer):
        return default(*arguments)


def _several_processes():
    return (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    )


@contextlib.contextmanager
def _summed_gradients(optimizer):
    """Within it, the optimizer applies the sum of all processes' gradients."""
    apply = optimizer.apply

    def apply_sums(gradients, trainable_variables=None):
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        torch.distributed.all_reduce(flat)
        sums = flat.split([gradient.numel() for gradient in gradients])
        gradients = [s.view_as(g) for s, g in zip(sums, gradients, strict=True)]
        return apply(gradients, trainable_variables)

    optimizer.apply = apply_sums
    try:
        yield
    finally:
        del optimizer.apply


def random_state():
    return torch.get_rng_state().numpy()


def restore_random_state(state):
    torch.set_rng_state(torch.from_numpy(state))
