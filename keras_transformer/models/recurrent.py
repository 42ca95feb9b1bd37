"""Recurrent encoder-decoder (LSTM), a baseline of the paper.

B batch, T target positions, S source positions, D hidden_dim, N layers, K = D,
V target vocabulary, W beam width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.config import RecurrentConfig
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial_values import InFloat32
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.shared_layers import cross_attention_bias
from keras_transformer.models.shared_layers import embeddings
from keras_transformer.models.shared_layers import residual_connection
from keras_transformer.models.shared_layers import source_attention
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import require_attention
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


@keras.saving.register_keras_serializable(package="keras_transformer")
class RecurrentModel(TranslationModel):
    """LSTMs on both sides, with or without attention to the source, as a Keras model.

    An encoder layer reads the source in both directions with D / 2 units each; a
    decoder layer reads the target with D units. Each has the residual connection of the
    Transformer, so that the kinds of models differ only in how positions are mixed. The
    decoder's initial states are computed from the encoder's output at both ends of the
    source, where each direction has read all of it. Attention follows the first decoder
    layer, whose outputs are the queries: the layers above read what was attended to,
    and all positions attend at once.

    It is trained, searched, saved and exported like a `Transformer`.

    Args:
        config: a `RecurrentConfig`, or the dictionary of its fields.
        dtype: a dtype policy; default Keras' global one.

    Call arguments:
        inputs: `{"source": (B, S) int32, "target": (B, T) int32}`; the target begins
            with `start_id`, one to the right of the labels.

    Returns:
        Logits (B, T, V) in float32.

    Masking: padding (`pad_id`) is at the end of the source only, and is ignored.

    Example:

    >>> import numpy as np
    >>> import keras_transformer as kt
    >>> config = kt.RecurrentConfig.from_preset("tiny", vocabulary_size=1000)
    >>> model = kt.RecurrentModel(config)
    >>> ids = np.array([[5, 6, 2]])
    >>> tuple(model({"source": ids, "target": ids}).shape)
    (1, 3, 1000)

    Reference: Sutskever et al., 2014, https://arxiv.org/abs/1409.3215; Bahdanau et
    al., 2015, https://arxiv.org/abs/1409.0473; attention from the first layer: Wu et
    al., 2016, https://arxiv.org/abs/1609.08144, section 3; normalization: Chen et
    al., 2018, https://arxiv.org/abs/1804.09849.
    """

    config_class = RecurrentConfig
    int8_hindrance = "Keras has no int8 recurrent layer"

    @staticmethod
    def make_layers(config: RecurrentConfig, policy: Any) -> dict[str, Any]:
        """All layers, by the names of attributes; see `TranslationModel`."""
        return {
            **embeddings(config, policy),
            **_sides(config, policy),
            **_attention(config, policy),
        }

    @property
    def layer_groups(self) -> dict[str, list[Any]]:
        decoder = [layer for layers in self.decoder_layers for layer in layers]
        return {
            "embeddings": [
                self.source_embedding,
                self.target_embedding,
                self.output_embedding,
            ],
            "encoder": [layer for layers in self.encoder_layers for layer in layers],
            "decoder": [*decoder, self.attention, self.attention_residual],
        }

    # === Training ===

    def encode(
        self,
        source: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
        length: int | Tensor | None = None,
    ) -> Encoded:
        """The encoder output of source ids.

        Args:
            source: (B, S) int32.
            training: whether dropout is on.
            return_attention_weights: has no effect: there are no self-attention
                weights.
            length: has no effect, since no positions are computed.

        Returns:
            `contract.Encoded`.
        """
        source_mask = ops.not_equal(source, self.config.pad_id)
        places = _reversed_positions(source_mask)
        hidden = self.source_dropout(self.source_embedding(source), training=training)
        for forward, backward, residual in self.encoder_layers:
            backwards = backward(_reorder(hidden, places), training=training)
            update = [forward(hidden, training=training), _reorder(backwards, places)]
            update = ops.concatenate(update, axis=-1)  # (B, S, D)
            hidden = residual(hidden, update, training=training)
        return Encoded(hidden, source_mask, [] if return_attention_weights else None)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
    ) -> Decoded:
        """The decoder output of all target positions, causally.

        Returns:
            `contract.Decoded`: no self-attention, and one cross-attention (B, 1, T, S).

        Raises:
            InputError: where weights are requested and there is no attention.
        """
        if return_attention_weights:
            require_attention(self, "attention weights need")
        states = self._first_states(memory, source_mask)

        def read(index: int, hidden: Tensor) -> Any:
            lstm = self.decoder_layers[index][0]
            return lstm(hidden, initial_state=list(states[index]), training=training)

        bias = cross_attention_bias(source_mask)
        hidden, weights = self._decoder_stack(
            self.target_dropout(self.target_embedding(target), training=training),
            read,
            {"value": memory, "attention_bias": bias},
            return_attention_weights,
            training,
        )
        return Decoded(hidden, None if weights is None else [], weights)

    # === Decoding ===

    def start(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """The initial state of a search.

        Args:
            memory: (B, S, D), from `encode`.
            source_mask: (B, S), from `encode`.
            beam_size: W; None for one hypothesis per sentence, without that axis.
            length: has no effect, since states do not grow.

        Returns:
            `contract.SearchState`. Constants, one per sentence: a bias (B, 1, 1, S)
            and, with attention, keys and values (B, 1, S, K). Cache, one per
            hypothesis: two states (B, W, D) of each layer.
        """
        constants = {"bias": cross_attention_bias(source_mask)}
        if self.attention is not None:
            constants["memory"] = self.attention.project_memory(memory)
        cache = self._first_states(memory, source_mask)
        if beam_size is not None:
            cache = [
                tuple(
                    ops.repeat(ops.expand_dims(s, 1), beam_size, axis=1) for s in pair
                )
                for pair in cache
            ]
        return SearchState(constants, cache)

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
        return_attention_weights: bool = False,
    ) -> StepOutput:
        """The logits after one more token of each hypothesis.

        Args:
            tokens: (B, W) int32.
            position: has no effect: states imply it.
            constants: from `start`.
            cache: from `start` or the step before.
            return_attention_weights: also return the cross-attention weights.

        Returns:
            `contract.StepOutput`.

        Raises:
            InputError: where weights are requested and there is no attention.
        """
        if return_attention_weights:
            require_attention(self, "attention weights need")
        rows, width = ops.shape(tokens)
        new_cache = []

        def flat(
            tensor: Tensor,
        ) -> Tensor:  # (B, W, D) -> (B * W, D), the shape of a cell
            return ops.reshape(tensor, (rows * width, self.config.hidden_dim))

        def read(index: int, hidden: Tensor) -> Any:
            cell = self.decoder_layers[index][0].cell
            _, states = cell(flat(hidden), [flat(state) for state in cache[index]])
            pairs = zip(states, cache[index], strict=True)
            new_cache.append(
                tuple(ops.reshape(new, ops.shape(old)) for new, old in pairs)
            )
            return ops.reshape(states[0], (rows, width, self.config.hidden_dim))

        memory = {
            "keys_values": constants.get("memory"),
            "attention_bias": constants["bias"],
        }
        hidden, weights = self._decoder_stack(
            self.target_embedding(tokens), read, memory, return_attention_weights
        )
        return StepOutput(self.logits(hidden), new_cache, weights)

    # === Parts ===

    def _decoder_stack(
        self,
        hidden: Tensor,
        read: Callable[..., Any],
        memory: Tensor,
        return_attention_weights: bool = False,
        training: bool | None = None,
    ) -> Any:
        """All layers of the decoder; `read` runs one over whole targets or a step."""
        weights: Any = [] if return_attention_weights else None
        for index, (_, residual, _) in enumerate(self.decoder_layers):
            hidden = residual(hidden, read(index, hidden), training=training)
            if index == 0 and self.attention is not None:
                update = self.attention(
                    hidden,
                    **memory,
                    return_attention_weights=return_attention_weights,
                    training=training,
                )
                if return_attention_weights:
                    update, layer_weights = update
                    weights.append(layer_weights)
                hidden = self.attention_residual(hidden, update, training=training)
        return hidden, weights

    def _first_states(self, memory: Tensor, source_mask: Tensor) -> Any:
        """Output and cell state (B, D) of each layer of the decoder."""
        count = ops.sum(ops.cast(source_mask, "int32"), axis=1, keepdims=True)  # (B, 1)
        last = ops.expand_dims(ops.maximum(count - 1, 0), 2)  # (B, 1, 1)
        ends = [memory[:, 0], ops.take_along_axis(memory, last, axis=1)[:, 0]]
        ends = ops.concatenate(ends, axis=-1)  # (B, 2D)
        states = []
        for _, _, first_state in self.decoder_layers:
            output, cell = ops.split(first_state(ends), 2, axis=-1)
            states.append((ops.tanh(output), cell))
        return states


def _reversed_positions(source_mask: Tensor) -> Tensor:
    """(B, S) -> (B, S, 1) int32: positions of tokens in reverse, padding in place."""
    tokens = ops.cast(source_mask, "int32")
    count = ops.sum(tokens, axis=1, keepdims=True)  # (B, 1)
    # Not a range: S may be unknown while the model is put together.
    positions = ops.cumsum(ops.ones_like(tokens), axis=1) - 1  # (B, S)
    positions = ops.where(positions < count, count - 1 - positions, positions)
    return ops.expand_dims(positions, 2)


def _reorder(hidden: Tensor, positions: Tensor) -> Tensor:
    """(B, S, D) in the order of positions (B, S, 1)."""
    return ops.take_along_axis(hidden, positions, axis=1)


def _sides(config: RecurrentConfig, policy: Any) -> dict[str, Any]:
    """Dropout and layers of encoder and decoder, by name."""

    # Orthogonal values are made by a decomposition that bfloat16 has not.
    orthogonal: Any = "orthogonal"
    if keras.dtype_policies.get(policy).variable_dtype != "float32":
        orthogonal = InFloat32(orthogonal)

    def lstm(name: str, units: int) -> Any:
        return keras.layers.LSTM(
            units,
            recurrent_initializer=orthogonal,
            return_sequences=True,
            use_cudnn=backends.use_cudnn,
            dtype=policy,
            name=name,
        )

    half = config.hidden_dim // 2
    return {
        **{
            f"{side}_dropout": Dropout(
                config.dropout, dtype=policy, name=f"{side}_dropout"
            )
            for side in ("source", "target")
        },
        "encoder_layers": [
            (
                lstm(f"encoder_{index}_forward", half),
                lstm(f"encoder_{index}_backward", half),
                residual_connection(f"encoder_{index}_residual", config, policy),
            )
            for index in range(config.num_encoder_layers)
        ],
        "decoder_layers": [
            (
                lstm(f"decoder_{index}", config.hidden_dim),
                residual_connection(f"decoder_{index}_residual", config, policy),
                keras.layers.Dense(
                    2 * config.hidden_dim,
                    dtype=policy,
                    name=f"decoder_{index}_first_state",
                ),
            )
            for index in range(config.num_decoder_layers)
        ],
    }


def _attention(config: RecurrentConfig, policy: Any) -> dict[str, Any]:
    if config.attention_scoring == "none":
        return {"attention": None, "attention_residual": None}
    return {
        "attention": source_attention("decoder_attention", config, policy),
        "attention_residual": residual_connection(
            "decoder_attention_residual", config, policy
        ),
    }
