"""TensorFlow: random bytes by replica and by rows of the batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.backends.random_words import random_words
from keras_transformer.backends.random_words import row_places
from keras_transformer.backends.steps import drawn_rows
from keras_transformer.tensors import Tensor


def num_replicas() -> int:
    """The number of replicas that run the step; 1 outside of a step."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def replica() -> Tensor:
    """The index of the replica that runs this step; 0 outside of a step."""
    if num_replicas() == 1:
        return 0
    return tf.distribute.get_replica_context().replica_id_in_sync_group


def random_bytes(like: Tensor, seed_generator: Any) -> Tensor:
    seed = tf.unstack(tf.cast(seed_generator.next(), tf.uint32))
    rows, size = drawn_rows(), tf.size(like)

    def draw(places: Tensor) -> Tensor:
        places = tf.cast(places, tf.uint32)
        return random_words(places, seed, np.uint32, tf.bitwise.right_shift)

    if rows is None:
        num_words = (size + 3) // 4
        words = draw(tf.range(num_words) + replica() * num_words)
        drawn = tf.reshape(tf.bitcast(words, tf.uint8), (-1,))[:size]
    else:
        count = tf.shape(like)[0]
        row_numbers = rows.numbers(tf.range(count), count)[:, tf.newaxis]
        known = math.prod(axis or 1 for axis in like.shape[1:])
        places, bits = row_places(row_numbers, size // count, tf.range, known % 4 == 0)
        words = draw(places)
        if bits is None:
            drawn = tf.bitcast(words, tf.uint8)
        else:
            words = tf.bitwise.right_shift(words, tf.cast(bits, tf.uint32))
            drawn = tf.cast(words & np.uint32(255), tf.uint8)
    return tf.ensure_shape(tf.reshape(drawn, tf.shape(like)), like.shape)
