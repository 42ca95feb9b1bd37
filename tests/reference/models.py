"""Models that several tests look at and none changes."""

import functools

from keras import ops

from keras_transformer.models import KINDS
from reference import configs
from reference.weights import numpy
from reference.weights import randomize


def build(name, dtype="float32", **fields):
    """A model of `configs`, of whatever kind, with any field replaced."""
    config = configs.config(name, **fields)
    return KINDS[config.kind](config, dtype=dtype)


@functools.cache
def model(name, dtype="float32"):
    """One of `configs` with weights at random; built once."""
    return randomize(build(name, dtype))


def logits_of(model, source, target, **options):
    """Ids (B, S) and (B, T) -> logits (B, T, V), all in NumPy."""
    inputs = {"source": source, "target": target}
    inputs = {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}
    return numpy(model(inputs, **options))
