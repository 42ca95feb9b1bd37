"""TensorFlow: tf.function with XLA, tf.while_loop; replicas of tf.distribute."""

import functools

import keras
import numpy as np
import tensorflow as tf
from keras import tree


def compile(function, model):
    programs = {}  # one each: tf.function warns where one is traced again and again

    def run(*arguments, **options):
        arguments = tree.map_structure(tf.convert_to_tensor, arguments)
        tensors = tree.flatten(arguments)
        shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)
        key = (tuple(sorted(options.items())), shapes)
        if key not in programs:
            program = functools.partial(function, **options)
            programs[key] = tf.function(program, jit_compile=True, autograph=False)
        return programs[key](*arguments)

    return run


def concrete(tensor):
    if isinstance(tensor, keras.KerasTensor) or tf.is_symbolic_tensor(tensor):
        return None
    on_cpu = not tf.is_tensor(tensor) or "GPU" not in tensor.device
    return np.asarray(tensor) if on_cpu else None


def loop(condition, body, state, constants):
    (state,) = tf.while_loop(condition, lambda s: [body(s, constants)], [state])
    return state


def scan(step, carry, chunks):
    # Unrolled: a tf.while_loop cannot stand inside a custom gradient.
    outputs = []
    for chunk in zip(*(tf.unstack(tensor) for tensor in chunks), strict=True):
        carry, output = step(carry, chunk)
        outputs.append(output)
    return carry, tree.map_structure(lambda *parts: tf.stack(parts), *outputs)


def update_cache(cache, update, position):
    # A select, not a slice update: ONNX and LiteRT have no operation for that.
    here = tf.equal(tf.range(tf.shape(cache)[-2]), position)[:, tf.newaxis]
    return tf.where(here, tf.cast(update, cache.dtype), cache)


def top_k(scores, k):
    return tuple(tf.math.top_k(scores, k))  # ties in order of the index


def sum_over_replicas(value):
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def train_step(model, default, *arguments):
    return default(*arguments)


def random_state():
    return np.zeros((0,), np.uint8)  # all of it is in Keras' seed generators


def restore_random_state(state):
    pass
