"""Training of a tokenizer: the options of SentencePiece, and why.

`whitespace.tsv` is the default normalization: which characters are white space, and
which are invisible and removed. It is compiled into the tokenizer, so that every reader
of the tokenizer follows it. Format characters that text needs are kept: the joiners of
Persian, Indic scripts and emoji (U+200C, U+200D), the tags of flags, and visible ones
such as U+06DD. NUL is kept too: SentencePiece cannot have a rule for it.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence
from importlib import resources
from typing import Any
from typing import Literal
from typing import TypeAlias
from typing import get_args

import sentencepiece

from keras_transformer.config import UNKNOWN_ID
from keras_transformer.data.utf8_lines import utf8_lines
from keras_transformer.errors import InputError

Normalization: TypeAlias = Literal["whitespace", "identity", "nfkc", "nmt_nfkc"]
NORMALIZATIONS = get_args(Normalization)
#: SentencePiece takes no less.
LEAST_COVERAGE = 0.98

_SPECIAL_PIECE = re.compile("<(pad|s|/s|unk|0x[0-9A-F]{2})>")
_NUM_SPECIAL_IDS = 4
_SMALLEST_VOCABULARY = _NUM_SPECIAL_IDS + 256
_OPTIONS: dict[str, Any] = {
    "model_type": "bpe",
    "pad_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    "unk_id": UNKNOWN_ID,
    "pad_piece": "<pad>",
    "unk_surface": "",
    # These options make text -> ids -> text lossless but for the normalization, in
    # TensorFlow Text too.
    "byte_fallback": True,
    "add_dummy_prefix": False,
    # The largest allowed value: longer lines would be skipped silently.
    "max_sentence_length": 2**30,
    "minloglevel": 2,
}


def train_model(
    lines: Iterable[str],
    vocabulary_size: int,
    *,
    normalization: str,
    split_digits: bool,
    character_coverage: float,
    user_defined_symbols: Sequence[str],
    reserved_symbols: Sequence[str] = (),
) -> bytes:
    """A serialized SentencePiece model; see `Tokenizer.train`.

    Raises:
        InputError: where `lines` hold no text or too little for the vocabulary, the
            vocabulary is too small, or an option is invalid.
    """
    _check(normalization, character_coverage)
    check_symbols(user_defined_symbols)
    check_symbols([*user_defined_symbols, *reserved_symbols])
    if vocabulary_size < _SMALLEST_VOCABULARY:
        raise InputError(
            f"vocabulary_size {vocabulary_size} is too small; give at least "
            f"{_SMALLEST_VOCABULARY} (256 bytes and {_NUM_SPECIAL_IDS} special "
            f"ids) and room for the characters of the text"
        )
    model = io.BytesIO()
    rules = resources.files(__package__) / "whitespace.tsv"
    try:
        with resources.as_file(rules) as path:
            rule: dict[str, Any] = {"normalization_rule_name": normalization}
            if normalization == "whitespace":
                rule = {"normalization_rule_tsv": str(path)}
            if reserved_symbols:
                rule["control_symbols"] = list(reserved_symbols)
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=utf8_lines(lines),
                model_writer=model,
                vocab_size=vocabulary_size,
                remove_extra_whitespaces=normalization != "identity",
                split_digits=split_digits,
                character_coverage=character_coverage,
                user_defined_symbols=list(user_defined_symbols),
                **rule,
                **_OPTIONS,
            )
    except RuntimeError as error:
        raise InputError(_explain(str(error), vocabulary_size)) from None
    return model.getvalue()


def check_symbols(symbols: Sequence[str]) -> None:
    """Refuses user-defined symbols that cannot be one token.

    Raises:
        InputError: where they are one string, or one is repeated, not text, holds white
            space, or is a special piece.
    """
    if isinstance(symbols, str | bytes):
        raise InputError(
            f"user_defined_symbols must be a list of strings, got {symbols!r}"
        )
    for symbol, count in Counter(symbols).items():
        if not isinstance(symbol, str) or not symbol:
            why = "is not text"
        elif count > 1:
            why = "is repeated"
        elif re.search(r"[\s\0\u2581]", symbol):
            why = "holds white space, at which text is split"
        elif _SPECIAL_PIECE.fullmatch(symbol):
            why = "is the name of a special piece"
        else:
            continue
        raise InputError(f"the user-defined symbol {symbol!r} {why}; remove it")


def _check(normalization: str, character_coverage: float) -> None:
    if normalization not in NORMALIZATIONS:
        raise InputError(
            f"normalization {normalization!r} is not one of {', '.join(NORMALIZATIONS)}"
        )
    if not LEAST_COVERAGE <= character_coverage <= 1:
        raise InputError(
            f"character_coverage {character_coverage} must be between "
            f"{LEAST_COVERAGE} and 1"
        )


def _explain(message: str, vocabulary_size: int) -> str:
    """The error of SentencePiece's trainer, explained in terms of our arguments."""
    if limit := re.search(r"set it to a value <= (\d+)", message):
        return (
            f"vocabulary_size {vocabulary_size} is more than the text supports; "
            f"give at most {limit[1]}, or more text"
        )
    if needed := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocabulary_size {vocabulary_size} is too small for the characters of the "
            f"text; give at least {needed[1]}"
        )
    if "sentences_.empty()" in message:
        return "there is no text to train a tokenizer on; give at least one line"
    return f"SentencePiece cannot train on this text: {message.strip()}"
