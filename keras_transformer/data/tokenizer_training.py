"""The training of a tokenizer: the options that SentencePiece is given, and why."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

import sentencepiece

from keras_transformer.config import UNKNOWN_ID
from keras_transformer.data.utf8_lines import utf8_lines
from keras_transformer.errors import InputError

_NUM_SPECIAL_IDS = 4
_SMALLEST_VOCABULARY = _NUM_SPECIAL_IDS + 256
_OPTIONS = {
    "model_type": "bpe",
    "pad_id": 0,
    "bos_id": 1,
    "eos_id": 2,
    "unk_id": UNKNOWN_ID,
    "pad_piece": "<pad>",
    "unk_surface": "",
    # What follows makes text -> ids -> text lossless, in TensorFlow Text too.
    "byte_fallback": True,
    "character_coverage": 1.0,
    "add_dummy_prefix": False,
    "remove_extra_whitespaces": False,
    # The largest value allowed: longer lines would be left out without a word.
    "max_sentence_length": 2**30,
    "minloglevel": 2,
}


def train_model(
    lines: Iterable[str], vocabulary_size: int, normalization: str, split_digits: bool
) -> bytes:
    """A serialized SentencePiece model; see `Tokenizer.train`.

    Raises:
        InputError: where `lines` hold no text or cannot fill the vocabulary, or the
            vocabulary is too small.
    """
    if vocabulary_size < _SMALLEST_VOCABULARY:
        raise InputError(
            f"vocabulary_size {vocabulary_size} is too small; give at least "
            f"{_SMALLEST_VOCABULARY} (256 bytes and {_NUM_SPECIAL_IDS} special "
            f"ids) and room for the characters of the text"
        )
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=utf8_lines(lines),
            model_writer=model,
            vocab_size=vocabulary_size,
            normalization_rule_name=normalization,
            split_digits=split_digits,
            **_OPTIONS,
        )
    except RuntimeError as error:
        raise InputError(_explain(str(error), vocabulary_size)) from None
    return model.getvalue()


def _explain(message: str, vocabulary_size: int) -> str:
    """What the trainer's message means for somebody who knows only our arguments."""
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
