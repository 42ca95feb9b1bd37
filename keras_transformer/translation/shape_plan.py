"""Choice of a search's static shapes: padding costs time, and so does a program."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence

Shape = tuple[int, int]  # rows, source positions

#: A search that drops finished rows, see `decoding.search_loop`, takes the time of a
#: program more to compile, and a fifth less for text whose lengths differ.
_PROGRAMS_UNTIL_DROPPING = 5


class ShapePlan:
    """The shapes of one search's programs, chosen by what has been translated so far.

    Each batch fits into a shape of its own, the smallest, and into any larger one that
    has been compiled. A shape is compiled once the batches that would use it, those of
    earlier calls included, would have saved as many padded positions as a program is
    worth. So a file of a thousand lines needs one or two programs, and a large one
    comes to have those of all its lengths.

    Args:
        program_positions: how many source positions take as long as the compilation
            of a program.
    """

    def __init__(self, program_positions: float) -> None:
        self._program_positions = program_positions
        self._needs: Counter[Shape] = Counter()  # how many batches so far, by shape
        self._compiled: set[Shape] = set()
        self._searched: Counter[Shape] = Counter()  # positions so far, by program
        self._lock = threading.Lock()

    def own(self, shapes: Sequence[Shape]) -> list[Shape]:
        """The shapes themselves, noted as compiled."""
        with self._lock:
            self._compiled.update(shapes)
            self._note(shapes)
        return list(shapes)

    def shared(self, shapes: Sequence[Shape]) -> list[Shape]:
        """For the smallest shape of each batch of a job the one that it is to have."""
        with self._lock:
            self._needs.update(shapes)
            # The largest first: nothing else has room for it.
            for shape in sorted(set(shapes), key=_positions, reverse=True):
                if self._place(shape) is None:
                    self._compiled.add(shape)
            while True:
                savings = {
                    shape: self._saving(shape)
                    for shape in self._needs.keys() - self._compiled
                }
                best = max(savings, key=lambda shape: savings[shape], default=None)
                if best is None or savings[best] < self._program_positions:
                    break
                self._compiled.add(best)
            places = [self._place(shape) or shape for shape in shapes]
            self._note(places)
            return places

    def drops_rows(self, shape: Shape) -> bool:
        """Whether the searches of a shape so far would pay for one that drops rows."""
        least = _PROGRAMS_UNTIL_DROPPING * self._program_positions
        with self._lock:
            return self._searched[shape] >= least

    def _note(self, shapes: Iterable[Shape]) -> None:
        for shape in shapes:
            self._searched[shape] += _positions(shape)

    def _saving(self, shape: Shape) -> int:
        """The positions that all batches so far would have spared with this shape."""
        total = 0
        for need, count in self._needs.items():
            place = self._place(need)
            if place is not None and _holds(shape, need):
                total += count * max(_positions(place) - _positions(shape), 0)
        return total

    def _place(self, shape: Shape) -> Shape | None:
        """The smallest compiled shape that has room for it."""
        places: Iterable[Shape] = (s for s in self._compiled if _holds(s, shape))
        return min(places, key=_positions, default=None)


def _holds(shape: Shape, other: Shape) -> bool:
    return shape[0] >= other[0] and shape[1] >= other[1]


def _positions(shape: Shape) -> int:
    return shape[0] * shape[1]
