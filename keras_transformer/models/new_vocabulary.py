"""A new vocabulary for a trained model.

D hidden_dim, V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.data.new_pieces import old_rows
from keras_transformer.data.piece_table import PieceTable
from keras_transformer.data.piece_table import common_special_ids
from keras_transformer.models.kinds import refuse_int8
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import weight_values

_SIDES = ("source", "target")


def with_new_vocabulary(
    model: Any, tokenizers: Sequence[PieceTable], new_tokenizers: Sequence[PieceTable]
) -> Any:
    """A model with the weights of another one, and a new vocabulary.

    A piece that both vocabularies have keeps its row of the embeddings and its output
    bias; padding, start, end and unknown keep theirs, whatever their ids. A new piece
    begins as the mean of the old pieces it is spelled with, or as in a fresh model
    where there are none. All other weights are the same.

    Args:
        model: of this package, trained.
        tokenizers: those of its source and target; the same twice for a shared one.
        new_tokenizers: of the new model, in the same way.

    Returns:
        The new model, not compiled, of the same kind, dtype policy and config but for
        vocabulary sizes and special ids.

    Raises:
        InputError: where the new tokenizers have unlike special ids, or the embeddings
            are tied and they have unlike sizes, or the model is int8.

    Example:

    >>> import keras_transformer as kt
    >>> old = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
    >>> new = kt.data.Tokenizer.train(["ein Baum a tree"] * 9, 275)
    >>> model = kt.models.with_new_vocabulary(
    ...     kt.Transformer(config), [old, old], [new, new]
    ... )
    >>> model.config.target_vocabulary_size
    275

    Reference: Gee et al., 2022, https://arxiv.org/abs/2402.09977.
    """
    refuse_int8(model, "a new vocabulary takes")
    sizes: dict[str, int | None] = {
        f"{side}_vocabulary_size": tokenizer.vocabulary_size
        for side, tokenizer in zip(_SIDES, new_tokenizers, strict=True)
    }
    shared = len(set(sizes.values())) == 1
    sizes["vocabulary_size"] = sizes["target_vocabulary_size"] if shared else None
    ids = common_special_ids(new_tokenizers)
    config = model.config.from_dict({**model.config.model_dump(), **sizes, **ids})
    new = type(model)(config, dtype=model.dtype_policy)
    begin_from(new, model, tokenizers, new_tokenizers)
    return new


def begin_from(
    new: Any,
    model: Any,
    tokenizers: Sequence[PieceTable],
    new_tokenizers: Sequence[PieceTable],
) -> str:
    """Assigns the weights of a model to one of a new vocabulary, with fresh weights.

    Args:
        new: the model of the new vocabulary; see `with_new_vocabulary` for the others.
        model: the trained model.
        tokenizers: of the trained model.
        new_tokenizers: of the new model.

    Returns:
        What became of the pieces, for people.
    """
    old_values, values = weight_values(model), weight_values(new)
    rows = {
        side: old_rows(*pair)
        for side, *pair in zip(_SIDES, tokenizers, new_tokenizers, strict=True)
    }
    tables = {
        weight.path: rows[side]
        for side, layer in (
            ("source", new.source_embedding),
            ("target", new.target_embedding),
            ("target", new.output_embedding),
        )
        for weight in layer.weights
    }
    for path, value in old_values.items():
        if path not in tables:
            values[path] = value
            continue
        for row, old in enumerate(tables[path]):
            if old:
                values[path][row] = np.mean(value[old], axis=0)
    assign(new, values, "the model of the new vocabulary")
    return _told(rows["target"])


def _told(rows: Sequence[Sequence[int]]) -> str:
    mixed = sum(len(row) > 1 for row in rows)
    fresh = sum(not row for row in rows)
    return (
        f"of {len(rows):,} target pieces {len(rows) - mixed - fresh:,} keep a row of "
        f"the old vocabulary, {mixed:,} begin as the mean of their parts, {fresh:,} as "
        f"in a fresh model"
    )
