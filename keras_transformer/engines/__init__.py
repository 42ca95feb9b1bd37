"""Engines: what runs a model folder, Keras itself or CTranslate2; needs no Keras."""

import enum

from keras_transformer.errors import InputError


class EngineName(enum.StrEnum):
    """The engine: `auto` takes CTranslate2 where it has all that is asked for."""

    keras = "keras"
    ctranslate2 = "ctranslate2"
    auto = "auto"


def engine_name(name: str) -> EngineName:
    """The engine of a name.

    Raises:
        InputError: for any other name.
    """
    try:
        return EngineName(name)
    except ValueError:
        raise InputError(
            f"unknown engine {name!r}; use one of {', '.join(EngineName)}"
        ) from None
