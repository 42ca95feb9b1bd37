"""Registry of positional encodings: from the name in a config to layers of a model.

D hidden_dim, H num_heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_transformer.config.positions import add_position
from keras_transformer.layers.positional_encoding import LearnedPositionalEmbedding
from keras_transformer.layers.positional_encoding import SinusoidalPositionalEncoding
from keras_transformer.layers.relative_buckets import RelativeBuckets
from keras_transformer.layers.relative_position import RelativePositionalEncoding
from keras_transformer.layers.rotary_position import RotaryPositionalEncoding
from keras_transformer.position_tables import LAYOUTS


def _sinusoidal(config: Any, side: str, **options: Any) -> Any:
    layout = LAYOUTS[config.position]
    return SinusoidalPositionalEncoding(layout, config.position_offset, **options)


def _learned(config: Any, side: str, **options: Any) -> Any:
    return LearnedPositionalEmbedding(
        config.max_sequence_length, config.position_offset, **options
    )


def _rotary(config: Any, side: str, **options: Any) -> Any:
    layout = "halves" if config.position == "rotary_halves" else "interleaved"
    return RotaryPositionalEncoding(layout, config.rotary_base, **options)


def _relative_buckets(config: Any, side: str, **options: Any) -> Any:
    return RelativeBuckets(
        config.sizes(side).num_heads,
        config.num_relative_buckets,
        config.max_relative_distance,
        causal=side == "decoder",
        **options,
    )


def _none(config: Any, side: str, **options: Any) -> None:
    return None


_MAKERS = {
    **dict.fromkeys(LAYOUTS, _sinusoidal),
    "learned": _learned,
    "rotary": _rotary,
    "rotary_halves": _rotary,
    "relative_buckets": _relative_buckets,
    "none": _none,
}


def register_position(
    name: str,
    make: Callable[..., Any],
    num_weights: Callable[[Any], int] = lambda config: 0,
) -> None:
    """Registers a positional encoding as a value of `TransformerConfig.position`.

    A process that loads such a model must register it first, as any custom layer of
    Keras.

    Args:
        name: the value.
        make: of a config, a side (`"encoder"` or `"decoder"`, whose self-attention is
            causal) and the keywords `dtype` and `name`, the layer of that side: a
            `RelativePositionalEncoding`, which all its self-attentions share, or a
            layer that is called with embeddings (B, T, D) as
            `SinusoidalPositionalEncoding` is.
        num_weights: of a config, how many weights both sides' layers have together.

    Raises:
        ValueError: a positional encoding of this package has the name.

    Example:

    >>> import keras_transformer as kt
    >>> def make(config, side, **options):
    ...     return kt.layers.RotaryPositionalEncoding(base=500_000.0, **options)
    >>> kt.models.register_position("rotary_500k", make)
    >>> kt.TransformerConfig(vocabulary_size=100, position="rotary_500k").position
    'rotary_500k'
    """
    if name in _OF_THIS_PACKAGE:
        raise ValueError(f"position {name!r} is built in; register another name")
    _MAKERS[name] = make
    add_position(name, num_weights)


def position_module(name: str) -> str | None:
    """The module that registered a name from outside; None for one of this package.

    Another process imports it to know the name, too.
    """
    if name in _OF_THIS_PACKAGE:
        return None
    return getattr(_MAKERS[name], "__module__", None)


def position_layer(config: Any, side: str, policy: Any, name: str) -> Any:
    """The layer of one side of a model, with its weights; None without positions."""
    layer = _MAKERS[config.position](config, side, dtype=policy, name=name)
    if isinstance(layer, RelativePositionalEncoding):
        layer.build()  # built here, so that its weights are not named after a block
    return layer


_OF_THIS_PACKAGE = frozenset(_MAKERS)
