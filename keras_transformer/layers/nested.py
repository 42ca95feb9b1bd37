"""Layers as arguments of layers, to `get_config` and back."""

from __future__ import annotations

from typing import Any

import keras


def to_config(layer: Any) -> Any:
    """A layer in the form of `get_config`, built or not; None for None."""
    config = keras.saving.serialize_keras_object(layer)
    if config is not None:
        config.pop("build_config", None)  # the outer layer builds it
        # Keras writes it later, into a dictionary of which this is a copy; without it,
        # several layers that share this one would each get another.
        config.setdefault("shared_object_id", id(layer))
    return config


def from_config(layer: Any) -> Any:
    """A layer, from what `to_config` gave or as it is; None for None."""
    if isinstance(layer, dict):
        return keras.saving.deserialize_keras_object(layer)
    return layer
