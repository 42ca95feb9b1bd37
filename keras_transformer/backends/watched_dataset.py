"""Checks of `tf.data.Dataset` elements, which Keras reads on every backend."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def is_dataset(data: Any) -> bool:
    """Whether it is a `tf.data.Dataset` of dense tensors, found without TensorFlow."""
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(data, tf.data.Dataset):
        return False
    parts = tf.nest.flatten(data.element_spec)
    return all(isinstance(part, tf.TensorSpec) for part in parts)


def watched(dataset: Any, look: Callable[[Any], Any]) -> Any:
    """The same data set with a check: an exception of `look` ends its reading.

    Args:
        dataset: a data set for which `is_dataset` holds.
        look: a function of each element, as NumPy arrays on the host, before the step.
            TensorFlow replaces the exception that it raises.
    """
    import tensorflow as tf

    def seen(*element: Any) -> Any:
        element = element if isinstance(dataset.element_spec, tuple) else element[0]

        def run(*arrays: Any) -> None:
            look(tf.nest.pack_sequence_as(element, arrays))

        tf.numpy_function(run, tf.nest.flatten(element), [])
        return element

    return dataset.map(seen)
