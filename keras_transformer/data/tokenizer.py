"""Text to token ids and back, with nothing lost on the way that shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any
from typing import Literal

import sentencepiece

from keras_transformer.data.piece_kinds import user_defined_ids
from keras_transformer.data.tokenizer_training import train_model
from keras_transformer.data.utf8_lines import utf8_lines
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import write_whole

#: SentencePiece writes a space as this character, so in a text it becomes a space.
SPACE_MARK = "\u2581"

_NOTHING = re.compile(r"[\s\0\u200c\u200d]*")


class Tokenizer:
    """Byte-pair encoding with byte fallback: every text has ids, and ids give it back.

    A thin cover of SentencePiece. What comes back is the text as the tokenizer's own
    normalization has it, see `train`: by default in single spaces and without
    characters that show nothing. Under `normalization="identity"` two kinds of text
    alone do not come back as they were: `SPACE_MARK` (U+2581) becomes a space, see
    `count_space_marks`, and lone surrogates, which no UTF-8 file can hold, are refused.

    Args:
        model: a serialized SentencePiece model, of `train`, `load` or any other source.

    Raises:
        InputError: where `model` is none.

    Example:

    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train(["low lower lowest"] * 9, vocabulary_size=275)
    >>> ids = tokenizer.encode(["lower slowly 🐌"])
    >>> tokenizer.decode(ids)
    ['lower slowly 🐌']

    Reference: Sennrich et al., 2016, https://arxiv.org/abs/1508.07909; Kudo and
    Richardson, 2018, https://arxiv.org/abs/1808.06226.
    """

    def __init__(self, model: bytes) -> None:
        self.model = model
        try:
            if not model:  # an empty model loads, and fails at its first use
                raise RuntimeError
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        # A model's bytes may spoil the text of the error that SentencePiece gives.
        except (RuntimeError, UnicodeDecodeError):
            raise InputError(
                "the tokenizer is not a SentencePiece model, or is cut off; "
                "train it again or copy it again"
            ) from None

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocabulary_size: int,
        *,
        normalization: Literal[
            "whitespace", "identity", "nfkc", "nmt_nfkc"
        ] = "whitespace",
        split_digits: bool = False,
        character_coverage: float = 1.0,
        user_defined_symbols: Sequence[str] = (),
    ) -> Tokenizer:
        """Learns a vocabulary from text; the same text gives the same bytes.

        Args:
            lines: the text, source and target together for a shared vocabulary.
            vocabulary_size: V, with 4 special ids, 256 bytes and each character.
            normalization: what of a text is content; the tokenizer keeps it. Under
                `"whitespace"` every kind of white space is a space, spaces around the
                text and repeated ones are none, and control and format characters that
                show nothing go (zero-width space, byte order mark, soft hyphen,
                direction marks), but not the joiners U+200C and U+200D. `"identity"`
                keeps all. `"nfkc"` unifies what looks alike (Unicode NFKC), in single
                spaces. `"nmt_nfkc"` is SentencePiece's own default: NFKC that also
                drops some characters that show nothing, U+200C among them, on which
                the spelling of Persian and some Indic languages depends.
            split_digits: whether each digit is a token of its own.
            character_coverage: the share of the text, 0.98 to 1, whose characters get
                pieces of their own; rarer ones are spelled in bytes. Below 1 for
                writing systems of many characters, such as 0.9995 for Chinese.
            user_defined_symbols: each always one token, whatever stands around it, such
                as placeholders.

        Raises:
            InputError: where `lines` is one string, holds no text or cannot fill the
                vocabulary, the vocabulary is too small, or an option is not right.
        """
        model = train_model(
            lines,
            vocabulary_size,
            normalization=normalization,
            split_digits=split_digits,
            character_coverage=character_coverage,
            user_defined_symbols=user_defined_symbols,
        )
        return cls(model)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Reads a SentencePiece model file.

        Raises:
            InputError: where the file is missing, cut off or something else.
        """
        try:
            model = Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot read the tokenizer {path}: {error.strerror}; check the path"
            ) from None
        try:
            return cls(model)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def save(self, path: str | Path) -> None:
        """Writes the SentencePiece model file, whole or not at all."""
        try:
            write_whole(Path(path), self.model)
        except OSError as error:
            raise InputError(
                f"cannot write the tokenizer {path}: {error.strerror}; check the folder"
            ) from None

    @property
    def vocabulary_size(self) -> int:
        """V: the number of ids, special ids included, and an appended padding."""
        return self._processor.vocab_size() + self._appends_padding

    @property
    def special_ids(self) -> dict[str, int]:
        """`pad_id`, `start_id` and `end_id`, as configs and `TokenBatches` take them.

        A SentencePiece model without a padding gets one behind its last id, and one
        without a start, such as T5's, starts with the padding.

        Raises:
            InputError: where the model has no end.

        Example:

        >>> from keras_transformer.data.tokenizer import Tokenizer
        >>> Tokenizer.train(["low lower"] * 9, vocabulary_size=270).special_ids
        {'pad_id': 0, 'start_id': 1, 'end_id': 2}
        """
        processor, size = self._processor, self._processor.vocab_size()
        end = processor.eos_id()
        if end < 0:
            raise InputError(
                "the tokenizer has no end (SentencePiece's eos_id), which every "
                "translation needs; train it with one"
            )
        pad = size if self._appends_padding else processor.pad_id()
        start = pad if processor.bos_id() < 0 else processor.bos_id()
        return {"pad_id": pad, "start_id": start, "end_id": end}

    @property
    def unknown_id(self) -> int:
        """The id of what the tokenizer cannot spell; with byte fallback, of nothing."""
        return self._processor.unk_id()

    @property
    def _appends_padding(self) -> bool:
        return self._processor.pad_id() < 0

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[bytes]]:
        return type(self), (self.model,)

    def encode(
        self,
        lines: Sequence[str],
        *,
        first_line: int = 1,
        numbers: Sequence[int] | None = None,
    ) -> list[list[int]]:
        """The ids of each line, without special ids; no ids for an empty line.

        Args:
            lines: any text, line ends included.
            first_line: the number of the first line, for messages.
            numbers: the number of each line, where they do not follow each other.

        Raises:
            InputError: where `lines` is one string, or a line holds a lone surrogate,
                with its number.
        """
        texts = list(utf8_lines(lines, first_line, numbers))
        return self._processor.encode(texts, out_type=int) if texts else []

    def scores(self, *, split_symbols: bool = False) -> list[float | None]:
        """How early each id comes to be; None for one that no merge makes.

        Byte-pair encoding joins the two neighbours whose joint piece has the highest
        score. Special ids, bytes and user-defined symbols are made by none.

        Args:
            split_symbols: whether user-defined symbols count as pieces like others.

        Raises:
            InputError: where the tokenizer is not byte-pair encoding.
        """
        processor = self._processor
        try:
            processor.nbest_encode_as_ids("a", 1)
        except RuntimeError:  # only unigram models have more than one best encoding
            kinds = ("is_control", "is_unknown", "is_byte", "is_unused")
            whole = set() if split_symbols else user_defined_ids(self.model)
            return [
                None
                if token in whole
                or any(getattr(processor, kind)(token) for kind in kinds)
                else processor.get_score(token)
                for token in range(processor.vocab_size())
            ] + [None] * self._appends_padding
        raise InputError(
            "the tokenizer is a unigram model, which has no merges to leave out; set "
            "data.bpe_dropout to 0 or use a tokenizer of byte-pair encoding"
        )

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special ids are dropped.

        Bytes that are no UTF-8, which a model may produce, become U+FFFD.

        Raises:
            InputError: where `ids` is one row, or an id lies outside of the vocabulary.
        """
        rows = [self._checked(row) for row in ids]
        if self._appends_padding:
            padding = self._processor.vocab_size()
            rows = [[token for token in row if token != padding] for row in rows]
        return self._processor.decode(rows) if rows else []

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How each id is spelled, for people: `▁` is a space, `<0xE2>` a byte.

        Raises:
            InputError: where an id lies outside of the vocabulary.
        """
        return [self._piece(token) for token in self._checked(ids)]

    def normalize(self, line: str) -> str:
        """What of a line is content, by the tokenizer's own rule.

        Example:

        >>> from keras_transformer.data.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.train(["low lower"] * 9, vocabulary_size=270)
        >>> tokenizer.normalize("  low   lower ")
        'low lower'
        """
        return self._processor.normalize(line).replace(SPACE_MARK, " ")

    def is_empty(self, line: str) -> bool:
        """Whether nothing of a line is left, by the tokenizer's own rule.

        White space is nothing under any rule, as are NUL and joiners that join nothing.
        """
        if line[:1].isalnum():  # as most lines begin
            return False
        try:
            return _NOTHING.fullmatch(self.normalize(line)) is not None
        except UnicodeEncodeError:  # a lone surrogate, which `encode` refuses
            return False

    def source_words(self, line: str) -> list[int]:
        """The word of a line that each word of its pieces comes from, from 0.

        These are the numbers from 0 on, unless the tokenizer's own normalization makes
        several words of one, or none.
        """
        return [
            number
            for number, word in enumerate(line.split())
            for _ in self.normalize(word).split()
        ]

    def ids_of(self, pieces: Sequence[str | int]) -> list[int]:
        """The ids of pieces, spelled as `pieces` does; ids, also in digits, stay ids.

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
        # A name that no other piece has.
        taken = processor.piece_to_id("<pad>") != processor.unk_id()
        return "<appended pad>" if taken else "<pad>"

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
        """Refuses a tokenizer that is not the one of a config.

        Args:
            vocabulary_size: V of the config.
            pad_id: of the config, as are `start_id` and `end_id`.
            start_id: see `pad_id`.
            end_id: see `pad_id`.
            where: what the message begins with, such as the path of the folder.

        Raises:
            InputError: where size or special ids differ, or it has no end.
        """
        found = {"vocabulary_size": self.vocabulary_size, **self.special_ids}
        wanted = {"pad_id": pad_id, "start_id": start_id, "end_id": end_id}
        for name, expected in {"vocabulary_size": vocabulary_size, **wanted}.items():
            if found[name] != expected:
                raise InputError(
                    f"{where}: the tokenizer has {name} {found[name]} but the config "
                    f"says {expected}; use the tokenizer that the model was trained "
                    f"with, or make the config of its vocabulary_size and special_ids"
                )

    def to_keras_nlp(self) -> Any:
        """The same tokenizer for `tf.data` pipelines and KerasHub, with equal ids.

        Returns a `keras_nlp.tokenizers.SentencePieceTokenizer`; needs `keras-nlp` and
        `tensorflow-text` (the extra `tensorflow`).
        """
        import keras_nlp

        return keras_nlp.tokenizers.SentencePieceTokenizer(proto=self.model)

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


def count_space_marks(lines: Iterable[str]) -> int:
    """How many lines hold U+2581, which a `Tokenizer` turns into a space."""
    return sum(SPACE_MARK in line for line in lines)
