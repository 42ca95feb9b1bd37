"""Encoder and decoder blocks of a Transformer, assembled from its config.

The only module that reads the fields of block parts: a new field of attention,
feed-forward network or residual connection is passed to its layer here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.layers import SSRU
from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers import FeedForward
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import Residual
from keras_transformer.layers.normalization import normalization


def blocks(
    config: TransformerConfig,
    side: str,
    policy: Any,
    position: Any,
    make_parts: Callable[..., dict[str, Any]] | None = None,
) -> list[Any]:
    """The blocks of `"encoder"` or `"decoder"`, first to last.

    Args:
        config: a `TransformerConfig`.
        side: which stack.
        policy: the dtype policy.
        position: a `RelativePositionalEncoding` of the self-attentions, or None.
        make_parts: gives the parts of one block from these arguments, `block_parts` if
            left out; called for each block, which has weights of its own.
    """
    make_parts = make_parts or block_parts
    make = EncoderBlock if side == "encoder" else DecoderBlock
    count = getattr(config, f"num_{side}_layers")
    return [
        make(
            parts=make_parts(config, side, policy, position),
            dtype=policy,
            name=f"{side}_{index}",
        )
        for index in range(count)
    ]


def norm(name: str, wanted: bool, config: TransformerConfig, policy: Any) -> Any:
    """A normalization of the config's kind, or None where `wanted` is False."""
    if not wanted:
        return None
    return normalization(
        config.normalization_layer, config.layer_norm_epsilon, dtype=policy, name=name
    )


def block_parts(
    config: TransformerConfig, side: str, policy: Any, position: Any
) -> dict[str, Any]:
    """The parts of one block by name, as the config says; see `TransformerBlock`."""
    sizes = config.sizes(side)
    stream_scale, initial_gain = config.deep_norm_factors(side)

    def attention(
        name: str, positional_encoding: Any = None, window: int | None = None
    ) -> Any:
        return MultiHeadAttention(
            sizes.num_heads,
            sizes.head_dim,
            value_dim=sizes.value_dim,
            dropout=config.attention_dropout,
            use_bias=config.use_bias,
            attention_scoring=config.attention_scoring,
            num_key_value_heads=sizes.num_key_value_heads,
            query_key_norm=config.normalization_layer
            if config.query_key_norm
            else None,
            norm_epsilon=config.layer_norm_epsilon,
            positional_encoding=positional_encoding,
            initial_gain=initial_gain,
            window=window,
            dtype=policy,
            name=name,
        )

    def before() -> Any:
        """What looks at the positions before, and in an encoder at those after."""
        if side == "encoder" or config.decoder == "attention":
            return attention("self_attention", position, config.attention_window)
        if position is not None:
            raise ValueError(
                f"position {config.position} works within self-attention, which a "
                f"decoder ssru does not have; choose another position"
            )
        return SSRU(initial_gain=initial_gain, dtype=policy, name="ssru")

    def residual(name: str) -> Any:
        return Residual(
            config.normalize_first,
            config.dropout,
            config.layer_norm_epsilon,
            normalization=config.normalization_layer,
            stream_scale=stream_scale,
            dtype=policy,
            name=f"{name}_residual",
        )

    feed_forward = FeedForward(
        sizes.intermediate_dim,
        config.activation,
        config.activation_dropout,
        gated=config.feed_forward == "gated",
        use_bias=config.feed_forward_bias,
        initial_gain=initial_gain,
        dtype=policy,
        name="feed_forward",
    )
    parts = {
        "self_attention": before(),
        "feed_forward": feed_forward,
    }
    if side == "decoder":
        parts["cross_attention"] = attention("cross_attention")
    residuals = {f"{name}_residual": residual(parts[name].name) for name in parts}
    return {**parts, **residuals}
