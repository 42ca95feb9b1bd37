"""Import report: what was found in the files of another toolkit, and what it gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

_FLOAT_BYTES = 4
_SHOWN = 8  # languages of a list


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportReport:
    """What an import found.

    Attributes:
        source: the folder or file, or the name on the hub.
        folder: the model folder that was written; None where nothing was.
        family: what people call such models, such as `"MarianMT"`.
        num_weights: the number of weights.
        languages: codes that the model knows; none where it has one direction only.
        licence: as far as the files say it; None where they do not.
        left_out: sentences about what was not taken over.
    """

    source: str
    folder: Path | None
    family: str
    num_weights: int
    languages: tuple[str, ...]
    licence: str | None
    left_out: tuple[str, ...]

    @property
    def gigabytes(self) -> float:
        """The size of the weights in a model folder, where they are float32."""
        return self.num_weights * _FLOAT_BYTES / 1e9

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"family: {self.family}"
        yield f"weights: {self.num_weights:,} ({self.gigabytes:.3g} GB as float32)"
        if self.languages:
            shown = ", ".join(self.languages[:_SHOWN])
            more = len(self.languages) - _SHOWN
            yield f"languages: {shown}" + (f" and {more} more" if more > 0 else "")
        yield f"licence: {self.licence or 'not named in the files; look at its source'}"
        for sentence in self.left_out:
            yield f"left out: {sentence}"
        if self.folder is not None:
            yield f"model folder: {self.folder}"
