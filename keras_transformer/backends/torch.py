"""PyTorch: loops run a traced graph of their body; torch.distributed for replicas."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import math
import threading
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import torch
import torch.utils.checkpoint
from keras import ops
from keras import tree
from torch.utils import _pytree as pytree

from keras_transformer.backends import forks
from keras_transformer.backends import host_memory
from keras_transformer.backends import torch_recomputation
from keras_transformer.backends.programs import kept
from keras_transformer.backends.random_words import random_words
from keras_transformer.backends.random_words import row_places
from keras_transformer.backends.random_words import signed
from keras_transformer.backends.steps import GPU_CHUNK_TOKENS
from keras_transformer.backends.steps import GPU_PRODUCT_MULTIPLE
from keras_transformer.backends.steps import Rows
from keras_transformer.backends.steps import added
from keras_transformer.backends.steps import caught_gradients
from keras_transformer.backends.steps import divided
from keras_transformer.backends.steps import drawing
from keras_transformer.backends.steps import drawn_rows
from keras_transformer.backends.torch_distribution import distributions  # noqa: F401
from keras_transformer.backends.torch_graphs import RECORDERS
from keras_transformer.backends.torch_graphs import RecordedSteps
from keras_transformer.backends.torch_steps import TracedSteps
from keras_transformer.backends.torch_tracing import trace
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

_aten = torch.ops.aten

# The number of eager runs of a loop's body before it is traced: tracing takes seconds,
# and a traced step of a small model saves hundredths of a second.
EAGER_STEPS = 48

# Of so many steps, all are traced: the rows of a batch, which become fewer, share them
# among three loops or so, and each should make as many as the eager ones.
_MANY_STEPS = 192
_expected_steps: contextvars.ContextVar[int] = contextvars.ContextVar(
    "expected_steps", default=0
)

# State of the running program: the bodies of its loops, its options, and the numbers of
# its loops.
_program: contextvars.ContextVar[Any] = contextvars.ContextVar("program", default=None)

# Held by the thread whose program is running. While tracing, PyTorch patches
# torch.nn.Module, the base of Keras' layers: calls of other threads would be traced
# too.
_running = threading.RLock()

traces_training = True
compiles_few_rows = False
compiles_loops = False
hoists_invariants = False
takes_one_buffer = False
untracked = frozenset[str]()
use_cudnn = "auto"


def compile(
    function: Callable[..., Tensors], model: Any, few_rows: bool = False
) -> Callable[..., Tensors]:
    bodies = kept(lambda *key: _Body())

    def run(*arguments: Tensors, **options: Any) -> Tensors:
        note_work()
        arguments = tree.map_structure(ops.convert_to_tensor, arguments)
        program = _as_program(bodies, tuple(sorted(options.items())))
        with _running, torch.no_grad(), program:
            return function(*arguments, **options)

    return run


@contextlib.contextmanager
def expecting(steps: int) -> Iterator[None]:
    token = _expected_steps.set(steps)
    try:
        yield
    finally:
        _expected_steps.reset(token)


def note_work(builds: bool = False) -> None:
    forks.check()
    if not builds:  # which starts no threads
        forks.note()


@contextlib.contextmanager
def _as_program(bodies: Callable[..., Any], options: Any) -> Iterator[None]:
    token = _program.set((bodies, options, itertools.count()))
    try:
        yield
    finally:
        _program.reset(token)


class _Body:
    """The steps of a loop: eager at first, then those of a traced graph.

    On a GPU that graph is recorded as a CUDA graph.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._traced: Callable[..., tuple[Tensors, Tensor]] | None = None
        self._recorded: RecordedSteps | None = None

    def run(
        self,
        condition: Callable[[Tensors], Tensor],
        body: Callable[[Tensors, Tensors], Tensors],
        state: Tensors,
        constants: Tensors,
    ) -> Tensors:
        """The state after the last step, from one that needs a step."""

        def step(state: Tensors, constants: Tensors) -> tuple[Tensors, Tensor]:
            state = body(state, constants)
            return state, condition(state)

        going: Any = True
        while going:
            if self._traced is None and self._is_worth_it():
                self._trace(step, state, constants)
            if self._recorded is not None:
                return self._recorded.run(state, constants)
            self._steps += 1
            state, going = (self._traced or step)(state, constants)
        return state

    def _is_worth_it(self) -> bool:
        return self._steps >= EAGER_STEPS or _expected_steps.get() >= _MANY_STEPS

    def _trace(
        self, step: Callable[..., Any], state: Tensors, constants: Tensors
    ) -> None:
        # On copies: the body writes into its caches.
        state, constants = pytree.tree_map(torch.clone, (state, constants))
        self._traced = trace(step, state, constants)
        devices = {tensor.device for tensor in pytree.tree_leaves((state, constants))}
        record = RECORDERS.get(devices.pop().type)
        if record is None or devices:
            return
        try:
            self._recorded = RecordedSteps(self._traced, state, constants, record)
        except RuntimeError as error:
            warnings.warn(
                f"the steps of a search could not be recorded as a CUDA graph, and run "
                f"one kernel at a time: {error}",
                stacklevel=2,
            )


