"""Ensemble of several models, behind the contract of one.

B batch, S source positions, T target positions, D hidden_dim, W beam width, V target
vocabulary, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.word_attention import word_attention
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

COMBINATIONS = ("probabilities", "log_probabilities")
_SHARED = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "source_end",
    "pad_id",
    "start_id",
    "end_id",
)


class Ensemble:
    """An ensemble: the mean of several models' predictions of the next token.

    It is a `contract.Decodable`, like each of its members, and gives logits (B, T, V);
    its `config` is that of the member with the shortest maximum length. It cannot be
    trained.

    Args:
        models: models of this package; they may differ in everything but vocabularies
            and special ids. The caller ensures that their tokenizers are the same.
        combination: `"probabilities"`: the mean of the members' probabilities: one
            member can make a token possible; `"log_probabilities"`: the mean of their
            logarithms, renormalized: one member can make a token impossible.

    Raises:
        InputError: without models, or where they do not share a vocabulary.

    Example:

    >>> import numpy as np
    >>> import keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=100)
    >>> members = [kt.Transformer(config), kt.Transformer(config)]
    >>> ensemble = kt.models.Ensemble(members)
    >>> ids = np.array([[5, 6, 2]])
    >>> tuple(ensemble({"source": ids, "target": ids}).shape)
    (1, 3, 100)

    Reference: Sutskever et al., 2014, https://arxiv.org/abs/1409.3215, section 3.6.
    """

    def __init__(
        self, models: Sequence[Any], combination: str = "probabilities"
    ) -> None:
        self.models = list(models)
        if not self.models:
            raise InputError("an ensemble needs at least one model")
        if combination not in COMBINATIONS:
            raise InputError(
                f"combination must be one of {', '.join(COMBINATIONS)}, got "
                f"{combination!r}"
            )
        self.combination = combination
        configs = [model.config for model in self.models]
        for name in _SHARED:
            values = [getattr(config, name) for config in configs]
            if len(set(values)) > 1:
                values = ", ".join(map(str, values))
                raise InputError(
                    f"the models of an ensemble have {name} {values}; give models that "
                    f"share one vocabulary"
                )
        self.config = min(configs, key=lambda config: config.longest_sequence)

    @property
    def variables(self) -> list[Any]:
        """The variables of all members."""
        return [variable for model in self.models for variable in model.variables]

    def __call__(self, inputs: Any, training: bool | None = None) -> Tensor:
        """Logits (B, T, V) of `{"source": (B, S), "target": (B, T)}`."""
        return self._mean([model(inputs, training=training) for model in self.models])

    def encode(
        self,
        source: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
        length: int | Tensor | None = None,
    ) -> Encoded:
        """A list of the members' memories (B, S, D), and the source mask (B, S).

        The encoders' self-attention has no mean: where requested, it is empty.
        """
        encoded = [
            model.encode(source, training=training, length=length)
            for model in self.models
        ]
        memories = [member.memory for member in encoded]
        weights: list[Tensor] | None = [] if return_attention_weights else None
        return Encoded(memories, encoded[0].source_mask, weights)

    def decode(
        self,
        target: Tensor,
        memory: list[Tensor],
        source_mask: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
    ) -> Decoded:
        """A list of the members' hidden states (B, T, D), for `logits`.

        The cross-attention is one (B, 1, T, S): the mean over members of the mean head
        of their last layer but one. Self-attention has no mean.
        """
        decoded = [
            model.decode(
                target,
                member_memory,
                source_mask,
                training=training,
                return_attention_weights=return_attention_weights,
            )
            for model, member_memory in zip(self.models, memory, strict=True)
        ]
        hidden = [member.hidden for member in decoded]
        if not return_attention_weights:
            return Decoded(hidden)
        weights = [member.cross_attention_weights for member in decoded]
        return Decoded(hidden, [], _mean_attention(weights))

    def logits(self, hidden: list[Tensor]) -> Tensor:
        """The logits (B, T, V) of the result of `decode`."""
        pairs = zip(self.models, hidden, strict=True)
        return self._mean([model.logits(states) for model, states in pairs])

    def start(
        self,
        memory: list[Tensor],
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """Constants and cache of all members, with one shared bias."""
        return self._start("start", memory, source_mask, beam_size, length)

    def start_search(
        self,
        memory: list[Tensor],
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """As `start`, see `TranslationModel.start_search`."""
        return self._start("start_search", memory, source_mask, beam_size, length)

    def reorder(self, cache: Tensors, beams: Tensor) -> Tensors:
        """The caches of all members, see `TranslationModel.reorder`."""
        pairs = zip(self.models, cache, strict=True)
        return [model.reorder(member_cache, beams) for model, member_cache in pairs]

    def _start(self, method: str, memory: list[Tensor], *arguments: Any) -> SearchState:
        started = [
            getattr(model, method)(member_memory, *arguments)
            for model, member_memory in zip(self.models, memory, strict=True)
        ]
        bias = started[0].constants["bias"]
        members = [dict(member.constants) for member in started]
        for constants in members:
            del constants["bias"]
        return SearchState(
            {"members": members, "bias": bias}, [member.cache for member in started]
        )

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
        return_attention_weights: bool = False,
    ) -> StepOutput:
        """One decoding step of all members; cross-attention as in `decode`."""
        steps = [
            model.decode_step(
                tokens,
                position,
                {**member_constants, "bias": constants["bias"]},
                member_cache,
                return_attention_weights=return_attention_weights,
            )
            for model, member_constants, member_cache in zip(
                self.models, constants["members"], cache, strict=True
            )
        ]
        logits = self._mean([step.logits for step in steps])
        caches = [step.cache for step in steps]
        if not return_attention_weights:
            return StepOutput(logits, caches)
        weights = [step.cross_attention_weights for step in steps]
        return StepOutput(logits, caches, _mean_attention(weights))

    def _mean(self, logits: Any) -> Tensor:
        """Logits of the mean: those of the member, where all members are one.

        What a softmax leaves open is the mean of the members' normalizers, since a
        repetition penalty depends on the sign of a logit.
        """
        values = ops.stack(list(logits))
        normalizers = ops.logsumexp(values, axis=-1, keepdims=True)
        logs, shift = values - normalizers, ops.mean(normalizers, axis=0)
        if self.combination == "probabilities":
            return ops.logsumexp(logs, axis=0) - ops.log(float(len(logits))) + shift
        return ops.log_softmax(ops.mean(logs, axis=0), axis=-1) + shift


def _mean_attention(weights: Any) -> list[Tensor]:
    maps = ops.stack([word_attention(layers) for layers in weights])
    return [ops.expand_dims(ops.mean(maps, axis=0), 1)]
