"""JAX: jit, lax.while_loop and lax.scan; weights enter compiled programs as inputs."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from keras_transformer.backends import forks
from keras_transformer.backends import host_memory
from keras_transformer.backends.chunked_top_k import chunked
from keras_transformer.backends.host_memory import aligned_zeros
from keras_transformer.backends.jax_distribution import distributions  # noqa: F401
from keras_transformer.backends.programs import FirstAlone
from keras_transformer.backends.programs import kept
from keras_transformer.backends.random_words import random_words
from keras_transformer.backends.random_words import row_places
from keras_transformer.backends.steps import GPU_CHUNK_TOKENS
from keras_transformer.backends.steps import GPU_PRODUCT_MULTIPLE
from keras_transformer.backends.steps import Rows
from keras_transformer.backends.steps import added
from keras_transformer.backends.steps import divided
from keras_transformer.backends.steps import drawing
from keras_transformer.backends.steps import drawn_rows
from keras_transformer.backends.steps import replaced
from keras_transformer.processors import num_threads
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

traces_training = False
compiles_few_rows = True
compiles_loops = True
hoists_invariants = True
takes_one_buffer = True
untracked = frozenset({"_jax_state"})
use_cudnn = "auto"


#: Of `jax.nn.dot_product_attention`: cuDNN's flash attention.
_ATTENTION = "cudnn"

#: Of a bias: so low that its key gets no attention, in half precision too.
_BLOCKED = -6e4

#: YNNPACK, XLA's library for products on CPUs, repacks the whole matrix at each
#: product, so that Eigen is faster for few rows: at `base` 1.3 times for 4 to 32.
#: YNNPACK's reductions stay on.
_EIGEN = ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_REDUCE")
_multiplies_by_eigen = contextvars.ContextVar("multiplies_by_eigen", default=False)


def compile(
    function: Callable[..., Tensors], model: Any, few_rows: bool = False
) -> Callable[..., Tensors]:
    @kept
    def program_of(options: Any, shapes: Any) -> FirstAlone:
        on_cpu = jax.default_backend() == "cpu"
        multiplies_by_eigen = few_rows and on_cpu and _is_known(*_EIGEN)

        def program(weights: list[Tensor], arguments: Tensors) -> Tensors:
            mapping = list(zip(model.variables, weights, strict=True))
            token = _multiplies_by_eigen.set(multiplies_by_eigen)
            try:
                with keras.StatelessScope(state_mapping=mapping):
                    return function(*arguments, **dict(options))
            finally:
                _multiplies_by_eigen.reset(token)

        # One `jit` per program: dropping it frees the compiled code.
        options_of_xla = dict([_EIGEN]) if multiplies_by_eigen else None
        return FirstAlone(jax.jit(program, compiler_options=options_of_xla))

    def run(*arguments: Tensors, **options: Any) -> Tensors:
        note_work()
        leaves, structure = jax.tree.flatten(arguments)
        shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        program = program_of(tuple(sorted(options.items())), shapes)
        # Weights are inputs: closed over, they would become constants.
        return program([variable.value for variable in model.variables], arguments)

    return run


def expecting(steps: int) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()  # each loop is compiled before its first step


def note_work(builds: bool = False) -> None:
    forks.note()


@functools.cache
def _is_known(option: str, value: str) -> bool:
    """Whether this version of the compiler has an option."""
    try:
        jax.jit(lambda: 0, compiler_options={option: value})()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def concrete(tensor: Tensor) -> np.ndarray | None:
    tensor = getattr(tensor, "value", tensor)
    if isinstance(tensor, jax.core.Tracer | keras.KerasTensor):
        return None
    devices = tensor.devices() if isinstance(tensor, jax.Array) else ()
    if any(device.platform != "cpu" for device in devices):
        return None
    return np.asarray(tensor)


def loop(
    condition: Callable[[Tensors], Tensor],
    body: Callable[[Tensors, Tensors], Tensors],
    state: Tensors,
    constants: Tensors,
) -> Tensors:
    return jax.lax.while_loop(condition, lambda state: body(state, constants), state)


def scan(
    step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    carry: Tensors,
    chunks: Tensors,
) -> tuple[Tensors, Tensors]:
    return jax.lax.scan(step, carry, chunks)


def product_with_transposed(rows: Tensor, matrix: Tensor) -> Tensor:
    transposed = jnp.transpose(matrix)
    if _multiplies_by_eigen.get() and math.prod(rows.shape[:-1]) > 1:
        # The barrier keeps it out of the product, where Eigen is slow with it. So it is
        # a copy that XLA makes once, before the loop.
        transposed = jax.lax.optimization_barrier(transposed)
    return jnp.matmul(rows, transposed)


def update_cache(cache: Tensor, update: Tensor, position: Tensor) -> Tensor:
    # All of one dtype: with JAX_ENABLE_X64 Python numbers are int64, positions are not.
    start = [jnp.int32(0)] * cache.ndim
    start[-2] = jnp.int32(position * update.shape[-2])
    return jax.lax.dynamic_update_slice(cache, update.astype(cache.dtype), start)


def on_gpu() -> bool:
    return jax.default_backend() == "gpu"


def chunk_tokens() -> int:
    return GPU_CHUNK_TOKENS if on_gpu() else 512


def product_multiple() -> int:
    return GPU_PRODUCT_MULTIPLE if on_gpu() else 1


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    whole = jax.lax.top_k  # ties in order of the index
    return (chunked(whole) if jax.default_backend() == "cpu" else whole)(scores, k)


def has_attention_kernel(like: Tensor, training: bool | None) -> bool:
    half = keras.backend.standardize_dtype(like.dtype) in ("bfloat16", "float16")
    alone = keras.distribution.distribution() is None
    return half and alone and _has_cudnn_attention()


def _has_cudnn_attention() -> bool:
    """Whether programs are for an NVIDIA GPU of Ampere or later."""
    device = jax.config.jax_default_device or jax.local_devices()[0]
    capability = str(getattr(device, "compute_capability", ""))
    major = capability.partition(".")[0]
    return major.isdigit() and int(major) >= 8


def kernel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    causal: bool,
    scale: float,
) -> Tensor | None:
    length = query.shape[2]
    query, key, value, bias = _of_even_length(query, key, value, bias, causal)
    if bias is not None:  # cuDNN wants all T rows
        shape = (bias.shape[0], 1, query.shape[2], key.shape[2])
        bias = jax.lax.stop_gradient(jnp.broadcast_to(bias, shape))
    attend = functools.partial(_by_cudnn, causal=causal, scale=scale)
    tensors = query, key, value, bias
    try:
        jax.eval_shape(lambda *values: jax.vjp(attend, *values)[0], *tensors)
    except (NotImplementedError, RuntimeError, ValueError):
        return None  # cuDNN is missing, or does not take these sizes
    return attend(*tensors)[:, :, :length]


def _of_even_length(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """With one more position where T or S is odd, for which cuDNN has no gradient.

    No query may attend to the added key.
    """
    if key.shape[2] % 2 and not causal:  # else it is later than all queries
        if bias is None:
            bias = jnp.zeros((1, 1, 1, key.shape[2]), query.dtype)
        bias = jnp.pad(bias, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=_BLOCKED)

    def even(states: Tensor) -> Tensor:
        return jnp.pad(states, ((0, 0), (0, 0), (0, states.shape[2] % 2), (0, 0)))

    return even(query), even(key), even(value), bias


def _by_cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    causal: bool,
    scale: float,
) -> Tensor:
    # (B, T, H, K), as the projections have made them: XLA drops both transpositions.
    query, key, value = (t.swapaxes(1, 2) for t in (query, key, value))
    output = jax.nn.dot_product_attention(
        query,
        key,
        value,
        bias,
        is_causal=causal,
        scale=scale,
        implementation=_ATTENTION,
    )
    return output.swapaxes(1, 2)


def sum_over_replicas(values: Tensors) -> Tensors:
    return values  # arrays are global: a sum over a sharded axis is the whole sum


def num_programs() -> int:
    alone = keras.distribution.distribution() is None and jax.process_count() == 1
    return num_threads() if alone and jax.default_backend() == "cpu" else 1


def num_separate_losses() -> int:
    return 1


def symbolic_build(
    default: Callable[..., Any], model: Any, iterator: Any, data_batch: Any
) -> Any:
    return default(iterator, data_batch)


feeding = contextlib.nullcontext  # Keras reads the batches in this thread


def on_device(batch: Tensors) -> Tensors:
    alone = keras.distribution.distribution() is None
    return jax.device_put(batch) if alone else batch


def train_step(
    model: Any, default: Callable[..., Any], state: Tensors, data: Tensors
) -> tuple[dict[str, Tensor], Tensors]:
    trainable, non_trainable, optimizer_variables, metrics = state
    optimizer = model.optimizer

    def gradients_of(
        part: Tensors, non_trainable: list[Tensor], metrics: list[Tensor]
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        collected = []

        def collect(
            optimizer_variables: list[Tensor],
            gradients: list[Tensor],
            trainable: list[Tensor],
        ) -> tuple[list[Tensor], list[Tensor]]:
            collected.extend(gradients)
            return trainable, optimizer_variables

        with replaced(optimizer, "stateless_apply", collect):
            before = (trainable, non_trainable, optimizer_variables, metrics)
            _, (_, non_trainable, _, metrics) = default(before, part)
        return collected, non_trainable, metrics

    count = model.micro_batches
    if count == 1:
        gradients, non_trainable, metrics = gradients_of(data, non_trainable, metrics)
    else:
        zeros = [jnp.zeros_like(value) for value in trainable]
        start = (zeros, non_trainable, metrics)
        gradients, non_trainable, metrics = _accumulated(
            gradients_of, data, start, model
        )
    mapping = [
        *zip(model.metrics_variables, metrics, strict=True),
        *zip(optimizer.variables, optimizer_variables, strict=True),
    ]
    with keras.StatelessScope(state_mapping=mapping) as scope:
        model.note_gradients(gradients)
        logs = model.get_metrics_result()
    metrics = [scope.get_current_value(v) for v in model.metrics_variables]
    trainable, optimizer_variables = optimizer.stateless_apply(
        optimizer_variables, gradients, trainable
    )
    return logs, (trainable, non_trainable, optimizer_variables, metrics)


def _accumulated(
    gradients_of: Callable[..., Any], data: Tensors, start: Tensors, model: Any
) -> tuple[Any, ...]:
    """Like `gradients_of`, but the mean over all parts, with memory for one part."""
    count, seeds = model.micro_batches, {}
    if model.draws_by_row:  # each part uses the seeds of the whole batch
        states = {id(state) for state in model.dropout_seeds}
        variables = enumerate(model.non_trainable_variables)
        seeds = {index: start[1][index] for index, v in variables if id(v) in states}

    def step(carry: Tensors, numbered_part: Tensors) -> tuple[Tensors, None]:
        index, part = numbered_part
        total, non_trainable, metrics = carry
        non_trainable = [seeds.get(i, value) for i, value in enumerate(non_trainable)]
        rows = None
        if model.draws_by_row:
            rows = Rows(len(jax.tree.leaves(part)[0]), first=index, step=count)
        with drawing(rows):
            gradients, *state = gradients_of(part, non_trainable, metrics)
        return (added(total, gradients), *state), None

    parts = jax.tree.map(functools.partial(_split, count=count), data)
    numbers = jnp.arange(count, dtype="uint32")
    (total, *state), _ = jax.lax.scan(step, start, (numbers, parts))
    return divided(total, count), *state


def _split(array: Tensor, count: int) -> Tensor:
    """(B, ...) to (count, B / count, ...): each part holds rows of each device."""
    return array.reshape(-1, count, *array.shape[1:]).swapaxes(0, 1)


def test_step(
    model: Any, default: Callable[..., Any], state: Tensors, data: Tensors
) -> tuple[dict[str, Tensor], Tensors]:
    return default(state, data)


def to_numpy(variable: Any) -> np.ndarray:
    value = getattr(variable, "value", variable)
    if value.is_fully_addressable or value.is_fully_replicated:
        return np.array(value)
    # Its parts are on the devices of each process, see `model_parallel`.
    whole = np.empty(value.shape, value.dtype)
    for shard in value.addressable_shards:
        whole[shard.index] = shard.data
    return whole


def of_numpy(values: np.ndarray) -> Tensor:
    return jax.device_put(values)  # on a processor without a copy


def unwritten(shape: Shape, dtype: str) -> Tensor:
    return jax.device_put(aligned_zeros(shape, jnp.dtype(dtype)))


def peak_memory(function: Callable[[], Any]) -> int:
    device = jax.local_devices()[0]
    if not device.memory_stats():
        return host_memory.peak_memory(function)
    function()
    return device.memory_stats()["peak_bytes_in_use"]


def memory_limit() -> float:
    stats = jax.local_devices()[0].memory_stats()
    return stats["bytes_limit"] if stats else host_memory.memory_limit()


def random_bytes(like: Tensor, seed_generator: Any) -> Tensor:
    seed = seed_generator.next().astype("uint32")
    rows, bits = drawn_rows(), None
    numbers = functools.partial(jnp.arange, dtype="uint32")
    if rows is None:
        places = numbers(-(-like.size // 4))
    else:
        count = like.shape[0]
        row_numbers = rows.numbers(numbers(count), count)[:, None]
        size = like.size // count
        places, bits = row_places(row_numbers, size, numbers, size % 4 == 0)
    words = random_words(places, seed, np.uint32, jnp.right_shift)
    if bits is not None:
        return (words >> bits & 255).astype("uint8").reshape(like.shape)
    drawn = jax.lax.bitcast_convert_type(words, "uint8")  # (..., 4)
    return drawn.reshape(-1)[: like.size].reshape(like.shape)


def zero_where_below(values: Tensor, bytes: Tensor, least: int) -> Tensor:
    return jnp.where(bytes >= least, values, 0)


def exp_of_difference(a: Tensor, b: Tensor) -> Tensor:
    return jnp.exp(a - b)


def recomputed(
    function: Callable[..., tuple[Tensor, list[Tensor]]],
    weights: list[Tensor],
    states: list[Tensor],
    inputs: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    return jax.checkpoint(function)(weights, states, inputs)


def random_state() -> np.ndarray:
    return np.zeros((0,), np.uint8)  # all of it is in Keras' seed generators


def restore_random_state(state: np.ndarray) -> None:
    pass
