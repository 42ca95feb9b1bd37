"""Weights and inputs that tests share."""

import keras
import numpy as np
from keras import ops

from reference import sizes


def randomize(layer, seed=0):
    """Gives every weight a value at random: also those that begin as 0 or 1."""
    generator = np.random.default_rng(seed)
    for variable in layer.weights:
        values = generator.normal(size=variable.shape)
        if len(variable.shape) > 1:
            values = values / np.sqrt(variable.shape[0])
        elif variable.name in ("gamma", "scale"):
            values = 1.0 + 0.2 * values
        else:
            values = 0.5 * values
        variable.assign(values.astype("float32"))
    return layer


def scatter(model, seed, deviation):
    """Gives a model weights so far from 0 that its output is far from uniform."""
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        value = generator.normal(0.0, deviation, variable.shape)
        variable.assign(value + (variable.name in ("gamma", "scale")))
    return model


def read(layer):
    """{path: float64 array}; below the layer's own name where it is not a model."""
    prefix = "" if isinstance(layer, keras.Model) else f"{layer.name}/"
    return {
        variable.path.removeprefix(prefix): numpy(variable).astype("float64")
        for variable in layer.weights
    }


def numpy(tensor):
    """As a NumPy array; float32 where NumPy does not know the dtype."""
    if keras.backend.standardize_dtype(tensor.dtype) == "bfloat16":
        tensor = ops.cast(tensor, "float32")
    return ops.convert_to_numpy(tensor)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def ids(lengths, seed, vocabulary_size=sizes.VOCABULARY_SIZE, pad_id=0):
    """(B, longest) int32: tokens other than the special ids, then padding."""
    generator = np.random.default_rng(seed)
    batch = generator.integers(4, vocabulary_size, (len(lengths), max(lengths)))
    for row, length in zip(batch, lengths, strict=True):
        row[length:] = pad_id
    return batch.astype("int32")


def sources():
    """(B, S) with unequal lengths."""
    return ids(sizes.SOURCE_LENGTHS, seed=1)


def stories():
    """(B, S, T): as many sentences as in `sources`, of unequal lengths."""
    generator = np.random.default_rng(3)
    batch = np.zeros((sizes.BATCH, sizes.SOURCE_LENGTH, sizes.TARGET_LENGTH), "int32")
    for story, count in zip(batch, sizes.SOURCE_LENGTHS, strict=True):
        for sentence in story[:count]:
            length = generator.integers(1, sizes.TARGET_LENGTH + 1)
            sentence[:length] = generator.integers(4, sizes.VOCABULARY_SIZE, length)
    return batch


def targets():
    """(B, T) with unequal lengths."""
    return ids(sizes.TARGET_LENGTHS, seed=2)
