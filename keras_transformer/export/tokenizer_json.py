"""`tokenizer.json`, for the package `tokenizers`, made of a SentencePiece model.

It has a place for languages on both sides of a text. Only unigram models become one.
Text is cut into the same pieces, but what spells a special token becomes that token.

Reference: the format is that of https://github.com/huggingface/tokenizers; Kudo, 2018,
https://arxiv.org/abs/1804.10959 (unigram models).
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from keras_transformer.data.piece_table import SPACE_MARK
from keras_transformer.data.protocol_buffers import fields
from keras_transformer.data.tokenizer import Tokenizer

# Fields of a ModelProto, of a piece, a TrainerSpec and a NormalizerSpec.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_SCORE, _KIND = 2, 3
_MODEL_TYPE, _CHARACTER_MAP = 3, 2
_DUMMY_PREFIX, _SINGLE_SPACES, _MARKED_SPACES = 3, 4, 5
_NUMBER_OF_UNIGRAM = b"\1"

_NORMAL, _UNKNOWN, _CONTROL = b"\1", b"\2", b"\3"  # kinds of pieces


class _Parts(NamedTuple):
    """The pieces with kind and score, and the fields of trainer and normalizer."""

    pieces: list[tuple[bytes, float]]
    trainer: dict[int, bytes]
    normalizer: dict[int, bytes]


def has_tokenizer_json(tokenizer: Tokenizer) -> bool:
    """Whether `tokenizer_json` takes it.

    That is a unigram model with padding of its own, whose pieces are text, the unknown
    one or special tokens, and which marks spaces as SentencePiece does by default.
    """
    pieces, trainer, normalizer = _parts(tokenizer.model)
    return (
        len(pieces) == tokenizer.vocabulary_size
        and trainer.get(_MODEL_TYPE, _NUMBER_OF_UNIGRAM) == _NUMBER_OF_UNIGRAM
        and {kind for kind, _ in pieces} <= {_NORMAL, _UNKNOWN, _CONTROL}
        and _is_on(normalizer, _DUMMY_PREFIX)
        and _is_on(normalizer, _MARKED_SPACES)
    )


def tokenizer_json(
    tokenizer: Tokenizer, before: Sequence[int], after: Sequence[int]
) -> dict[str, Any]:
    """The content of a `tokenizer.json` with the ids and pieces of a tokenizer.

    Args:
        tokenizer: one that `has_tokenizer_json`.
        before: ids in front of those of each text.
        after: ids behind them.
    """
    kinds, _, normalizer = _parts(tokenizer.model)
    names = tokenizer.pieces(range(tokenizer.vocabulary_size))
    special = {
        token: name
        for token, (name, (kind, _)) in enumerate(zip(names, kinds, strict=True))
        if kind != _NORMAL
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(token, name) for token, name in special.items()],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(normalizer)},
        "pre_tokenizer": _spaces(),
        "post_processor": _template(before, after, names),
        "decoder": _spaces(),
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unknown_id,
            "vocab": [
                [name, score] for name, (_, score) in zip(names, kinds, strict=True)
            ],
            "byte_fallback": False,
        },
    }


def _parts(model: bytes) -> _Parts:
    pieces = []
    specs: dict[int, dict[int, bytes]] = {_TRAINER: {}, _NORMALIZER: {}}
    for number, content in fields(model):
        if number == _PIECE:
            piece = dict(fields(content))
            (score,) = struct.unpack("<f", piece.get(_SCORE, bytes(4)))
            pieces.append((piece.get(_KIND, _NORMAL), score))
        elif number in specs:
            specs[number] = dict(fields(content))
    return _Parts(pieces, specs[_TRAINER], specs[_NORMALIZER])


def _is_on(normalizer: dict[int, bytes], rule: int) -> bool:
    return normalizer.get(rule, b"\1") == b"\1"


def _added(token: int, name: str) -> dict[str, Any]:
    return {
        "id": token,
        "content": name,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _normalizers(normalizer: dict[int, bytes]) -> list[dict[str, Any]]:
    """In the order of SentencePiece."""
    rules = []
    if characters := normalizer.get(_CHARACTER_MAP):
        text = base64.b64encode(characters).decode()
        rules.append({"type": "Precompiled", "precompiled_charsmap": text})
    if _is_on(normalizer, _SINGLE_SPACES):
        rules.append(_replaced(r"\A +| +\z", ""))
        rules.append(_replaced(" {2,}", " "))
    rules.append(_replaced(" ", SPACE_MARK))
    # A mark at the beginning would take the place of the one in front of the text.
    rules.append(_replaced(rf"\A{SPACE_MARK}", 2 * SPACE_MARK))
    return rules


def _replaced(pattern: str, content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def _spaces() -> dict[str, Any]:
    """A mark for each space, and one in front of the text."""
    return {
        "type": "Metaspace",
        "replacement": SPACE_MARK,
        "prepend_scheme": "always",
        "split": False,
    }


def _template(
    before: Sequence[int], after: Sequence[int], names: Sequence[str]
) -> dict[str, Any]:
    front, back = (
        [{"SpecialToken": {"id": names[token], "type_id": 0}} for token in ids]
        for ids in (before, after)
    )
    text = {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [*front, text, *back],
        "pair": [*front, text, second, *back],
        "special_tokens": {
            names[token]: {"id": names[token], "ids": [token], "tokens": [names[token]]}
            for token in (*before, *after)
        },
    }
