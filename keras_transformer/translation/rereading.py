"""What a model says of translations that are there, under teacher forcing."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_transformer.config import UNKNOWN_ID
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import require_attention
from keras_transformer.translation.alignment import align
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import regrouped


def with_details(
    searcher: BatchSearch,
    tokenizers: tuple[Tokenizer, Tokenizer],
    texts: Sequence[str],
    sources: Sequence[list[int]],
    rows: Sequence[list[Hypothesis]],
    *,
    batch_size: int,
    batch_tokens: int | None,
    token_scores: bool,
    alignments: bool,
) -> list[list[Hypothesis]]:
    """The hypotheses with the scores of their tokens, with alignments, or both.

    Args:
        searcher: of the model.
        tokenizers: of the source and of the target.
        texts: the sources.
        sources: the ids of each source.
        rows: the hypotheses of each source.
        batch_size: the most hypotheses read at once.
        batch_tokens: see `BatchSearch.score`.
        token_scores: whether to fill `Hypothesis.token_scores`.
        alignments: whether to fill `Hypothesis.alignment`.
    """
    pairs, arguments = _flat(sources, rows)
    sizes = {"batch_size": batch_size, "batch_tokens": batch_tokens}
    if alignments:
        read = searcher.reread(*arguments, **sizes)
    else:  # a model without attention has scores
        read = [(scores, None) for scores in searcher.score(*arguments, **sizes)]
    source_texts = [text for text, row in zip(texts, rows, strict=True) for _ in row]
    found = []
    for (source, hypothesis), text, (scores, weights) in zip(
        pairs, source_texts, read, strict=True
    ):
        changes: dict[str, Any] = {}
        if token_scores:
            changes["token_scores"] = scores.tolist()
        if alignments:
            content = source[: len(source) - searcher.model.config.source_end]
            pieces = tokenizers[0].pieces(content)
            aligned = align(weights, pieces, _written(hypothesis, tokenizers[1]))
            words = tokenizers[0].source_words(text)
            changes["alignment"] = sorted({(words[i], j) for i, j in aligned})
        found.append(dataclasses.replace(hypothesis, **changes))
    return regrouped(found, rows)


def _written(hypothesis: Hypothesis, tokenizer: Tokenizer) -> list[str]:
    """Its pieces as its text has them: the unknown one is a word in a text."""
    (unknown,) = tokenizer.decode([[UNKNOWN_ID]])
    return [
        unknown if token == UNKNOWN_ID else piece
        for token, piece in zip(hypothesis.ids, hypothesis.tokens, strict=False)
    ]


def check_attention(
    model: TranslationModel | Ensemble, pieces: Sequence[Sequence[Any]], weights: bool
) -> None:
    """Refuses to show what attention there is not, and the weights of more than one.

    Args:
        model: of the translator.
        pieces: the sentences of each line.
        weights: whether the weights are shown; else alignments alone.

    Raises:
        InputError: without attention; weights of an ensemble, or of a line that is
            split.
    """
    require_attention(model, "attention weights and alignments need")
    if weights and isinstance(model, Ensemble):
        raise InputError(
            "attention weights belong to one model, and this is an ensemble; ask one "
            "of its members, or for alignments"
        )
    if weights and any(len(line) > 1 for line in pieces):
        raise InputError(
            "attention weights belong to one sentence, and a line is split into "
            "several; translate them one by one, or ask for alignments"
        )


def with_attention(
    searcher: BatchSearch,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    rows: Sequence[list[Hypothesis]],
    *,
    batch_size: int,
    batch_tokens: int | None,
) -> list[list[Hypothesis]]:
    """The hypotheses with the attention weights of all layers and heads.

    Args:
        searcher: of the model.
        tokenizer: of the source.
        sources: the ids of each source.
        rows: the hypotheses of each source.
        batch_size: the most hypotheses read at once.
        batch_tokens: see `BatchSearch.score`.
    """
    pairs, arguments = _flat(sources, rows)
    read = searcher.attention(*arguments, batch_size, batch_tokens)
    found = []
    for (source, hypothesis), weights in zip(pairs, read, strict=True):
        changes = {"attention": weights, "source_tokens": tokenizer.pieces(source)}
        found.append(dataclasses.replace(hypothesis, **changes))
    return regrouped(found, rows)


def _flat(sources, rows):
    """Pairs of source and hypothesis; and the ids of each, as a search takes them."""
    pairs = [
        (source, hypothesis)
        for source, row in zip(sources, rows, strict=True)
        for hypothesis in row
    ]
    return pairs, ([source for source, _ in pairs], [h.ids for _, h in pairs])