def concrete(tensor: Tensor) -> np.ndarray | None:
    if isinstance(tensor, keras.KerasTensor):
        return None
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    # A fake or meta tensor has only a shape.
    if type(tensor) is not torch.Tensor or tensor.device.type != "cpu":
        return None
    return tensor.numpy()


def loop(
    condition: Callable[[Tensors], Tensor],
    body: Callable[[Tensors, Tensors], Tensors],
    state: Tensors,
    constants: Tensors,
) -> Tensors:
    if _program.get() is None:  # not compiled
        while condition(state):
            state = body(state, constants)
        return state
    bodies, options, numbers = _program.get()
    # Once, instead of in each product of a step.
    constants = pytree.tree_map(torch.Tensor.contiguous, constants)
    flat, structure = pytree.tree_flatten((state, constants))
    shapes = tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in flat)
    steps = bodies(next(numbers), options, structure, shapes)
    return steps.run(condition, body, state, constants) if condition(state) else state


def scan(
    step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    carry: Tensors,
    chunks: Tensors,
) -> tuple[Tensors, Tensors]:
    outputs = []
    for chunk in zip(*chunks, strict=True):
        carry, output = step(carry, chunk)
        outputs.append(output)
    return carry, pytree.tree_map(lambda *parts: torch.stack(parts), *outputs)


def product_with_transposed(rows: Tensor, matrix: Tensor) -> Tensor:
    return ops.matmul(rows, ops.transpose(matrix))


def update_cache(cache: Tensor, update: Tensor, position: Tensor) -> Tensor:
    # In place: a new cache per step would cost more than the rest of the step.
    index = torch.as_tensor(position, device=cache.device).reshape(1).long()
    count = update.shape[-2]
    if count > 1:
        index = index * count + torch.arange(count, device=cache.device)
    return cache.index_copy_(-2, index, update.to(cache.dtype))


def on_gpu() -> bool:
    return torch.cuda.is_available()


def chunk_tokens() -> int:
    # Starting an operation costs more than in compiled backends.
    return GPU_CHUNK_TOKENS if on_gpu() else 1024


def product_multiple() -> int:
    return GPU_PRODUCT_MULTIPLE if on_gpu() else 1


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    if scores.device.type != "cpu":
        return _top_k_of_keys(scores, k)
    return _top_k(scores, k)


