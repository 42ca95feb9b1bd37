"""Subword vocabulary of a tokenizer: ids, spelling, special ids."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any
from typing import TypedDict

import sentencepiece

from keras_transformer.data import listed_pieces
from keras_transformer.errors import InputError

#: SentencePiece writes a space as this character, so in a text it becomes a space.
SPACE_MARK = "\u2581"


class SpecialIds(TypedDict):
    """Ids that source and target of a model share, as arguments."""

    pad_id: int
    start_id: int
    end_id: int


class PieceTable:
    """The vocabulary of a tokenizer, with padding added if it has none.

    Args:
        model: a serialized SentencePiece model, or a list of pieces and merges, see
            `data.listed_pieces`.

    Raises:
        InputError: where `model` is none.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        self._processor: Any = _processor(model)

    @property
    def listed(self) -> listed_pieces.ListedPieces | None:
        """The list of pieces and merges; None where it is a SentencePiece model."""
        listed = isinstance(self._processor, listed_pieces.ListedPieces)
        return self._processor if listed else None

    @property
    def vocabulary_size(self) -> int:
        """V: the number of ids, with special ids and an appended padding id."""
        return self._processor.vocab_size() + self._appends_padding

    @property
    def special_ids(self) -> dict[str, int]:
        """`pad_id`, `start_id` and `end_id`, as configs and `TokenBatches` take them.

        A model without padding gets one after its last id; a model without a start id,
        such as T5's, starts with the padding id.

        Raises:
            InputError: where the model has no end id.

        Example:

        >>> from keras_transformer.data.tokenizer import Tokenizer
        >>> Tokenizer.train(["low lower"] * 9, vocabulary_size=270).special_ids
        {'pad_id': 0, 'start_id': 1, 'end_id': 2}
        """
        processor, size = self._processor, self._processor.vocab_size()
        end = processor.eos_id()
        if end < 0:
            raise InputError(
                "the tokenizer has no end id (SentencePiece's eos_id), which every "
                "translation needs; train it with one"
            )
        pad = size if self._appends_padding else processor.pad_id()
        start = pad if processor.bos_id() < 0 else processor.bos_id()
        return {"pad_id": pad, "start_id": start, "end_id": end}

    @property
    def unknown_id(self) -> int:
        """The id of unknown characters; never used with byte fallback."""
        return self._processor.unk_id()

    @property
    def _appends_padding(self) -> bool:
        return self._processor.pad_id() < 0

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The spelling of each id: `▁` is a space, `<0xE2>` a byte.

        Pieces of a list are spelled as the list has them.

        Raises:
            InputError: where an id is outside of the vocabulary.
        """
        return [self._piece(token) for token in self._checked(ids)]

    def spelled(self, ids: Sequence[int]) -> list[str]:
        """The spelling of each id, with `▁` and `<0xE2>` in pieces of a list, too.

        There one piece may be several bytes.
        """
        if self.listed is None:
            return self.pieces(ids)
        return [
            self.listed.spelled(token).replace(" ", SPACE_MARK)
            for token in self._checked(ids)
        ]

    def ids_of(self, pieces: Sequence[str | int]) -> list[int]:
        """The ids of pieces spelled as by `pieces`; ids, also as digits, are kept.

        Raises:
            InputError: where the vocabulary has no such piece or id.
        """
        if isinstance(pieces, str):
            raise InputError(f"expected a list of pieces, got {pieces!r}")
        return self._checked(
            [
                self._id_of(piece) if isinstance(piece, str) else piece
                for piece in pieces
            ]
        )

    def _piece(self, token: int) -> str:
        processor = self._processor
        if token < processor.vocab_size():
            return processor.id_to_piece(token)
        # A name that no piece has.
        is_taken = processor.piece_to_id("<pad>") != processor.unk_id()
        return "<appended pad>" if is_taken else "<pad>"

    def _id_of(self, piece: str) -> int:
        token = self._processor.piece_to_id(piece)
        if self._processor.id_to_piece(token) == piece:
            return token
        if piece.isascii() and piece.isdigit():
            return int(piece)
        if self._appends_padding and piece == self._piece(self.vocabulary_size - 1):
            return self.vocabulary_size - 1
        raise InputError(
            f"the tokenizer has no piece {piece!r}; spell it as the tokenizer does, "
            f"{SPACE_MARK} for a space, or give its id"
        )

    def check(
        self,
        *,
        vocabulary_size: int,
        pad_id: int,
        start_id: int,
        end_id: int,
        where: str,
    ) -> None:
        """Refuses a tokenizer that does not belong to a config.

        Args:
            vocabulary_size: V of the config.
            pad_id: `pad_id` of the config, like `start_id` and `end_id`.
            start_id: see `pad_id`.
            end_id: see `pad_id`.
            where: the beginning of the message, such as the path of the folder.

        Raises:
            InputError: where size or special ids differ, or there is no end id.
        """
        actual = {"vocabulary_size": self.vocabulary_size, **self.special_ids}
        wanted = {"pad_id": pad_id, "start_id": start_id, "end_id": end_id}
        for name, expected in {"vocabulary_size": vocabulary_size, **wanted}.items():
            if actual[name] != expected:
                raise InputError(
                    f"{where}: the tokenizer has {name} {actual[name]} but the config "
                    f"says {expected}; use the tokenizer that the model was trained "
                    "with, or build the config with this tokenizer's "
                    "vocabulary_size and special_ids"
                )

    def _checked(self, ids: Sequence[int]) -> list[int]:
        if isinstance(ids, str | bytes | Integral):
            raise InputError(f"expected a list of ids, got {ids!r}")
        row = [int(token) for token in ids]
        if row and not (min(row) >= 0 and max(row) < self.vocabulary_size):
            wrong = next(i for i in row if not 0 <= i < self.vocabulary_size)
            raise InputError(
                f"id {wrong} is outside of the tokenizer's vocabulary of "
                f"{self.vocabulary_size} entries; use the model's own tokenizer"
            )
        return row


def _processor(model: bytes) -> Any:
    if listed_pieces.is_listed(model):
        try:
            return listed_pieces.ListedPieces(model)
        except ValueError as error:
            raise InputError(str(error)) from None
    try:
        if not model:  # an empty model loads, and fails at its first use
            raise RuntimeError
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    # The model's bytes may make the error message of SentencePiece unreadable.
    except (RuntimeError, UnicodeDecodeError):
        raise InputError(
            "the tokenizer is not a SentencePiece model, or is cut off; train it again "
            "or copy it again"
        ) from None


def common_special_ids(tokenizers: Sequence[PieceTable]) -> SpecialIds:
    """`pad_id`, `start_id` and `end_id` of both source and target tokenizer.

    Raises:
        InputError: where they differ, or a tokenizer has no end.
    """
    source, target = (tokenizer.special_ids for tokenizer in tokenizers)
    for name, source_id in source.items():
        if source_id != target[name]:
            raise InputError(
                f"the source tokenizer has {name} {source_id} and the target tokenizer "
                f"{target[name]}, but a model has only one; train both with the same "
                "special ids, padding included"
            )
    return SpecialIds(
        pad_id=source["pad_id"], start_id=source["start_id"], end_id=source["end_id"]
    )
