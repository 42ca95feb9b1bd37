"""The keys of a config that is for several runs: seeds and stages."""

from __future__ import annotations

from typing import Annotated
from typing import Any

import pydantic

from keras_transformer.training.config.section import Count
from keras_transformer.training.config.section import Section

Seed = Annotated[int, pydantic.Field(ge=0, lt=2**32)]


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Seeds = Annotated[
    Count | Annotated[tuple[Seed, ...], pydantic.Field(min_length=1)],
    pydantic.BeforeValidator(_as_tuple),
]


class SeriesKeys(Section):
    """Keys of a config that is for several runs."""

    seeds: Seeds | None = None
    """Seeds: how many runs, with `training.seed` 1, 2, ..., or a list of seeds. Each
    run has a folder in `output`; a table has mean and spread of their scores."""
    baseline: str | None = None
    """Baseline: a run folder, relative to the working directory, with whose
    translations of the test text those of each run are compared by paired
    bootstrap."""
    stages: Annotated[
        tuple[dict[str, Any], ...] | None, pydantic.BeforeValidator(_as_tuple)
    ] = None
    """Stages: runs one after the other, each with a `name`, and with the keys in which
    its config differs. Each goes on from the model of the stage before it, of the stage
    that `after` names, or with `after: none` from nothing; `seeds` may be its own. See
    docs/stages.md."""


class StageKeys(Section):
    """Keys of a stage beside those of its config."""

    name: str
    """Name of the stage, and of its folder."""
    after: str | None = None
    """The stage whose model it begins with."""
    seeds: Seeds | None = None
    """Its seeds."""
