"""Sentences to translate, as ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.config.languages import Direction


class Sentence(NamedTuple):
    """A sentence to translate, as ids.

    `name` is its name in messages; `key` are the numbers that its samples depend on;
    `forced_start` is the first token of its translation, which no score counts, and the
    `prefix` follows it. `direction` is what stands around its text.
    """

    ids: list[int]  # (S,), with the end token if the model expects one
    name: str = "a sentence"
    key: tuple[int, ...] = (0,)
    prefix: Sequence[int] = ()
    forced_start: int | None = None
    direction: Direction | None = None

    @property
    def start_id(self) -> int | None:
        """The first input of the decoder; None for that of the model."""
        return self.direction.start_id if self.direction else None

    def num_around(self, source_end: bool) -> int:
        """The ids around those of its text, with the end token if there is one."""
        if self.direction is None:
            return int(source_end)
        return len(self.direction.source_before) + len(self.direction.source_after)

    @property
    def num_forced(self) -> int:
        """The forced tokens that its translation begins with."""
        return len(self.prefix) + (self.forced_start is not None)