def _top_k_of_keys(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Of integers that hold a score and its index: no two are equal.

    Nothing here depends on values, for which the host would wait. On a processor it is
    several times slower than `_top_k`.
    """
    size = scores.shape[-1]
    bits = (scores.float() + 0.0).view(torch.int32)  # -0.0 becomes 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the order of the scores
    places = torch.arange(size - 1, -1, -1, device=scores.device)
    keys = (ordered.long() << 32) | places
    keys = torch.topk(keys, k, dim=-1).values
    indices = size - 1 - (keys & 0xFFFFFFFF)
    return scores.gather(-1, indices), indices.int()


# A custom operation: it branches on values, which a trace cannot.
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
def _(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values = scores.new_empty((*scores.shape[:-1], k))
    return values, torch.empty_like(values, dtype=torch.int32)


def has_attention_kernel(like: Tensor, training: bool | None) -> bool:
    if not isinstance(like, torch.Tensor) or torch.compiler.is_exporting():
        return False
    if like.is_cuda:
        half = like.dtype in (torch.bfloat16, torch.float16)
        return half and not torch.are_deterministic_algorithms_enabled()
    # Faster on processors too, forward and backward; a search stays as it is.
    of_processor = like.device.type == "cpu" and like.dtype == torch.float32
    return of_processor and bool(training)


def kernel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    causal: bool,
    scale: float,
) -> Tensor | None:
    if key.shape[1] != query.shape[1]:  # with a bias, no kernel shares heads
        return None
    # Flash attention takes no bias: with one, it is the memory-efficient kernel.
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, bias, is_causal=causal, scale=scale
    )


def sum_over_replicas(values: Tensors) -> Tensors:
    tensors = tree.flatten(values)
    if num_separate_losses() == 1 or any(tensor.is_meta for tensor in tensors):
        return values
    # In float64, so that one collective serves all dtypes.
    sums = _summed([tensor.detach().double() for tensor in tensors])
    sums = [s.to(tensor.dtype) for s, tensor in zip(sums, tensors, strict=True)]
    return tree.pack_sequence_as(values, sums)


def num_programs() -> int:
    return 1  # Python runs the operations of a graph, one at a time


def num_separate_losses() -> int:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    return 1


def _process_index() -> int:
    return torch.distributed.get_rank() if num_separate_losses() > 1 else 0


def _summed(tensors: list[Tensor]) -> list[Tensor]:
    """The sums over all processes of tensors of one dtype, in one collective."""
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    torch.distributed.all_reduce(flat)
    sums = flat.split([tensor.numel() for tensor in tensors])
    return [s.view_as(tensor) for s, tensor in zip(sums, tensors, strict=True)]


def symbolic_build(
    default: Callable[..., Any], model: Any, iterator: Any, data_batch: Any
) -> Any:
    return default(iterator, data_batch)


feeding = contextlib.nullcontext  # Keras reads the batches in this thread


def on_device(batch: Tensors) -> Tensors:
    return tree.map_structure(ops.convert_to_tensor, batch)


def train_step(
    model: Any, default: Callable[..., Any], data: Tensors
) -> dict[str, Tensor]:
    _begin_alike(model)
    optimizer, count = model.optimizer, model.micro_batches
    num_processes = num_separate_losses()
    by_row = model.draws_by_row and count * num_processes > 1
    seeds = model.dropout_seeds if by_row else []
    begins = [seed.value.clone() for seed in seeds]
    total: Any = None
    with _metrics_of_all(model):
        for index in range(count):
            part, rows = _rows(data, index, count), None
            if by_row:
                size = len(tree.flatten(part)[0])
                first = _process_index() * size * count + index
                rows = Rows(size, first=first, step=count)
            for seed, begin in zip(seeds, begins, strict=True):
                seed.assign(begin)  # each part uses the seeds of the whole batch
            with drawing(rows):
                gradients = _gradients(model, default, part)
            total = added(total, gradients)
    if num_processes > 1:
        present = [index for index, g in enumerate(total) if g is not None]
        sums = _summed([total[index] for index in present])
        for index, gradient in zip(present, sums, strict=True):
            total[index] = gradient
    gradients = divided(total, count * num_processes)
    with torch.no_grad():
        model.note_gradients(gradients)
        optimizer.apply(gradients, model.trainable_weights)
    return model.get_metrics_result()


def _gradients(
    model: Any, default: Callable[..., Any], part: Tensors
) -> list[Tensor | None]:
    """Those of Keras' step `default`, traced where the model is compiled so."""
    # What is recomputed asks for numbers, which a trace does not know.
    if model.traces_steps and not getattr(model, "rematerializes", False):
        if "_traced_steps" not in vars(model):
            vars(model)["_traced_steps"] = TracedSteps(model)
        return model._traced_steps.gradients(default, part)
    with caught_gradients(model.optimizer) as gradients:
        default(part)
    return gradients


def _begin_alike(model: Any) -> None:
    """Broadcasts the weights of the first process before the first step."""
    if num_separate_losses() > 1 and not hasattr(model, "_alike"):
        for variable in model.variables:
            torch.distributed.broadcast(variable.value.detach(), 0)
        vars(model)["_alike"] = True


def _rows(data: Tensors, index: int, count: int) -> Tensors:
    return tree.map_structure(
        lambda tensor: None if tensor is None else tensor[index::count], data
    )


def test_step(
    model: Any, default: Callable[..., Any], data: Tensors
) -> dict[str, Tensor]:
    with _metrics_of_all(model):
        default(data)
    return model.get_metrics_result()


@contextlib.contextmanager
def _metrics_of_all(model: Any) -> Iterator[None]:
    """Context in which updates of metrics are summed over all processes."""
    if num_separate_losses() == 1:
        yield
        return
    variables = model.metrics_variables
    before = [variable.value.detach().double() for variable in variables]
    yield
    after = [variable.value.detach().double() for variable in variables]
    sums = _summed([new - old for new, old in zip(after, before, strict=True)])
    for variable, old, change in zip(variables, before, sums, strict=True):
        variable.assign(old + change)


def to_numpy(variable: Any) -> np.ndarray:
    return np.array(ops.convert_to_numpy(variable))


def of_numpy(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values)  # Keras would copy it first


def unwritten(shape: Shape, dtype: str) -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, dtype), device=ops.zeros(0).device)


