"""Byte-pair encoding by a list of merges, as BART and fairseq's translators have it.

The exports that translate by themselves take this file along, so it needs Python alone,
and for a vocabulary of Moses tokens the package `sacremoses`.

A file of such a vocabulary is text: a line of JSON that says the rules, then a line for
each piece in the order of the ids, then a line for each merge, the first one first.

Reference: Sennrich et al., 2016, https://arxiv.org/abs/1508.07909; Radford et al.,
2019, "Language Models are Unsupervised Multitask Learners" (pieces of bytes); Koehn et
al., 2007, https://aclanthology.org/P07-2045 (Moses).
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import re
import unicodedata
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from typing import Literal

FORMAT = "keras-transformer pieces"
FORMAT_VERSION = 1
_MAGIC = b'{"format": "' + FORMAT.encode()
_MOST_RULES_BYTES = 2**20  # of the first line; it lists symbols
#: A vocabulary of 30,000 pieces has as many merges, two of which may share it.
_MERGES_A_PIECE = 16
_KEPT_WORDS = 2**16  # whose pieces are remembered
_LONGEST_KEPT = 64  # characters of such a word
_AGAIN = "import the model again, or copy its folder again"
_END_OF_WORD = "</w>"
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8})*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """What a vocabulary says beside its pieces and merges.

    Args:
        kind: `"bytes"`: pieces are made of the bytes of UTF-8; `"moses"`: of the
            characters of Moses tokens.
        pad: the id of padding.
        start: the id that starts a translation.
        end: the id that ends a text.
        unknown: the id of what has no piece.
        symbols: ids that stand for no text.
        prefix_space: of bytes: whether a space is put in front of a text.
        language: of Moses tokens, such as `"de"`.
        lowercase: of Moses tokens: whether a text is put into small letters.
    """

    kind: Literal["bytes", "moses"]
    pad: int
    start: int
    end: int
    unknown: int
    symbols: tuple[int, ...] = ()
    prefix_space: bool = False
    language: str | None = None
    lowercase: bool = False


def is_listed(model: bytes) -> bool:
    """Whether a tokenizer file is a list of pieces, by its first bytes."""
    return model.startswith(_MAGIC)


def serialized(
    pieces: Sequence[str], merges: Sequence[tuple[str, str]], rules: Rules
) -> bytes:
    """The content of a tokenizer file.

    Args:
        pieces: the piece of each id.
        merges: pairs of pieces, the first one first.
        rules: the rest.

    Raises:
        ValueError: where a piece is empty or comes twice, or one holds a line feed or a
            merge a space.
    """
    head = {"format": FORMAT, "format_version": FORMAT_VERSION}
    counts = {"pieces": len(pieces), "merges": len(merges)}
    first = json.dumps({**head, **counts, **dataclasses.asdict(rules)})
    joined = [" ".join(pair) for pair in merges]
    model = "\n".join([first, *pieces, *joined, ""]).encode()
    ListedPieces(model)  # checks it
    return model


def check_cost(model: bytes, vocabulary_size: int) -> None:
    """Refuses a list that would cost far more than a vocabulary of this size.

    Args:
        model: the content of a tokenizer file.
        vocabulary_size: V, of the model.

    Raises:
        ValueError: where it has more lines.
    """
    most = (1 + _MERGES_A_PIECE) * vocabulary_size + 1
    if (count := model.count(b"\n")) > most:
        raise ValueError(
            f"the tokenizer has {count} lines, more than pieces and merges of a "
            f"vocabulary of {vocabulary_size} take; {_AGAIN}"
        )


class ListedPieces:
    """A vocabulary with its merges; the names are those of SentencePiece's processor.

    Args:
        model: the content of a tokenizer file.

    Raises:
        ValueError: where it is none.

    Example:

    >>> from keras_transformer.data.listed_pieces import ListedPieces, Rules, serialized
    >>> rules = Rules(kind="bytes", pad=0, start=1, end=1, unknown=2, symbols=(0, 1, 2))
    >>> pieces = ["<pad>", "</s>", "<unk>", "l", "o", "w", "lo", "low"]
    >>> listed = ListedPieces(serialized(pieces, [("l", "o"), ("lo", "w")], rules))
    >>> listed.encode(["lowlo"]), listed.decode([[7, 6, 1]])
    ([[7, 6]], ['lowlo'])
    """

    def __init__(self, model: bytes) -> None:
        fields, lines = _parts(model)
        counts = [_whole(fields, name) for name in ("pieces", "merges")]
        if len(lines) != sum(counts):
            raise ValueError(
                f"the tokenizer has {len(lines)} lines of pieces and merges, but says "
                f"{sum(counts)}; {_AGAIN}"
            )
        self.pieces, listed = lines[: counts[0]], lines[counts[0] :]
        self.rules = _rules(fields, len(self.pieces))
        self.merges = [_merge(line) for line in listed]
        self._ids = {piece: i for i, piece in enumerate(self.pieces)}
        if len(self._ids) < len(self.pieces) or "" in self._ids:
            raise ValueError(
                f"the tokenizer has a piece twice, or an empty one; {_AGAIN}"
            )
        self._ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        self._symbols = {*self.rules.symbols, self.rules.pad, self.rules.end}
        self._symbols |= {self.rules.start, self.rules.unknown}
        self._known: dict[str, list[int]] = {}
        is_bytes = self.rules.kind == "bytes"
        self._text: _Bytes | _Moses = (
            _Bytes(self.rules) if is_bytes else _Moses(self.rules)
        )

    def vocab_size(self) -> int:
        """V: the number of pieces."""
        return len(self.pieces)

    def pad_id(self) -> int:
        """The id of padding."""
        return self.rules.pad

    def bos_id(self) -> int:
        """The id that starts a translation."""
        return self.rules.start

    def eos_id(self) -> int:
        """The id that ends a text."""
        return self.rules.end

    def unk_id(self) -> int:
        """The id of what has no piece."""
        return self.rules.unknown

    def id_to_piece(self, token: int) -> str:
        """The piece of an id."""
        return self.pieces[token]

    def piece_to_id(self, piece: str) -> int:
        """The id of a piece; the unknown id where there is none of that spelling."""
        return self._ids.get(piece, self.rules.unknown)

    def encode(
        self, texts: Sequence[str | bytes], out_type: type = int
    ) -> list[list[int]]:
        """The ids of each text, without special ones.

        Args:
            texts: strings, or their UTF-8.
            out_type: `int`, which is all that there is.
        """
        return [self._encode(_as_str(text)) for text in texts]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; what stands for no text is dropped."""
        return [
            self._text.joined(
                self.pieces[token] for token in row if token not in self._symbols
            )
            for row in rows
        ]

    def normalize(self, text: str) -> str:
        """The text after all that is done before it is cut into pieces."""
        return self._text.normalize(text)

    def spelled(self, token: int) -> str:
        """An id as a text has it; a part of a character as `<0xE2>`."""
        piece = self.pieces[token]
        return piece if token in self._symbols else self._text.spelled(piece)

    def _encode(self, text: str) -> list[int]:
        return [token for word in self._text.words(text) for token in self._word(word)]

    def _word(self, word: str) -> list[int]:
        if (known := self._known.get(word)) is not None:
            return known
        parts = _merged(self._text.letters(word), self._ranks)
        ids = [self._ids.get(part, self.rules.unknown) for part in parts]
        if len(word) <= _LONGEST_KEPT:
            if len(self._known) >= _KEPT_WORDS:
                self._known.clear()
            self._known[word] = ids
        return ids


