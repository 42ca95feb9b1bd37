"""Parser of translation memories (TMX): sentence pairs as a stream.

Expat parses. Files with declarations (entities that expand, default attributes) are
refused, and so are tags and texts without end.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from keras_transformer.data.columns import Columns
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import LineFault

_DEEPEST = 100  # nesting depth of elements
_MOST_LANGUAGES = 1000
_OVERHEAD = 200  # bytes of overhead of a text in memory
_LANGUAGE = ("xml:lang", "lang")  # the second is that of TMX 1.1

#: Elements that hold markup of the translated document, not its text.
_CODES = {"bpt", "ept", "it", "ph", "ut"}


class TranslationUnits:
    """The pairs of a TMX file that is fed in blocks.

    A language includes its variants (`en` also en-US) where the unit lacks the language
    itself. A unit without one of the languages has an empty side.

    Args:
        columns: the languages of source and target.

    Attributes:
        count: units so far.
        complete: those of them that have both sides.
        languages: languages of the file so far.
    """

    def __init__(self, columns: Columns) -> None:
        self.count = 0
        self.complete = 0
        self.languages: set[str] = set()
        self._wanted = [str(column).lower() for column in columns]
        self._pairs: list[tuple[str, str]] = []
        self._open: list[str] = []
        self._texts: dict[str, str] = {}  # of a unit, by language
        self._text: list[str] = []  # of a segment
        self._size = self._fed = 0
        self._language = ""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse_declarations
        self._parser.SkippedEntityHandler = self._refuse_entity
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters

    @property
    def line(self) -> int:
        """The number of the current line."""
        return self._parser.CurrentLineNumber

    def feed(self, block: bytes) -> None:
        """Parses the next block of the file.

        Raises:
            expat.ExpatError: where it is not XML.
            LineFault: where the content is refused.
        """
        self._fed += len(block)
        self._parser.Parse(block, False)
        # Expat keeps a tag in memory until it ends.
        if self._fed - max(self._parser.CurrentByteIndex, 0) > 2 * LONGEST_LINE:
            raise LineFault("has a tag without end")

    def end(self) -> None:
        """Ends the file; raises as `feed` does."""
        self._parser.Parse(b"", True)

    def taken(self) -> list[tuple[str, str]]:
        """The pairs since the last call."""
        pairs, self._pairs = self._pairs, []
        return pairs

    def _refuse_declarations(
        self, name: str, system: Any, public: Any, has_internal_subset: int
    ) -> None:
        if has_internal_subset:
            raise LineFault(
                "declares entities or default attributes, which are not allowed"
            )

    def _refuse_entity(self, name: str, is_parameter: int) -> None:
        raise LineFault(f"has the unknown entity {name[:40]}")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != "tmx":
            raise LineFault(f"begins with {name[:40]} instead of tmx")
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise LineFault(f"nests more than {_DEEPEST} elements")
        if name == "tu":
            self._texts, self._size = {}, 0
        elif name == "tuv":
            languages = (attributes[key] for key in _LANGUAGE if key in attributes)
            self._language = next(languages, "").lower()
            self._count(_OVERHEAD + len(self._language))
            if len(self.languages) < _MOST_LANGUAGES:
                self.languages.add(self._language)
        elif name == "seg":
            self._text = []

    def _end(self, name: str) -> None:
        self._open.pop()
        if name == "seg":
            self._texts.setdefault(self._language, "".join(self._text).strip())
        elif name == "tu":
            source, target = map(self._side, self._wanted)
            self.count += 1
            self.complete += source is not None and target is not None
            self._pairs.append((source or "", target or ""))

    def _side(self, wanted: str) -> str | None:
        if wanted in self._texts:
            return self._texts[wanted]
        variants = (
            text
            for language, text in self._texts.items()
            if language.startswith((f"{wanted}-", f"{wanted}_"))
        )
        return next(variants, None)

    def _characters(self, text: str) -> None:
        if "seg" not in self._open or _CODES & set(self._open):
            return
        self._count(len(text))
        self._text.append(text)

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > LONGEST_LINE:
            raise LineFault("has a unit that is too long for a sentence")
