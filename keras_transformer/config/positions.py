"""Names of the positional encodings that a config may ask for.

`models.positions` says what is made of each; more are added there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _no_weights(config: Any) -> int:
    return 0


def _learned_weights(config: Any) -> int:
    return 2 * config.max_sequence_length * config.hidden_dim


def _bucket_weights(config: Any) -> int:
    heads = sum(config.sizes(side).num_heads for side in ("encoder", "decoder"))
    return config.num_relative_buckets * heads


#: By name, how many weights both sides have of it together.
POSITIONS: dict[str, Callable[[Any], int]] = {
    "sinusoidal": _no_weights,
    "sinusoidal_halves": _no_weights,
    "sinusoidal_halves_t2t": _no_weights,
    "learned": _learned_weights,
    "rotary": _no_weights,
    "rotary_halves": _no_weights,
    "relative_buckets": _bucket_weights,
    "none": _no_weights,
}


def add_position(name: str, num_weights: Callable[[Any], int] = _no_weights) -> None:
    """Makes a name known to `TransformerConfig`; see `models.register_position`."""
    POSITIONS[name] = num_weights
