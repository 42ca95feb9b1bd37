"""What the sections of a run config have in common: frozen, strict, exact types."""

from __future__ import annotations

import pydantic

Count = pydantic.PositiveInt


class Section(pydantic.BaseModel):
    """Frozen; of exact types; an unknown key is an error."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )
