"""Base of the sections of a run config: frozen, strict, exact types."""

from __future__ import annotations

from pathlib import Path

import pydantic

from keras_transformer.config.documented import Documented

Count = pydantic.PositiveInt


def expanded(path: str | Path) -> Path:
    """A path, with `~` and `~name` replaced.

    Raises:
        ValueError: where there is nobody of that name.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise ValueError(f"{path}: no such home folder; write the path out") from None


class Section(Documented):
    """Section of a run config: frozen, of exact types, of finite numbers."""

    model_config = pydantic.ConfigDict(allow_inf_nan=False)
