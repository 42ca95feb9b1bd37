"""Sentence pairs as text, in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator

from keras_transformer.errors import InputError

CHUNK = 10_000  # number of pairs that are read and encoded at once


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Sentence pairs: line i of `target` translates line i of `source`."""

    source: list[str]
    target: list[str]

    def __post_init__(self) -> None:
        for side in (self.source, self.target):
            if isinstance(side, str | bytes):
                raise InputError(
                    f"expected a list of lines for each side, got {side[:40]!r}; give "
                    f"[text], or the lines of a file by read_lines"
                )
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source lines do not pair with {len(self.target)} "
                f"target lines; give one translation for each line"
            )

    @classmethod
    def concatenate(cls, parts: Iterable[ParallelText]) -> ParallelText:
        """All pairs of all parts, in order."""
        text = cls([], [])
        for part in parts:
            text.source.extend(part.source)
            text.target.extend(part.target)
        return text

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]]) -> ParallelText:
        """The text of an iterable of (source, target) pairs."""
        source, target = [], []
        for one, other in pairs:
            source.append(one)
            target.append(other)
        return cls(source, target)

    def __len__(self) -> int:
        return len(self.source)

    def chunks(self, size: int = CHUNK) -> Iterator[ParallelText]:
        """Chunks of at most `size` pairs, in order."""
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield ParallelText(self.source[part], self.target[part])


def spread(texts: Iterable[ParallelText], most: int) -> ParallelText:
    """A sample of pairs spread evenly over a stream; all of a short stream.

    Every n-th pair is kept. Whenever these exceed `most`, n doubles and every second
    one is dropped.

    Example:

    >>> from keras_transformer.data.parallel_text import ParallelText
    >>> from keras_transformer.data.parallel_text import spread
    >>> lines = [str(number) for number in range(10)]
    >>> spread([ParallelText(lines, lines)], most=3).source
    ['0', '4', '8']
    """
    kept, interval, position = ParallelText([], []), 1, 0
    for text in texts:
        part = slice(-position % interval, None, interval)
        kept.source.extend(text.source[part])
        kept.target.extend(text.target[part])
        position += len(text)
        while len(kept) > most:
            kept = ParallelText(kept.source[::2], kept.target[::2])
            interval *= 2
    return kept
