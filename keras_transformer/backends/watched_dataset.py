"""`tf.data.Dataset`s, which Keras reads on every backend, looked at on their way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def is_dataset(data: Any) -> bool:
    """Whether it is a `tf.data.Dataset` of dense tensors; TensorFlow is not loaded."""
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(data, tf.data.Dataset):
        return False
    parts = tf.nest.flatten(data.element_spec)
    return all(isinstance(part, tf.TensorSpec) for part in parts)


def watched(dataset: Any, look: Callable[[Any], Any]) -> Any:
    """The same data set; what `look` raises ends the reading of it.

    Args:
        dataset: such that `is_dataset`.
        look: is given each element, of NumPy arrays, on the processor, before a step
            has it. TensorFlow raises an error of its own in place of what it raises.
    """
    import tensorflow as tf

    def seen(*element):
        element = element if isinstance(dataset.element_spec, tuple) else element[0]

        def run(*arrays):
            look(tf.nest.pack_sequence_as(element, arrays))

        tf.numpy_function(run, tf.nest.flatten(element), [])
        return element

    return dataset.map(seen)
