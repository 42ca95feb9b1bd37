"""SentencePiece models with the ids of another vocabulary.

Other toolkits look pieces up in a vocabulary of their own. Here a piece's id is its
place in the SentencePiece model, so the model is written anew in the order of the
vocabulary: the same text, the same pieces, the vocabulary's ids.

Reference: Kudo and Richardson, 2018, https://arxiv.org/abs/1808.06226; the fields are
those of SentencePiece's `sentencepiece_model.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.data.protocol_buffers import field
from keras_transformer.data.protocol_buffers import fields
from keras_transformer.data.protocol_buffers import whole_fields
from keras_transformer.errors import InputError

# Fields of a ModelProto, of a piece, a TrainerSpec and a NormalizerSpec.
_PIECE, _TRAINER, _NORMALIZER, _SELF_TEST = 1, 2, 3, 4
_TEXT, _SCORE, _KIND = 1, 2, 3
_MODEL_TYPE, _BYTE_FALLBACK = 3, 35
_SPECIAL_IDS = (40, 41, 42, 43)
_UNKNOWN_PIECE, _START_PIECE, _END_PIECE, _PAD_PIECE = 45, 46, 47, 48
_SPACE_RULES = (3, 4, 5)  # a dummy prefix, single spaces, marks of spaces
_BPE = 2  # a model type

_NORMAL, _UNKNOWN, _CONTROL, _UNUSED, _BYTE = 1, 2, 3, 5, 6  # kinds
_NUM_BYTES = 256
#: What an unknown character costs beyond the rarest piece, in SentencePiece.
_UNKNOWN_PENALTY = 10.0


class _Piece(NamedTuple):
    kind: int
    score: float


def with_pieces(
    model: bytes,
    pieces: Sequence[str],
    *,
    unknown: str = "<unk>",
    start: str = "<s>",
    end: str = "</s>",
    pad: str = "<pad>",
    control: Collection[str] = (),
) -> bytes:
    """A SentencePiece model in which the piece of each id is the one given here.

    What it has of these pieces keeps its score and kind, so that text is cut as before.
    Those that it has not are found only where all their characters are unknown to it,
    and decode to what they say. Pieces of its own that are not given are lost; text is
    then cut into others.

    Args:
        model: the serialized model.
        pieces: the piece of each id, each once.
        unknown: the piece that stands for unknown characters.
        start: the piece that starts a translation, such as `pad` where padding does.
        end: the piece that ends a text.
        pad: the piece of padding.
        control: further pieces that are no text, such as languages; where one of all
            these is not among `pieces`, the model has none.

    Raises:
        InputError: where the model is none, or a piece is empty, comes twice, or is the
            unknown one and missing.

    Example:

    >>> from keras_transformer.data.foreign_pieces import with_pieces
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> own = Tokenizer.train(["low lower"] * 9, vocabulary_size=270)
    >>> pieces = ["</s>", "<unk>", *own.pieces(range(4, 270)), "<pad>"]
    >>> other = Tokenizer(with_pieces(own.model, pieces, start="<pad>"))
    >>> other.special_ids
    {'pad_id': 268, 'start_id': 268, 'end_id': 0}
    >>> other.pieces(other.encode(["lower"])[0]) == own.pieces(own.encode(["lower"])[0])
    True
    """
    _check(pieces, unknown)
    old_pieces, trainer, other_fields = _checked_parts(model)
    lowest = min(score for kind, score in old_pieces.values()) - _UNKNOWN_PENALTY
    letters = {text for text in old_pieces if len(text) == 1}
    named = {start, end, pad, *control}
    written = [*other_fields]
    num_bytes = 0
    for text in pieces:
        # A run of unknown characters is looked up as one piece.
        looked_up = _UNUSED if letters.intersection(text) else _NORMAL
        kind, score = old_pieces.get(text, _Piece(looked_up, lowest))
        if text == unknown:
            kind, score = _UNKNOWN, 0.0
        elif text in named:
            kind, score = _CONTROL, 0.0
        elif kind in (_UNKNOWN, _CONTROL):  # such as its own <s>: another's is text
            kind = _UNUSED
        num_bytes += kind == _BYTE
        piece = field(_TEXT, text) + field(_SCORE, float(score)) + field(_KIND, kind)
        written.append(field(_PIECE, piece))
    trainer += field(_UNKNOWN_PIECE, unknown) + field(_START_PIECE, start)
    trainer += field(_END_PIECE, end) + field(_PAD_PIECE, pad)
    if num_bytes < _NUM_BYTES:  # which SentencePiece would ask for
        trainer += field(_BYTE_FALLBACK, 0)
    return b"".join([*written, field(_TRAINER, trainer)])


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model, in the order of its ids.

    Raises:
        InputError: where the model is none.
    """
    return list(_checked_parts(model)[0])


