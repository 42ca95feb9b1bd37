"""Numeric decoding options as inputs of a compiled search, shared by all values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.tensors import Tensors

#: Placeholders of numbers that are inputs of a program. They say that the option is
#: used; an option at its default adds no operation.
_PLACEHOLDERS = {
    name: option.stand_in
    for name, option in OPTIONS.items()
    if option.stand_in is not None
}


def as_inputs(
    options: DecodingOptions,
) -> tuple[DecodingOptions, dict[str, Any]]:
    """The options of a compiled search, and the numbers that are its inputs.

    Args:
        options: `DecodingOptions`, with `top_beams` as the search takes it.

    Returns:
        Options that are equal for equal programs, and `{name: scalar}`, int32 or
        float32, for `constants["numbers"]`, see `number`.

    Example:

    >>> from keras_transformer.decoding import DecodingOptions
    >>> from keras_transformer.decoding.numbers import as_inputs
    >>> options, numbers = as_inputs(DecodingOptions(length_penalty=0.8))
    >>> options == as_inputs(DecodingOptions(length_penalty=0.9))[0]
    True
    >>> float(numbers["length_penalty"])
    0.800000011920929
    """
    changed = options.changed().items()
    numbers = {name: value for name, value in changed if name in _PLACEHOLDERS}
    placeholders = {name: _PLACEHOLDERS[name] for name in numbers}
    if "patience" in numbers:
        width = options.beam_size // options.num_beam_groups
        numbers["patience"] = enough(options.patience, width, options.top_beams)
    numbers = {
        name: np.int32(value) if isinstance(value, int) else np.float32(value)
        for name, value in numbers.items()
    }
    return options.model_copy(update=placeholders), numbers


def number(name: str, given: Any, constants: Tensors) -> Any:
    """The number in `constants["numbers"]`, or `given` where there is none."""
    numbers = constants.get("numbers", {}) if isinstance(constants, Mapping) else {}
    return numbers.get(name, given)


def enough(patience: float | None, width: int, top_beams: int) -> int | None:
    """The number of finished hypotheses at which patience ends a search.

    At least as many as are returned. None without patience.
    """
    if patience is None:
        return None
    return max(math.ceil(patience * width), min(top_beams, width))
