"""Keras' random seed, set without loading TensorFlow where it computes nothing."""

import sys

import keras
from keras.src.utils.module_utils import tensorflow as lazy_tensorflow


def set_random_seed(seed: int) -> None:
    """Sets the seeds of Python, NumPy, Keras and the backend.

    `keras.utils.set_random_seed` seeds TensorFlow too, for the shuffling of `tf.data`,
    and so loads it wherever it is installed: seconds, and hundreds of megabytes, of a
    training on JAX or PyTorch. Here that is done only where it is loaded.
    """
    known = lazy_tensorflow._available
    if keras.backend.backend() != "tensorflow" and "tensorflow" not in sys.modules:
        lazy_tensorflow._available = False
    try:
        keras.utils.set_random_seed(seed)
    finally:
        lazy_tensorflow._available = known