def peak_memory(function: Callable[[], Any]) -> int:
    if not torch.cuda.is_available():
        return host_memory.peak_memory(function)
    torch.cuda.reset_peak_memory_stats()
    function()
    return torch.cuda.max_memory_allocated()


def memory_limit() -> float:
    if not torch.cuda.is_available():
        return host_memory.memory_limit()
    return torch.cuda.mem_get_info()[1]


def random_bytes(like: Tensor, seed_generator: Any) -> Tensor:
    seed = torch_recomputation.once(seed_generator.next).to(torch.int32)
    rows, bits = drawn_rows(), None
    numbers = functools.partial(torch.arange, device=like.device)
    if rows is None:
        num_words = -(-like.numel() // 4)
        start = _process_index() * num_words
        places = numbers(start, start + num_words)
    else:
        count = like.shape[0]
        row_numbers = rows.numbers(numbers(count), count)[:, None]
        size = like.numel() // count
        places, bits = row_places(row_numbers, size, numbers, size % 4 == 0)
    words = random_words(places.to(torch.int32), seed, signed, _logical_shift)
    if bits is not None:
        return (words >> bits & 255).to(torch.uint8).view(like.shape)
    return words.view(-1).view(torch.uint8)[: like.numel()].view(like.shape)


def _logical_shift(words: Tensor, bits: int) -> Tensor:
    return (words >> bits) & (2 ** (32 - bits) - 1)


def zero_where_below(values: Tensor, bytes: Tensor, least: int) -> Tensor:
    return _ZeroWhereBelow.apply(values, bytes, least)


class _ZeroWhereBelow(torch.autograd.Function):
    """Zeroing by the gradient of ReLU: torch.where takes six times as long on a CPU."""

    @staticmethod
    def forward(context: Any, values: Tensor, bytes: Tensor, least: int) -> Tensor:
        context.save_for_backward(bytes)
        context.least = least
        return _keep(values, bytes, least)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (bytes,) = context.saved_tensors
        return _keep(gradient, bytes, context.least), None, None


def _keep(values: Tensor, bytes: Tensor, least: int) -> Tensor:
    # Every dtype holds the numbers of a byte.
    return _aten.threshold_backward(values, bytes.to(values.dtype), least - 1)


def exp_of_difference(a: Tensor, b: Tensor) -> Tensor:
    # On a CPU, exp takes three times as long as exp2.
    return (a - b).mul_(math.log2(math.e)).exp2_()


def recomputed(
    function: Callable[..., tuple[Tensor, list[Tensor]]],
    weights: list[Tensor],
    states: list[Tensor],
    inputs: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    return torch.utils.checkpoint.checkpoint(
        function, weights, states, inputs, use_reentrant=False
    )


def random_state() -> np.ndarray:
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states).numpy()


def restore_random_state(state: np.ndarray) -> None:
    if not state.size:  # the run was begun on another backend
        return
    host_size = torch.get_rng_state().numel()
    processor, device = torch.from_numpy(state).split(
        [host_size, max(len(state) - host_size, 0)]
    )
    if len(device) and torch.cuda.is_available():  # older checkpoints lack it
        torch.cuda.set_rng_state(device)
    torch.set_rng_state(processor)
