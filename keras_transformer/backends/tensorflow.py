"""TensorFlow: tf.function with XLA, tf.while_loop; replicas of tf.distribute."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
import types
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from keras import tree
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from keras_transformer.backends import forks
from keras_transformer.backends import host_memory
from keras_transformer.backends.chunked_top_k import chunked
from keras_transformer.backends.programs import FirstAlone
from keras_transformer.backends.programs import kept
from keras_transformer.backends.steps import GPU_CHUNK_TOKENS
from keras_transformer.backends.steps import GPU_PRODUCT_MULTIPLE
from keras_transformer.backends.steps import Rows
from keras_transformer.backends.steps import added
from keras_transformer.backends.steps import caught_gradients
from keras_transformer.backends.steps import divided
from keras_transformer.backends.steps import drawing
from keras_transformer.backends.steps import replaced
from keras_transformer.backends.tensorflow_distribution import distributions  # noqa: F401
from keras_transformer.backends.tensorflow_distribution import several_workers
from keras_transformer.backends.tensorflow_random import num_replicas
from keras_transformer.backends.tensorflow_random import random_bytes  # noqa: F401
from keras_transformer.backends.tensorflow_random import replica
from keras_transformer.errors import InputError
from keras_transformer.processors import num_threads
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

# Whether the traced function will be compiled by XLA.
_by_xla = contextvars.ContextVar("by_xla", default=False)

traces_training = False
compiles_few_rows = False
compiles_loops = True
hoists_invariants = False  # an exported program may run without XLA
takes_one_buffer = False
untracked = frozenset[str]()
use_cudnn = False  # XLA, which compiles loops well, knows no cuDNN operations


def compile(
    function: Callable[..., Tensors], model: Any, few_rows: bool = False
) -> Callable[..., Tensors]:
    @kept  # one each: tf.function warns where one is traced again and again
    def program_of(options: Any, shapes: Any) -> FirstAlone:
        # Not a separate function: TensorFlow would count all keys as one function's.
        program = functools.partial(_traced_for_xla, function, dict(options))
        return FirstAlone(tf.function(program, jit_compile=True, autograph=False))

    def run(*arguments: Tensors, **options: Any) -> Tensors:
        note_work()
        arguments = tree.map_structure(tf.convert_to_tensor, arguments)
        shapes = tree.map_structure(lambda t: (t.shape.as_list(), t.dtype), arguments)
        program = program_of(tuple(sorted(options.items())), repr(shapes))
        return program(*arguments)

    return run


def expecting(steps: int) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()  # each loop is compiled before its first step


def note_work(builds: bool = False) -> None:
    forks.note()


def _traced_for_xla(
    function: Callable[..., Tensors], options: dict[str, Any], *arguments: Tensors
) -> Tensors:
    token = _by_xla.set(True)
    try:
        return function(*arguments, **options)
    finally:
        _by_xla.reset(token)


def concrete(tensor: Tensor) -> np.ndarray | None:
    if isinstance(tensor, keras.KerasTensor) or tf.is_symbolic_tensor(tensor):
        return None
    on_cpu = not tf.is_tensor(tensor) or "GPU" not in tensor.device
    return np.asarray(tensor) if on_cpu else None


def loop(
    condition: Callable[[Tensors], Tensor],
    body: Callable[[Tensors, Tensors], Tensors],
    state: Tensors,
    constants: Tensors,
) -> Tensors:
    (state,) = tf.while_loop(condition, lambda s: [body(s, constants)], [state])
    return state


def scan(
    step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]],
    carry: Tensors,
    chunks: Tensors,
) -> tuple[Tensors, Tensors]:
    # Unrolled: a tf.while_loop cannot stand inside a custom gradient.
    outputs = []
    for chunk in zip(*(tf.unstack(tensor) for tensor in chunks), strict=True):
        carry, output = step(carry, chunk)
        outputs.append(output)
    return carry, tree.map_structure(lambda *parts: tf.stack(parts), *outputs)


def product_with_transposed(rows: Tensor, matrix: Tensor) -> Tensor:
    return ops.matmul(rows, ops.transpose(matrix))


def update_cache(cache: Tensor, update: Tensor, position: Tensor) -> Tensor:
    update = tf.cast(update, cache.dtype)
    count = update.shape[-2]
    if _by_xla.get():
        start = [0] * (len(cache.shape) - 2) + [position * count, 0]
        return ops.slice_update(cache, tf.stack(start), update)
    # A select, not a slice update: ONNX and LiteRT have no operation for that.
    if count == 1:
        is_current = tf.equal(tf.range(tf.shape(cache)[-2]), position)[:, tf.newaxis]
        return tf.where(is_current, update, cache)
    shape = tf.shape(cache)
    blocks = tf.concat([shape[:-2], [-1, count], shape[-1:]], axis=0)
    blocks = tf.reshape(cache, blocks)  # (..., L, n, K)
    is_current = tf.equal(tf.range(tf.shape(blocks)[-3]), position)[
        :, tf.newaxis, tf.newaxis
    ]
    blocks = tf.where(is_current, tf.expand_dims(update, -3), blocks)
    return tf.ensure_shape(tf.reshape(blocks, shape), cache.shape)


def on_gpu() -> bool:
    return bool(tf.config.list_physical_devices("GPU"))


def chunk_tokens() -> int:
    return GPU_CHUNK_TOKENS if on_gpu() else 512


def product_multiple() -> int:
    return GPU_PRODUCT_MULTIPLE if on_gpu() else 1


@chunked
def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    return tuple(tf.math.top_k(scores, k))  # ties in order of the index


def has_attention_kernel(like: Tensor, training: bool | None) -> bool:
    return False  # XLA fuses what it can; TensorFlow itself has no such kernel


def kernel_attention(*arguments: Any) -> None:
    return None


def sum_over_replicas(values: Tensors) -> Tensors:
    if num_replicas() == 1:
        return values
    context = tf.distribute.get_replica_context()
    # Copies on the device of the replica, where the sums are sent.
    tensors = [tf.identity(value) for value in tree.flatten(values)]
    sums = context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    return tree.pack_sequence_as(values, sums)


def num_programs() -> int:
    alone = not tf.distribute.has_strategy()
    return num_threads() if alone and not tf.config.list_physical_devices("GPU") else 1


def num_separate_losses() -> int:
    return 1


def symbolic_build(
    default: Callable[..., Any], model: Any, iterator: Any, data_batch: Any
) -> None:
    # Keras takes the mean of a batch over its replicas, which workers cannot.
    strategy = model.distribute_strategy
    if iterator is not None and several_workers(strategy):
        _, _, batches = next(iter(iterator))
        data_batch = tree.map_structure(
            lambda value: strategy.experimental_local_results(value)[0], next(batches)
        )
        iterator = None
    default(iterator, data_batch)
    if model.built and model.optimizer and not model.optimizer.built:
        # Else the first step creates its variables, and TensorFlow traces it twice.
        model.optimizer.build(model.trainable_variables)


_tuned = PyDatasetAdapter.get_tf_dataset
_feeding = types.SimpleNamespace(lock=threading.Lock(), count=0)


def _untuned(adapter: PyDatasetAdapter) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return _tuned(adapter).with_options(options)


@contextlib.contextmanager
def feeding() -> Iterator[None]:
    """Turns off tf.data's autotuning while Keras reads.

    Autotuning has a thread that sleeps for up to a minute, and an iterator that is
    dropped before its end, as by `fit` with steps_per_epoch, waits for it.
    """
    # Several threads may read at once: the first one replaces, the last one restores.
    with _feeding.lock:
        _feeding.count += 1
        PyDatasetAdapter.get_tf_dataset = _untuned
    try:
        yield
    finally:
        with _feeding.lock:
            _feeding.count -= 1
            if not _feeding.count:
                PyDatasetAdapter.get_tf_dataset = _tuned


def on_device(batch: Tensors) -> Tensors:
    return batch  # tf.data sends it


def train_step(
    model: Any, default: Callable[..., Any], data: Tensors
) -> dict[str, Tensor]:
    optimizer, count = model.optimizer, model.micro_batches
    variables = model.trainable_weights

    def gradients_of(part: Tensors) -> list[Tensor | None]:
        with caught_gradients(optimizer) as gradients:
            default(part)
        # Dense: the norm of slices that name a row twice would be wrong.
        return [g if g is None else tf.convert_to_tensor(g) for g in gradients]

    if count == 1:
        num_rows = tf.shape(tree.flatten(data)[0])[0]
        with drawing(_drawn_rows(model, num_rows)):
            gradients = gradients_of(data)
    else:
        gradients = _accumulated(gradients_of, data, model)
    if num_replicas() == 1:
        model.note_gradients(gradients)
        optimizer.apply(gradients, variables)
    else:
        gradients = _over_replicas(gradients, optimizer)
        model.note_gradients(gradients)
        # Summed before Keras clips, not after.
        with replaced(optimizer, "_all_reduce_sum_gradients", list):
            optimizer.apply(gradients, variables)
    return _logs(model)


def _drawn_rows(
    model: Any, num_rows: Tensor, index: Tensor = 0, count: int = 1
) -> Rows | None:
    """The `Rows` of part `index` of `count` of this replica's share of a batch."""
    if not model.draws_by_row or count * num_replicas() == 1:
        return None
    first = replica() * num_rows * count + index
    return Rows(num_rows, first=first, step=count)


