"""Convolutional encoder-decoder, a baseline of the paper.

B batch, T target positions, S source positions, D hidden_dim, N layers, K = D,
V target vocabulary, W beam width, R positions that a convolution keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.config import ConvolutionalConfig
from keras_transformer.layers import GatedConvolution
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.layers.dropout import Dropout
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.shared_layers import cross_attention_bias
from keras_transformer.models.shared_layers import embeddings
from keras_transformer.models.shared_layers import residual_connection
from keras_transformer.models.shared_layers import source_attention
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalModel(TranslationModel):
    """Gated convolutions on both sides, with attention to the source in each layer.

    An encoder layer sees some positions on both sides, a decoder layer those before,
    plain as in ConvS2S or dilated as in ByteNet. Unlike those, it has the residual
    connections, normalizations and sinusoidal positions of the Transformer, so that the
    kinds of models differ only in how positions are mixed.

    It is trained, searched, saved and exported like a `Transformer`.

    Args:
        config: a `ConvolutionalConfig`, or the dictionary of its fields.
        dtype: a dtype policy; default Keras' global one.

    Call arguments:
        inputs: `{"source": (B, S) int32, "target": (B, T) int32}`; the target begins
            with `start_id`, one to the right of the labels.

    Returns:
        Logits (B, T, V) in float32.

    Masking: padding (`pad_id`) of the source is zero for convolutions and masked in
        attention; the target is causal.

    Example:

    >>> import numpy as np
    >>> import keras_transformer as kt
    >>> config = kt.ConvolutionalConfig.from_preset("tiny", vocabulary_size=1000)
    >>> model = kt.ConvolutionalModel(config)
    >>> ids = np.array([[5, 6, 2]])
    >>> tuple(model({"source": ids, "target": ids}).shape)
    (1, 3, 1000)

    Reference: Gehring et al., 2017, [Convolutional Sequence to Sequence Learning](
    https://arxiv.org/abs/1705.03122); Kalchbrenner et al., 2016,
    https://arxiv.org/abs/1610.10099.
    """

    config_class = ConvolutionalConfig
    int8_hindrance = "Keras has no int8 convolution"

    @staticmethod
    def make_layers(config: ConvolutionalConfig, policy: Any) -> dict[str, Any]:
        """All layers, by the names of attributes; see `TranslationModel`."""
        layers = {**embeddings(config, policy), **_stacks(config, policy)}
        for side in ("source", "target"):
            layers[f"{side}_position"] = SinusoidalPositionalEncoding(
                dtype=policy, name=f"{side}_position"
            )
            layers[f"{side}_dropout"] = Dropout(
                config.dropout, dtype=policy, name=f"{side}_dropout"
            )
        return layers

    @property
    def layer_groups(self) -> dict[str, list[Any]]:
        return {
            "embeddings": [
                self.source_embedding,
                self.target_embedding,
                self.output_embedding,
            ],
            "encoder": [layer for layers in self.encoder_layers for layer in layers],
            "decoder": [layer for layers in self.decoder_layers for layer in layers],
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
            length: int, the largest S, where S is dynamic.

        Returns:
            `contract.Encoded`.
        """
        source_mask = ops.not_equal(source, self.config.pad_id)
        hidden = self._embed("source", source, training, length=length)
        padding_mask = ops.expand_dims(source_mask, (1, 2))  # (B, 1, 1, S)
        for convolution, residual in self.encoder_layers:
            update = convolution(hidden, padding_mask=padding_mask)
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
            `contract.Decoded`: no self-attention, and N cross-attentions (B, 1, T, S).
        """
        hidden, _, weights = self._decoder_stack(
            self._embed("target", target, training),
            [{"value": memory}] * self.config.num_decoder_layers,
            cross_attention_bias(source_mask),
            return_attention_weights=return_attention_weights,
            training=training,
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
            length: has no effect: a convolution sees a fixed number of positions.

        Returns:
            `contract.SearchState`. Constants, one per sentence: keys and values (B, 1,
            S, K) of each layer and a bias (B, 1, 1, S). Cache, one per hypothesis: (B,
            W, R, D) of each layer.
        """
        constants = {
            "memory": [
                attention.project_memory(memory)
                for _, _, attention, _ in self.decoder_layers
            ],
            "bias": cross_attention_bias(source_mask),
        }
        rows = (ops.shape(memory)[0],)
        if beam_size is not None:
            rows += (beam_size,)
        size = self.config.hidden_dim
        cache = [
            ops.zeros((*rows, convolution.num_kept, size), dtype=memory.dtype)
            for convolution, *_ in self.decoder_layers
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
            position: scalar int32, 0 for `start_id`.
            constants: from `start`.
            cache: from `start` or the step before.
            return_attention_weights: also return the cross-attention weights.

        Returns:
            `contract.StepOutput`.
        """
        # Positions come from a table that is computed before the program runs.
        length = self.config.longest_sequence
        hidden, cache, weights = self._decoder_stack(
            self._embed("target", tokens, position=position, length=length),
            [{"keys_values": pair} for pair in constants["memory"]],
            constants["bias"],
            caches=cache,
            return_attention_weights=return_attention_weights,
        )
        return StepOutput(self.logits(hidden), cache, weights)

    # === Parts ===

    def _embed(
        self, side: str, ids: Tensor, training: bool | None = None, **position: Any
    ) -> Tensor:
        """(B, T) -> (B, T, D): embeddings plus positions, with dropout."""
        hidden = getattr(self, f"{side}_embedding")(ids)
        hidden = getattr(self, f"{side}_position")(hidden, **position)
        return getattr(self, f"{side}_dropout")(hidden, training=training)

    def _decoder_stack(
        self,
        hidden: Tensor,
        memories: Sequence[dict[str, Tensors]],
        bias: Tensor,
        caches: Tensors | None = None,
        return_attention_weights: bool = False,
        training: bool | None = None,
    ) -> Any:
        """All layers of the decoder, over whole targets or, with caches, a step."""
        new_caches: list[Tensor] = []
        weights: Any = [] if return_attention_weights else None
        for index, layers in enumerate(self.decoder_layers):
            convolution, residual, attention, attention_residual = layers
            if caches is None:
                update = convolution(hidden)
            else:
                update, cache = convolution(hidden, cache=caches[index])
                new_caches.append(cache)
            hidden = residual(hidden, update, training=training)
            update = attention(
                hidden,
                **memories[index],
                attention_bias=bias,
                return_attention_weights=return_attention_weights,
                training=training,
            )
            if return_attention_weights:
                update, layer_weights = update
                weights.append(layer_weights)
            hidden = attention_residual(hidden, update, training=training)
        return hidden, new_caches, weights


def _stacks(config: ConvolutionalConfig, policy: Any) -> dict[str, Any]:
    """The layers of encoder and decoder, by name."""

    def convolution(name: str, dilation: int, causal: bool) -> Any:
        return GatedConvolution(
            config.kernel_size, dilation, causal, dtype=policy, name=name
        )

    return {
        "encoder_layers": [
            (
                convolution(f"encoder_{i}_convolution", dilation, causal=False),
                residual_connection(
                    f"encoder_{i}_convolution_residual", config, policy
                ),
            )
            for i, dilation in enumerate(config.dilations(config.num_encoder_layers))
        ],
        "decoder_layers": [
            (
                convolution(f"decoder_{i}_convolution", dilation, causal=True),
                residual_connection(
                    f"decoder_{i}_convolution_residual", config, policy
                ),
                source_attention(f"decoder_{i}_attention", config, policy),
                residual_connection(f"decoder_{i}_attention_residual", config, policy),
            )
            for i, dilation in enumerate(config.dilations(config.num_decoder_layers))
        ],
    }
