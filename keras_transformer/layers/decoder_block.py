"""One block of the decoder: self-attention or SSRU, cross-attention, feed-forward.

B batch, T target positions, S source positions, D hidden_dim, H heads, G heads of keys
and values, K head_dim, W beam width, L length of the cache.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.layers.call_arguments import by_name
from keras_transformer.layers.ssru import SSRU
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

_MASKS = ("attention_mask", "attention_bias")  # for self-attention


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderBlock(TransformerBlock):
    """Self-attention, attention to the encoder's output, feed-forward.

    Causality is the caller's: `use_causal_mask`, `attention_bias` or `attention_mask`
    must block later positions in training; in cached decoding, the latter two block
    cache entries not yet written. With an `SSRU` in place of self-attention,
    `parts={"self_attention": SSRU()}`, the block is causal by itself.

    Args: those of `TransformerBlock`.

    Call arguments:
        target: (B, T, D); with a cache, (B, W, D): the next position of each of W
            hypotheses.
        memory: the encoder's output (B, S, D), or what `project_memory` made of it:
            keys (B, G, S, K) and values (B, G, S, value_dim).
        attention_mask: for self-attention: boolean, True = may attend: (T, T),
            (B, T, T) or what broadcasts to (B, H, T, T) with four axes.
        attention_bias: float32 of such a shape, alone or beside a mask; see
            `masks.attention_bias`. With a cache it broadcasts to (B, W, H, 1, L), if
            it is shared to (B, H, W, L * W).
        cross_attention_mask: for cross-attention: (T, S), (B, T, S) or what broadcasts
            to (B, H, T, S) with four axes.
        cross_attention_bias: float32 of such a shape, alone or beside a mask.
        cache: keys (B, W, H, L, K) and values (B, W, H, L, value_dim), or shared,
            (B, H, L * W, K) and (B, H, L * W, value_dim); see `MultiHeadAttention`. Of
            an SSRU its states (B, W, D).
        position: scalar int32, where the cache is written.
        return_attention_weights: also return them.
        target_mask: (B, T) bool, False at padding; default: the Keras mask of the
            target.
        memory_mask: (B, S) bool; default: the Keras mask of the memory.
        use_causal_mask: whether no target position attends to a later one.

    Returns:
        (B, T, D); with a cache, that and the new cache; with
        `return_attention_weights`, also the weights (B, H, T, T) of self-attention
        (absent with an SSRU) and (B, H, T, S) of cross-attention in float32.

    Raises:
        ValueError: there is an SSRU, and a mask or bias for self-attention.

    Masking: what the masks say, and Keras masks as in
    `keras.layers.MultiHeadAttention`; that of the target is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import DecoderBlock, masks
    >>> block = DecoderBlock(intermediate_dim=32, num_heads=2)
    >>> target = keras.random.normal((3, 5, 16))
    >>> memory = keras.random.normal((3, 7, 16))
    >>> tuple(block(target, memory, attention_mask=masks.causal_mask(5)).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    part_names: tuple[str, ...] = (
        "self_attention",
        "self_attention_residual",
        "cross_attention",
        "cross_attention_residual",
        "feed_forward",
        "feed_forward_residual",
    )

    def build(self, target_shape: Shape, memory_shape: Shape) -> None:
        self.build_attention("self_attention", target_shape)
        self.build_residual("self_attention_residual", target_shape)
        self.build_attention("cross_attention", target_shape, memory_shape)
        self.build_residual("cross_attention_residual", target_shape)
        self.build_feed_forward(target_shape)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, G, S, K) and values (B, G, S, value_dim) of (B, S, D)."""
        return self.cross_attention.project_memory(memory)

    def call(
        self,
        target: Tensor,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        cross_attention_mask: Tensor | None = None,
        cross_attention_bias: Tensor | None = None,
        cache: Tensors | None = None,
        position: Tensor | None = None,
        return_attention_weights: bool = False,
        training: bool | None = None,
        target_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        seen = self.self_attention_residual.enter(target)
        if isinstance(self.self_attention, SSRU):
            self._refuse_self_attention(attention_mask, attention_bias)
            self_weights = []
            if cache is None:
                update = self.self_attention(seen)
            else:
                update, cache = self.self_attention(seen, cache=cache)
        else:
            update, cache, weights = self.attend(
                self.self_attention,
                seen,
                attention_mask=attention_mask,
                attention_bias=attention_bias,
                cache=cache,
                position=position,
                return_attention_weights=return_attention_weights,
                training=training,
                query_mask=target_mask,
                use_causal_mask=use_causal_mask,
            )
            self_weights = [weights]
        hidden = self.self_attention_residual(target, update, training=training)

        projected = isinstance(memory, (tuple, list))
        if isinstance(memory_mask, (tuple, list)):  # Keras': one of keys, one of values
            memory_mask = None
        update, _, cross_weights = self.attend(
            self.cross_attention,
            self.cross_attention_residual.enter(hidden),
            value=None if projected else memory,
            keys_values=memory if projected else None,
            attention_mask=cross_attention_mask,
            attention_bias=cross_attention_bias,
            cache=None,
            return_attention_weights=return_attention_weights,
            training=training,
            query_mask=target_mask,
            value_mask=memory_mask,
        )
        hidden = self.cross_attention_residual(hidden, update, training=training)

        results = [self.apply_feed_forward(hidden, training)]
        if cache is not None:
            results.append(cache)
        if return_attention_weights:
            results += [*self_weights, cross_weights]
        return results[0] if len(results) == 1 else tuple(results)

    def compute_output_spec(self, *arguments: Any, **options: Any) -> Any:
        kwargs = by_name(DecoderBlock.call, arguments, options)
        target, memory = kwargs["target"], kwargs["memory"]
        if kwargs.get("cache") is not None or isinstance(memory, (tuple, list)):
            return keras.Operation.compute_output_spec(self, **kwargs)
        # Without tracing the call, which would be most of the time a model is built in.
        hidden = keras.KerasTensor(target.shape, dtype=self.compute_dtype)
        masks = {name: kwargs.get(name) for name in _MASKS}
        self_weights = []
        if isinstance(self.self_attention, SSRU):
            self._refuse_self_attention(**masks)
        else:
            _, weights = self.self_attention.compute_output_spec(
                target,
                **masks,
                query_mask=kwargs.get("target_mask"),
                return_attention_weights=True,
            )
            self_weights = [weights]
        _, cross_weights = self.cross_attention.compute_output_spec(
            target,
            memory,
            attention_mask=kwargs.get("cross_attention_mask"),
            attention_bias=kwargs.get("cross_attention_bias"),
            query_mask=kwargs.get("target_mask"),
            value_mask=kwargs.get("memory_mask"),
            return_attention_weights=True,
        )
        found = hidden, *self_weights, cross_weights
        return found if kwargs.get("return_attention_weights") else hidden

    def _refuse_self_attention(
        self, attention_mask: Tensor | None, attention_bias: Tensor | None
    ) -> None:
        if attention_mask is not None or attention_bias is not None:
            raise ValueError(
                f"{self.name} has an SSRU in place of self-attention, which is causal "
                f"by itself; leave out attention_mask and attention_bias"
            )

    def compute_output_shape(self, target_shape: Shape, memory_shape: Shape) -> Shape:
        return target_shape