def _accumulated(
    gradients_of: Callable[[Tensors], list[Tensor | None]], data: Tensors, model: Any
) -> list[Tensor | None]:
    """The mean of the gradients of all parts, with memory for one part."""
    count, variables = model.micro_batches, model.trainable_weights
    num_rows = tf.shape(tree.flatten(data)[0])[0]
    message = f"the rows of a batch must be a multiple of micro_batches {count}"
    tf.debugging.assert_equal(num_rows % count, 0, message)

    def part(tensor: Tensor, index: Tensor) -> Tensor:
        if tensor is None:
            return None
        shape = tf.concat([[-1, count], tf.shape(tensor)[1:]], axis=0)
        return tf.gather(tf.reshape(tensor, shape), index, axis=1)

    seeds = model.dropout_seeds if model.draws_by_row else []
    begins = [tf.identity(seed.value) for seed in seeds]

    def body(
        index: Tensor, total: list[Tensor | None]
    ) -> tuple[Tensor, list[Tensor | None]]:
        for seed, begin in zip(seeds, begins, strict=True):
            seed.assign(begin)  # each part uses the seeds of the whole batch
        with drawing(_drawn_rows(model, num_rows // count, index, count)):
            gradients = gradients_of(tree.map_structure(lambda t: part(t, index), data))
        return index + 1, added(total, gradients)

    start = (tf.constant(0), [tf.zeros_like(variable) for variable in variables])
    _, total = tf.while_loop(
        lambda index, _: index < count, body, start, parallel_iterations=1
    )
    return divided(total, count)


def _over_replicas(
    gradients: list[Tensor | None], optimizer: Any
) -> list[Tensor | None]:
    if hasattr(optimizer, "inner_optimizer"):
        raise InputError(
            "several replicas of TensorFlow cannot train in mixed_float16; use "
            "mixed_bfloat16"
        )
    if not hasattr(optimizer, "_all_reduce_sum_gradients"):
        raise RuntimeError(
            "this version of Keras sums gradients in another place; install a "
            "supported version"
        )
    present = [index for index, g in enumerate(gradients) if g is not None]
    sums = sum_over_replicas([gradients[index] for index in present])
    gradients = list(gradients)
    for index, total in zip(present, sums, strict=True):
        gradients[index] = total
    return gradients


def test_step(
    model: Any, default: Callable[..., Any], data: Tensors
) -> dict[str, Tensor]:
    default(data)
    return _logs(model)


def _logs(model: Any) -> dict[str, Tensor]:
    """The metrics over all replicas; Keras would take the mean of their ratios."""
    variables = model.metrics_variables
    sums = sum_over_replicas([variable.value for variable in variables])
    mapping = list(zip(variables, sums, strict=True))
    with keras.StatelessScope(state_mapping=mapping):
        logs = model.get_metrics_result()
    if several_workers(model.distribute_strategy):
        # Keras takes the mean along the first axis, which scalars lack.
        logs = {name: tf.reshape(value, (1,)) for name, value in logs.items()}
    return logs


def to_numpy(variable: Any) -> np.ndarray:
    return np.array(keras.ops.convert_to_numpy(variable))


def of_numpy(values: np.ndarray) -> Tensor:
    # Without a copy; from the array itself TensorFlow would make two.
    return tf.experimental.dlpack.from_dlpack(values.__dlpack__())


def unwritten(shape: Shape, dtype: str) -> Tensor:
    return tf.raw_ops.Empty(shape=shape, dtype=dtype)


def peak_memory(function: Callable[[], Any]) -> int:
    if not tf.config.list_physical_devices("GPU"):
        return host_memory.peak_memory(function)
    tf.config.experimental.reset_memory_stats("GPU:0")
    function()
    return tf.config.experimental.get_memory_info("GPU:0")["peak"]


def memory_limit() -> float:
    if not tf.config.list_physical_devices("GPU"):
        return host_memory.memory_limit()
    from tensorflow.python.client import device_lib  # says what TensorFlow may take

    devices = device_lib.list_local_devices()
    return next(d.memory_limit for d in devices if d.device_type == "GPU")


def zero_where_below(values: Tensor, bytes: Tensor, least: int) -> Tensor:
    return tf.where(bytes >= least, values, tf.zeros((), values.dtype))


def exp_of_difference(a: Tensor, b: Tensor) -> Tensor:
    return tf.exp(a - b)


def recomputed(
    function: Callable[..., tuple[Tensor, list[Tensor]]],
    weights: list[Tensor],
    states: list[Tensor],
    inputs: list[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    count, new_states = len(weights), []
    states = [tf.identity(state) for state in states]  # as they are before the output

    @tf.recompute_grad
    def output_of(*tensors: Tensor) -> Tensor:
        output, after = function(tensors[:count], states, tensors[count:])
        new_states.append(after)
        return output

    output = output_of(*map(tf.convert_to_tensor, (*weights, *inputs)))
    return output, new_states[0]


def random_state() -> np.ndarray:
    return np.zeros((0,), np.uint8)  # all of it is in Keras' seed generators


def restore_random_state(state: np.ndarray) -> None:
    pass
