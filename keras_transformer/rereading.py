"""What a model says of translations that are there: under teacher forcing, all at once.

T target positions, S source positions, H heads, N layers.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.alignment import align
from keras_transformer.batch_search import BatchSearch
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.hypothesis import Hypothesis
from keras_transformer.models import Ensemble
from keras_transformer.models import Transformer


def with_details(
    searcher: BatchSearch,
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    rows: Sequence[list[Hypothesis]],
    batch_size: int,
    *,
    token_scores: bool,
    alignments: bool,
) -> list[list[Hypothesis]]:
    """The hypotheses with the scores of their tokens, with alignments, or both.

    Args:
        searcher: of the model.
        tokenizer: of the source.
        sources: the ids of each source.
        rows: the hypotheses of each source.
        batch_size: the most hypotheses read at once.
        token_scores: whether to fill `Hypothesis.token_scores`.
        alignments: whether to fill `Hypothesis.alignment`.
    """
    pairs = [
        (source, hypothesis)
        for source, row in zip(sources, rows, strict=True)
        for hypothesis in row
    ]
    read = searcher.reread(
        [source for source, _ in pairs], [h.ids for _, h in pairs], batch_size
    )
    end = searcher.model.config.source_end
    found = []
    for (source, hypothesis), (scores, weights) in zip(pairs, read, strict=True):
        changes: dict[str, Any] = {}
        if token_scores:
            changes["token_scores"] = scores.tolist()
        if alignments:
            source_pieces = tokenizer.pieces(source[: len(source) - end])
            changes["alignment"] = align(weights, source_pieces, hypothesis.tokens)
        found.append(dataclasses.replace(hypothesis, **changes))
    following = iter(found)
    return [[next(following) for _ in row] for row in rows]


def check_attention(
    model: Transformer | Ensemble, pieces: Sequence[Sequence[Any]]
) -> None:
    """Refuses to show the attention of what has more than one.

    Args:
        model: of the translator.
        pieces: the sentences of each line.

    Raises:
        InputError: for an ensemble, or where a line is split.
    """
    if isinstance(model, Ensemble):
        raise InputError(
            "attention weights belong to one model, and this is an ensemble; ask one "
            "of its members, or for alignments"
        )
    if any(len(line) > 1 for line in pieces):
        raise InputError(
            "attention weights belong to one sentence, and a line is split into "
            "several; translate them one by one, or ask for alignments"
        )


def with_attention(
    model: Transformer, tokenizer: Tokenizer, source: list[int], hypothesis: Hypothesis
) -> Hypothesis:
    """The hypothesis with the attention weights of all layers and heads.

    Args:
        model: of the translator.
        tokenizer: of the source.
        source: its S ids.
        hypothesis: of it, with T ids.
    """
    if not hypothesis.ids:
        return hypothesis
    target = [model.config.start_id, *hypothesis.ids[:-1]]
    memory, mask, encoder = model.encode(
        ops.convert_to_tensor(np.array([source], np.int32)),
        return_attention_weights=True,
    )
    _, decoder, cross = model.decode(
        ops.convert_to_tensor(np.array([target], np.int32)),
        memory,
        mask,
        return_attention_weights=True,
    )
    weights = {"encoder": encoder, "decoder": decoder, "cross": cross}
    for name, layers in weights.items():
        weights[name] = np.concatenate([ops.convert_to_numpy(w) for w in layers])
    pieces = tokenizer.pieces(source)
    return dataclasses.replace(hypothesis, attention=weights, source_tokens=pieces)
