"""Scores, alignments and attention of given translations, by teacher forcing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.config.languages import Direction
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import require_attention
from keras_transformer.translation.alignment import aligned
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
    num_forced: Sequence[int],
    directions: Sequence[Direction],
) -> list[list[Hypothesis]]:
    """The hypotheses with token scores, alignments, or both.

        Args:
    searcher: the `BatchSearch` of the model.
            tokenizers: the tokenizers of source and target.
            texts: the sources.
            sources: the ids of each source.
            rows: the hypotheses of each source.
            batch_size: the maximum number of hypotheses read at once.
            batch_tokens: see `BatchSearch.score`.
            token_scores: whether to fill `Hypothesis.token_scores`.
            alignments: whether to fill `Hypothesis.alignment`.
            num_forced: how many first tokens of each source's translations are no text.
            directions: what stands around each source.
    """
    pairs = _pairs(sources, rows)
    ids = [source for source, _ in pairs], [h.ids for _, h in pairs]
    starts = _starts(directions, rows)
    read: list[tuple[np.ndarray, Any]]
    if alignments:
        read = searcher.reread(*ids, batch_size, batch_tokens, starts)
    else:  # a model without attention still has scores
        all_scores = searcher.score(*ids, batch_size, batch_tokens, starts)
        read = [(scores, None) for scores in all_scores]
    details = regrouped(read, rows)
    if token_scores:
        rows = [
            [
                dataclasses.replace(hypothesis, token_scores=scores.tolist())
                for hypothesis, (scores, _) in zip(row, parts, strict=True)
            ]
            for row, parts in zip(rows, details, strict=True)
        ]
    if alignments:
        rows = [
            aligned(
                row, [w for _, w in parts], source, direction, text, tokenizers, count
            )
            for row, parts, source, text, count, direction in zip(
                rows, details, sources, texts, num_forced, directions, strict=True
            )
        ]
    return list(rows)


def _starts(
    directions: Sequence[Direction], rows: Sequence[list[Hypothesis]]
) -> list[int | None]:
    """The first input of the decoder for each hypothesis."""
    return [
        direction.start_id
        for direction, row in zip(directions, rows, strict=True)
        for _ in row
    ]


def check_attention(
    model: TranslationModel | Ensemble, pieces: Sequence[Sequence[Any]], weights: bool
) -> None:
    """Refuses attention of models without it, of ensembles and of split lines.

    Args:
        model: of the translator.
        pieces: the sentences of each line.
        weights: whether weights are requested; otherwise only alignments.

    Raises:
        InputError: without attention; weights of an ensemble, or of a line that is
            split.
    """
    require_attention(model, "attention weights and alignments need")
    if weights and isinstance(model, Ensemble):
        raise InputError(
            "attention weights belong to one model, but this is an ensemble; use "
            "one of its members, or request alignments"
        )
    if weights and any(len(line) > 1 for line in pieces):
        raise InputError(
            "attention weights belong to one sentence, but a line is split into "
            "several; translate them one by one, or request alignments"
        )


def with_attention(
    searcher: BatchSearch,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    rows: Sequence[list[Hypothesis]],
    *,
    batch_size: int,
    batch_tokens: int | None,
    directions: Sequence[Direction],
) -> list[list[Hypothesis]]:
    """The hypotheses with the attention weights of all layers and heads.

        Args:
    searcher: the `BatchSearch` of the model.
            tokenizer: the tokenizer of the source.
            sources: the ids of each source.
            rows: the hypotheses of each source.
            batch_size: the maximum number of hypotheses read at once.
            batch_tokens: see `BatchSearch.score`.
            directions: what stands around each source.
    """
    pairs = _pairs(sources, rows)
    ids = [source for source, _ in pairs], [h.ids for _, h in pairs]
    starts = _starts(directions, rows)
    read = searcher.attention(*ids, batch_size, batch_tokens, starts)
    detailed = []
    for (source, hypothesis), weights in zip(pairs, read, strict=True):
        pieces = tokenizer.pieces(source)
        detailed.append(
            dataclasses.replace(hypothesis, attention=weights, source_tokens=pieces)
        )
    return regrouped(detailed, rows)


def _pairs(
    sources: Sequence[list[int]], rows: Sequence[list[Hypothesis]]
) -> list[tuple[list[int], Hypothesis]]:
    """The ids of a source, and one of its hypotheses: all, one after the other."""
    return [
        (source, hypothesis)
        for source, row in zip(sources, rows, strict=True)
        for hypothesis in row
    ]