def _check(pieces: Sequence[str], unknown: str) -> None:
    if "" in pieces:
        raise InputError(
            f"the vocabulary has an empty piece, id {list(pieces).index('')}; get it "
            f"again"
        )
    seen: set[str] = set()
    for piece in pieces:
        if piece in seen:
            raise InputError(
                f"the vocabulary has the piece {piece[:100]!r} twice; get it again"
            )
        seen.add(piece)
    if unknown not in seen:
        raise InputError(
            f"the vocabulary lacks the piece {unknown!r}, which stands for unknown "
            f"characters; get it again"
        )


def _checked_parts(model: bytes) -> tuple[dict[str, _Piece], bytes, list[bytes]]:
    """What `_parts` gives; an `InputError` where the model is none."""
    try:
        return _parts(model)
    # A ValueError where text is no UTF-8, too.
    except (LookupError, ValueError, struct.error):
        raise InputError(
            "the tokenizer is not a SentencePiece model, or is cut off; get it again"
        ) from None


def _parts(model: bytes) -> tuple[dict[str, _Piece], bytes, list[bytes]]:
    """Its pieces, its trainer's fields without special pieces, all other fields."""
    pieces: dict[str, _Piece] = {}
    trainer: list[bytes] = []
    other_fields: list[bytes] = []
    for number, content, whole in whole_fields(model):
        if number == _PIECE:
            parts = dict(fields(content))
            (score,) = struct.unpack("<f", parts.get(_SCORE, bytes(4)))
            kind = parts.get(_KIND, b"\1")[0]
            pieces.setdefault(parts[_TEXT].decode(), _Piece(kind, score))
        elif number == _TRAINER:
            special = {*_SPECIAL_IDS, *range(_UNKNOWN_PIECE, _PAD_PIECE + 1)}
            trainer += [raw for n, _, raw in whole_fields(content) if n not in special]
        elif number != _SELF_TEST:  # texts with the pieces of before
            other_fields.append(whole)
    if not pieces:
        raise ValueError("a message without pieces")
    return pieces, b"".join(trainer), other_fields


def of_bytes(size: int) -> bytes:
    """A SentencePiece model whose pieces are the bytes of UTF-8, as byT5 has it.

    The ids are `<pad>` 0, `</s>` 1, `<unk>` 2, then the 256 bytes, then control pieces
    up to `size`.

    Args:
        size: V, of the matrix.

    Raises:
        InputError: where it is too small.

    Example:

    >>> from keras_transformer.data.foreign_pieces import of_bytes
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> Tokenizer(of_bytes(384)).encode(["Ab"])
    [[68, 101]]
    """
    special = {"<pad>": _CONTROL, "</s>": _CONTROL, "<unk>": _UNKNOWN}
    kinds = special | {f"<0x{byte:02X}>": _BYTE for byte in range(_NUM_BYTES)}
    if size < len(kinds):
        raise InputError(
            f"a vocabulary of bytes has at least {len(kinds)} pieces, got {size}; use "
            f"the config.json of the model"
        )
    kinds |= {f"<extra_id_{number}>": _CONTROL for number in range(size - len(kinds))}
    pieces = [
        field(_PIECE, field(_TEXT, text) + field(_SCORE, 0.0) + field(_KIND, kind))
        for text, kind in kinds.items()
    ]
    trainer = b"".join(
        [
            field(_MODEL_TYPE, _BPE),
            field(_BYTE_FALLBACK, 1),
            field(_UNKNOWN_PIECE, "<unk>"),
            field(_START_PIECE, "<pad>"),
            field(_END_PIECE, "</s>"),
            field(_PAD_PIECE, "<pad>"),
        ]
    )
    unchanged = b"".join(field(number, 0) for number in _SPACE_RULES)
    return b"".join([*pieces, field(_TRAINER, trainer), field(_NORMALIZER, unchanged)])
