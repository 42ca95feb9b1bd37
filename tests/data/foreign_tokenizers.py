"""SentencePiece models of others, with special ids of their own."""

import io

import sentencepiece

from keras_transformer.data.tokenizer import Tokenizer

#: By name: what SentencePiece's trainer is told about ids.
IDS = {
    "SentencePiece's defaults": {},  # unknown 0, start 1, end 2, no padding
    "unknown before start": {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    "no start": {"pad_id": 0, "unk_id": 2, "bos_id": -1, "eos_id": 1},
}

#: What is right for each: padding, start, end, unknown.
EXPECTED = {
    "SentencePiece's defaults": (300, 1, 2, 0),
    "unknown before start": (0, 2, 3, 1),
    "no start": (0, 0, 1, 2),
}


def foreign(lines, vocabulary_size=300, **options):
    """A `Tokenizer` of SentencePiece's trainer, with its own defaults."""
    options = {"model_type": "bpe", "byte_fallback": True, "minloglevel": 2} | options
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocabulary_size,
        **options,
    )
    return Tokenizer(model.getvalue())
