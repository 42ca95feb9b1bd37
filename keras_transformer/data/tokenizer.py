"""Subword tokenizer: text to token ids and back, without visible loss."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import Literal

from keras_transformer.data import own_tokenizers
from keras_transformer.data.piece_kinds import user_defined_ids
from keras_transformer.data.piece_table import SPACE_MARK
from keras_transformer.data.piece_table import PieceTable
from keras_transformer.data.tokenizer_training import train_model
from keras_transformer.data.utf8_lines import utf8_lines
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import write_whole

_NOTHING = re.compile(r"[\s\0\u200c\u200d]*")


class Tokenizer(PieceTable):
    """Byte-pair encoding with byte fallback: every text has ids that decode to it.

    A thin wrapper of SentencePiece, and of the lists of pieces and merges that some
    imported models have (`data.listed_pieces`).

    Decoding returns the text after the tokenizer's normalization, see `train`: by
    default with single spaces and without invisible characters. Even with
    `normalization="identity"` two kinds of characters are not returned: `SPACE_MARK`
    (U+2581) becomes a space, see `count_space_marks`, and lone surrogates, which no
    UTF-8 file can hold, are refused.

    A subclass is made from `model` alone, too. Its files name it as `module.Class`: it
    loads as itself in a process that has imported the module, and is refused in others.

    Args:
        model: a serialized SentencePiece model, from `train`, `load` or elsewhere, or a
            list of pieces.

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
        reserved_symbols: Sequence[str] = (),
    ) -> Tokenizer:
        """Learns a vocabulary from text; the same text gives the same bytes.

        Args:
            lines: the text, source and target together for a shared vocabulary.
            vocabulary_size: V, with 4 special ids, 256 bytes and each character.
            normalization: the normalization of text, which is part of the tokenizer.
                `"whitespace"` turns every kind of white space into single spaces,
                strips the text, and removes invisible control and format characters
                (zero-width space, byte order mark, soft hyphen, direction marks), but
                not the joiners U+200C and U+200D. `"identity"` changes nothing.
                `"nfkc"` applies Unicode NFKC, with single spaces. `"nmt_nfkc"`, the
                default of SentencePiece, is NFKC that also removes some invisible
                characters, among them U+200C, on which the spelling of Persian and some
                Indic languages depends.
            split_digits: whether each digit is a separate token.
            character_coverage: the share of the text, 0.98 to 1, whose characters get
                their own pieces; rarer ones are spelled in bytes. Below 1 for scripts
                of many characters, such as 0.9995 for Chinese.
            user_defined_symbols: symbols that are always one token, such as
                placeholders.
            reserved_symbols: symbols with an id that no text has, such as the tags of
                languages. In a text they are spelled with other pieces.

        Raises:
            InputError: where `lines` is one string, holds no text or too little for the
                vocabulary, the vocabulary is too small, or an option is invalid.
        """
        model = train_model(
            lines,
            vocabulary_size,
            normalization=normalization,
            split_digits=split_digits,
            character_coverage=character_coverage,
            user_defined_symbols=user_defined_symbols,
            reserved_symbols=reserved_symbols,
        )
        return cls(model)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Reads a tokenizer file; one that names a class gives that class.

        Raises:
            InputError: where the file is missing, truncated or something else, or names
                a class whose module is not loaded.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot read the tokenizer {path}: {error.strerror}; check the path"
            ) from None
        try:
            name, model = own_tokenizers.without_name(content)
            own = cls if name is None else own_tokenizers.loaded_class(name, Tokenizer)
            return own(model)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @property
    def content(self) -> bytes:
        """The content of the tokenizer file: `model`, after the name of a subclass.

        Raises:
            InputError: where a subclass cannot be found by its name.
        """
        name = own_tokenizers.name_of(type(self), Tokenizer)
        return (
            self.model if name is None else own_tokenizers.with_name(name, self.model)
        )

    def save(self, path: str | Path) -> None:
        """Writes the tokenizer file, whole or not at all.

        Raises:
            InputError: where it cannot be written, or a subclass cannot be found by its
                name.
        """
        content = self.content
        try:
            write_whole(Path(path), content)
        except OSError as error:
            raise InputError(
                f"cannot write the tokenizer {path}: {error.strerror}; check the folder"
            ) from None

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
            numbers: the number of each line, where they are not consecutive.

        Raises:
            InputError: where `lines` is one string, or a line holds a lone surrogate,
                with its number.
        """
        texts = list(utf8_lines(lines, first_line, numbers))
        return self._processor.encode(texts, out_type=int) if texts else []

    def scores(self, *, split_symbols: bool = False) -> list[float | None]:
        """BPE merge priority of each id; None where the id is not made by a merge.

        BPE merges the two neighbours whose joint piece has the highest score. Special
        ids, bytes and user-defined symbols are not made by merges.

        Args:
            split_symbols: whether user-defined symbols count as ordinary pieces.

        Raises:
            InputError: where the tokenizer is not byte-pair encoding, or has its merges
                in a list.
        """
        if self.listed is not None:
            raise InputError(
                "the tokenizer has its merges in a list, without scores for "
                "BPE-dropout; set data.bpe_dropout to 0"
            )
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
            "the tokenizer is a unigram model, which has no merges for BPE-dropout; "
            "set data.bpe_dropout to 0 or use a byte-pair encoding tokenizer"
        )

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each row of ids; special ids are dropped.

        Invalid UTF-8 bytes, which a model may produce, become U+FFFD.

        Raises:
            InputError: where `ids` is one row, or an id lies outside of the vocabulary.
        """
        rows = [self._checked(row) for row in ids]
        if self._appends_padding:
            padding = self._processor.vocab_size()
            rows = [[token for token in row if token != padding] for row in rows]
        return self._processor.decode(rows) if rows else []

    def normalize(self, line: str) -> str:
        """The line after the tokenizer's normalization.

        Example:

        >>> from keras_transformer.data.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.train(["low lower"] * 9, vocabulary_size=270)
        >>> tokenizer.normalize("  low   lower ")
        'low lower'
        """
        (text,) = utf8_lines([line])
        return self._processor.normalize(text.decode()).replace(SPACE_MARK, " ")

    def is_empty(self, line: str) -> bool:
        """Whether a line is empty after the tokenizer's normalization.

        White space, NUL and joiners that join nothing count as empty under any rule.
        """
        if line[:1].isalnum():  # most lines begin like this
            return False
        try:
            return _NOTHING.fullmatch(self.normalize(line)) is not None
        except InputError:  # a lone surrogate, which `encode` refuses
            return False

    def source_words(self, line: str) -> list[int]:
        """The word of the line, from 0, that each word of its pieces comes from.

        These are 0, 1, 2, ... unless the tokenizer's normalization splits a word or
        removes one.
        """
        return [
            number
            for number, word in enumerate(line.split())
            for _ in self.normalize(word).split()
        ]

    def require_words(self) -> None:
        """Refuses a tokenizer whose pieces are no parts of words of the text.

        Raises:
            InputError: where they are parts of Moses tokens.
        """
        if self.listed is not None and self.listed.rules.kind == "moses":
            raise InputError(
                "words cannot be aligned: the pieces of this tokenizer are parts of "
                "Moses tokens, not of words of the text; translate without alignments"
            )

    def to_keras_nlp(self) -> Any:
        """The same tokenizer, with equal ids, for `tf.data` pipelines and KerasHub.

        Returns a `keras_nlp.tokenizers.SentencePieceTokenizer`; needs `keras-nlp` and
        `tensorflow-text` (the extra `tensorflow`).

        Raises:
            InputError: where the tokenizer is no SentencePiece model.
        """
        if self.listed is not None:
            raise InputError(
                "KerasHub has no tokenizer for this list of pieces and merges; encode "
                "with the tokenizer itself"
            )
        import keras_nlp

        return keras_nlp.tokenizers.SentencePieceTokenizer(proto=self.model)


def count_space_marks(lines: Iterable[str]) -> int:
    """The number of lines with U+2581, which a `Tokenizer` turns into a space."""
    return sum(SPACE_MARK in line for line in lines)
