"""Models that several tests look at and none changes."""

import functools

from keras import ops

from keras_transformer.models import Transformer
from reference import configs
from reference.weights import numpy
from reference.weights import randomize


@functools.cache
def model(name, dtype="float32"):
    """One of `configs.OPTIONS` with weights at random; built once."""
    return randomize(Transformer(configs.config(name), dtype=dtype))


def logits_of(model, source, target, **options):
    """Ids (B, S) and (B, T) -> logits (B, T, V), all in NumPy."""
    inputs = {"source": source, "target": target}
    inputs = {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}
    return numpy(model(inputs, **options))