# === Text, of bytes ===

_PRINTED = (*range(33, 127), *range(161, 173), *range(174, 256))
_HIDDEN = [byte for byte in range(256) if byte not in _PRINTED]
#: The character that stands for each byte: itself where it is printed.
_CHARACTERS = {byte: chr(byte) for byte in _PRINTED} | {
    byte: chr(256 + number) for number, byte in enumerate(_HIDDEN)
}
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}

_SPACES = "\t\n\v\f\r\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_OF_SHORT_FORMS = "'strevmld"


class _Kinds(dict[int, str]):
    """For `str.translate`: letters are L, numbers N, white space W, the rest O.

    A space, the apostrophe and the letters of English short forms stay.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)[0]
        kind = category if category in "LN" else "O"
        if character in _SPACES:
            kind = "W"
        if character == " " or character in _OF_SHORT_FORMS:
            kind = character
        self[code] = kind
        return kind


_KINDS = _Kinds()
#: GPT-2's words, on kinds: short forms; letters, numbers or others, each with a space
#: in front; white space, whose last character stays with what follows.
_WORDS = re.compile(
    r"'(?:[stmd]|re|ve|ll)| ?[Lstrevmld]+| ?N+| ?[O']+|[ W]+(?![^ W])|[ W]+"
)


class _Bytes:
    """Text whose letters are the bytes of UTF-8, each written as one character."""

    def __init__(self, rules: Rules) -> None:
        self._prefix_space = rules.prefix_space

    def normalize(self, text: str) -> str:
        return text

    def words(self, text: str) -> Iterable[str]:
        if self._prefix_space and text and not text.startswith(" "):
            text = f" {text}"
        for match in _WORDS.finditer(text.translate(_KINDS)):
            yield text[match.start() : match.end()]

    def letters(self, word: str) -> list[str]:
        return [_CHARACTERS[byte] for byte in word.encode()]

    def joined(self, pieces: Iterable[str]) -> str:
        return b"".join(map(_bytes_of, pieces)).decode(errors="replace")

    def spelled(self, piece: str) -> str:
        text = _bytes_of(piece)
        try:
            return text.decode()
        except UnicodeDecodeError:
            return "".join(f"<0x{byte:02X}>" for byte in text)


def _bytes_of(piece: str) -> bytes:
    if all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.encode()  # one that was added later, as it is


# === Text, of Moses tokens ===

_PUNCTUATION = str.maketrans(
    dict(zip("，、∶：？）！（；～’━〈〉【】％", ",,::?)!(;~'-<>[]%", strict=True))
    | dict.fromkeys("”“《》」「", '"')
    | {chr(0xFF10 + digit): str(digit) for digit in range(10)}
    | {"…": "..."}
)
_FULL_STOPS = re.compile(r"[。．]\s*")


class _Moses:
    """Text cut into tokens by Moses, whose last letter has a mark."""

    def __init__(self, rules: Rules) -> None:
        try:
            import sacremoses
        except ImportError:
            raise ValueError(
                "the tokenizer cuts text as Moses does, for which it needs the package "
                "sacremoses, which is not installed; run pip install sacremoses"
            ) from None
        self._lowercase = rules.lowercase
        language = rules.language or "en"
        self._normalizer = sacremoses.MosesPunctNormalizer(language)
        self._tokenizer = sacremoses.MosesTokenizer(language)
        self._detokenizer = sacremoses.MosesDetokenizer(language)

    def normalize(self, text: str) -> str:
        return " ".join(self.words(text))

    def words(self, text: str) -> Iterable[str]:
        if self._lowercase:
            text = text.lower()
        text = _FULL_STOPS.sub(". ", text.translate(_PUNCTUATION))
        text = self._normalizer.normalize(text)
        printed = [c for c in text if not unicodedata.category(c).startswith("C")]
        tokens: list[str] = self._tokenizer.tokenize(
            "".join(printed), aggressive_dash_splits=True
        )
        return filter(None, tokens)

    def letters(self, word: str) -> list[str]:
        return [*word[:-1], word[-1] + _END_OF_WORD]

    def joined(self, pieces: Iterable[str]) -> str:
        words = "".join(pieces).replace(_END_OF_WORD, " ").split()
        text: str = self._detokenizer.detokenize(words)
        return text

    def spelled(self, piece: str) -> str:
        return piece.replace(_END_OF_WORD, " ")


# === Merges ===


def _merged(letters: Sequence[str], ranks: Mapping[tuple[str, str], int]) -> list[str]:
    """The pieces of a word: again and again its first merge, of equal ones the left."""
    parts, count = list(letters), len(letters)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    waiting = [
        (ranks[pair], place)
        for place, pair in enumerate(pairwise(parts))
        if pair in ranks
    ]
    heapq.heapify(waiting)
    while waiting:
        rank, left = heapq.heappop(waiting)
        right = after[left]
        if right == count or ranks.get((parts[left], parts[right])) != rank:
            continue  # one of the two was merged since
        parts[left] += parts[right]
        parts[right] = ""
        after[left] = after[right]
        if after[left] < count:
            before[after[left]] = left
        for first in (before[left], left):
            if first >= 0 and (second := after[first]) < count:
                new = ranks.get((parts[first], parts[second]))
                if new is not None:
                    heapq.heappush(waiting, (new, first))
    return [part for part in parts if part]


# === The file ===


def _parts(model: bytes) -> tuple[dict[str, Any], list[str]]:
    """The fields of the first line, and the other lines."""
    try:
        first = model.index(b"\n", 0, _MOST_RULES_BYTES)
        fields = json.loads(model[:first])
        lines = model[first + 1 :].decode().split("\n")
    except (RecursionError, ValueError):
        fields, lines = None, []
    if not isinstance(fields, dict) or not lines or lines.pop():
        raise ValueError(f"the tokenizer is no list of pieces, or is cut off; {_AGAIN}")
    if fields.get("format_version") != FORMAT_VERSION:
        raise ValueError(
            f"the tokenizer has format_version "
            f"{str(fields.get('format_version'))[:100]!r}, but this version reads "
            f"{FORMAT_VERSION}; update keras-transformer"
        )
    return fields, lines


def _whole(fields: Mapping[str, Any], name: str, below: int | None = None) -> int:
    value: Any = fields.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or value < 0 or (below is not None and value >= below):
        raise ValueError(
            f"the tokenizer's {name} {str(value)[:100]!r} is no whole number"
            + (f" below {below}" if below is not None else "")
            + f"; {_AGAIN}"
        )
    return int(value)


def _rules(fields: Mapping[str, Any], size: int) -> Rules:
    ids = {n: _whole(fields, n, size) for n in ("pad", "start", "end", "unknown")}
    symbols, language = fields.get("symbols"), fields.get("language")
    if not isinstance(symbols, list):
        raise ValueError(f"the tokenizer's symbols are no list; {_AGAIN}")
    if language is not None and not (
        isinstance(language, str) and _LANGUAGE.fullmatch(language)
    ):
        raise ValueError(
            f"the tokenizer's language {str(language)[:100]!r} is no code; {_AGAIN}"
        )
    kind: Any = fields.get("kind")
    if kind not in ("bytes", "moses"):
        raise ValueError(
            f"the tokenizer is of the kind {str(kind)[:100]!r}, but bytes and moses "
            f"are all that is known; update keras-transformer"
        )
    return Rules(
        kind=kind,
        symbols=tuple(_whole({"symbols": i}, "symbols", size) for i in symbols),
        prefix_space=fields.get("prefix_space") is True,
        language=language,
        lowercase=fields.get("lowercase") is True,
        **ids,
    )


def _merge(line: str) -> tuple[str, str]:
    left, space, right = line.partition(" ")
    if not (left and space and right) or " " in right:
        raise ValueError(
            f"the tokenizer has the merge {line[:100]!r}, no pair; {_AGAIN}"
        )
    return left, right


def _as_str(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text
