"""Base of the sections of a run config: frozen, strict, exact types."""

from __future__ import annotations

from pathlib import Path

import pydantic

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


class Section(pydantic.BaseModel):
    """Frozen; of exact types; an unknown key is an error."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )
