"""Vocabularies of Marian: a `.yml` of pieces and ids, or a SentencePiece model.

The files are YAML, but not what YAML libraries make of them: they change keys such as
`yes`, `~` and escaped control characters. They are read line by line, as CTranslate2
does.
"""

from __future__ import annotations

import re

from keras_transformer.errors import InputError

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_ESCAPED = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def yaml_pieces(text: str, where: str) -> list[str]:
    """The pieces of a `.yml`, in the order of their ids.

    Args:
        text: of the file.
        where: the beginning of the message.

    Raises:
        InputError: where a line is no piece with its id, or the ids are not 0, 1, 2,
            ..., each once.
    """
    pieces: dict[int, str] = {}
    key: str | None = None
    for number, line in enumerate(re.split(r"\r?\n", text), start=1):
        if not line.strip() or line in ("---", "..."):
            continue
        if key is None and line.startswith("? "):  # a long key; its id follows
            key = line[2:]
            continue
        piece, mark, place = line.rpartition(":")
        if key is not None:
            piece, key = key, None
        if not mark or not place.strip().isdecimal():
            raise InputError(f"{where}: line {number} is no piece with its id")
        pieces[int(place)] = _unquoted(piece)
    if sorted(pieces) != list(range(len(pieces))):
        raise InputError(
            f"{where}: the ids of its {len(pieces)} pieces are not 0 to "
            f"{len(pieces) - 1}, each once; get the file again"
        )
    return [pieces[i] for i in range(len(pieces))]


def _unquoted(text: str) -> str:
    text = text.strip(" ")
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(_character, text[1:-1])
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _character(match: re.Match[str]) -> str:
    *codes, other = match.groups()
    code = next(filter(None, codes), None)
    if code is None:
        return _ESCAPED.get(other, other)
    return chr(min(int(code, 16), 0x10FFFF))
