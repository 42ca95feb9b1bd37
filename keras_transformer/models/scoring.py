"""Teacher-forced scores and attention of given translations.

B batch, S source positions, T target positions, N layers, H heads.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_transformer.config import TranslationConfig
from keras_transformer.losses import token_losses
from keras_transformer.losses.labels import token_mask
from keras_transformer.models.contract import Decodable
from keras_transformer.models.word_attention import word_attention
from keras_transformer.tensors import Tensor


def score(model: Decodable, source: Tensor, labels: Tensor) -> Tensor:
    """Log-probabilities (B,) of labels (B, T) given source ids (B, S).

    The labels end with `end_id`; `pad_id` after it does not count.
    """
    return ops.sum(token_scores(model, source, labels), axis=1)


def token_scores(
    model: Decodable, source: Tensor, labels: Tensor, start: Tensor | None = None
) -> Tensor:
    """The log-probability (B, T) of each of the labels, 0 at `pad_id`; see `score`.

    `start` (B,) int32 are first inputs of the decoder, in place of the config's.
    """
    target = _shifted(model.config, labels, start)
    logits = model({"source": source, "target": target}, training=False)
    return _log_likelihoods(model.config, logits, labels)


def reread(
    model: Decodable, source: Tensor, labels: Tensor, start: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Teacher-forced token scores and word attention of given translations.

    Returns:
        `token_scores` (B, T), and the `word_attention` (B, T, S) of the position that
        predicts each label.
    """
    hidden, weights = _reread(model, source, labels, start)
    return _log_likelihoods(model.config, model.logits(hidden), labels), weights


def reread_attention(
    model: Decodable, source: Tensor, labels: Tensor, start: Tensor | None = None
) -> Tensor:
    """Only the attention of `reread`, which needs no logits."""
    return _reread(model, source, labels, start)[1]


def _reread(
    model: Decodable, source: Tensor, labels: Tensor, start: Tensor | None
) -> tuple[Tensor, Tensor]:
    encoded = model.encode(source)
    decoded = model.decode(
        _shifted(model.config, labels, start),
        encoded.memory,
        encoded.source_mask,
        return_attention_weights=True,
    )
    return decoded.hidden, word_attention(decoded.cross_attention_weights)


def attention(
    model: Decodable, source: Tensor, labels: Tensor, start: Tensor | None = None
) -> dict[str, Tensor]:
    """Attention weights of all layers and heads for given translations.

    Returns:
        Float32 weights of each of N layers: `"encoder"` (B, N, H, S, S), `"decoder"`
        (B, N, H, T, T) and `"cross"` (B, N, H, T, S), as far as the model has them.
        Each of the T rows belongs to the position that predicts one label.
    """
    encoded = model.encode(source, return_attention_weights=True)
    decoded = model.decode(
        _shifted(model.config, labels, start),
        encoded.memory,
        encoded.source_mask,
        return_attention_weights=True,
    )
    weights = {
        "encoder": encoded.attention_weights,
        "decoder": decoded.self_attention_weights,
        "cross": decoded.cross_attention_weights,
    }
    return {
        name: ops.stack(layers, axis=1) for name, layers in weights.items() if layers
    }


def _shifted(config: TranslationConfig, labels: Tensor, start: Tensor | None) -> Tensor:
    first = ops.full_like(labels[:, :1], config.start_id)
    if start is not None:
        first = ops.expand_dims(start, 1)
    return ops.concatenate([first, labels[:, :-1]], axis=1)


def _log_likelihoods(config: TranslationConfig, logits: Any, labels: Tensor) -> Tensor:
    _, log_likelihoods, _ = token_losses(logits, labels)
    return log_likelihoods * token_mask(labels, config.pad_id)
