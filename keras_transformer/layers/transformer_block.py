"""Base of the encoder and decoder blocks: sublayers, residuals and normalizations.

B batch, T positions, D hidden_dim, F intermediate_dim, H heads, K head_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras

from keras_transformer.layers import nested
from keras_transformer.layers.activations import activation as make_activation
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.kernels import float_policy
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.ssru import SSRU
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


class TransformerBlock(keras.layers.Layer):
    """The parts of a block: attention, feed-forward network, residual connections.

    Input and output are (B, T, D) in the compute dtype; see `EncoderBlock` and
    `DecoderBlock`, which arrange the parts. A part that is not given is made of the
    other arguments.

    Args:
        intermediate_dim: F (d_ff).
        num_heads: H.
        head_dim: K; default D / H.
        value_dim: size of a head's values; default `head_dim`.
        activation: of the feed-forward network.
        dropout: on the outputs of the sublayers.
        attention_dropout: on the attention weights.
        activation_dropout: inside the feed-forward network.
        normalize_first: False is the paper's post-norm, True is pre-norm.
        layer_norm_epsilon: added to the variance.
        use_bias: biases in the attention projections.
        parts: layers in place of those that the other arguments would make, by the name
            of the attribute: `"self_attention"`, `"feed_forward"`,
            `"self_attention_residual"`, `"feed_forward_residual"` and, of a decoder
            block, `"cross_attention"` and `"cross_attention_residual"`. Each has the
            call of the layer it replaces; that of a decoder block's self-attention may
            also be an `SSRU`.

    Raises:
        ValueError: there is no part of a name, or F or H is missing for one that is not
            given; an encoder block has an SSRU.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    dtype_policy: Any  # Keras'
    part_names: tuple[str, ...] = (
        "self_attention",
        "self_attention_residual",
        "feed_forward",
        "feed_forward_residual",
    )

    def __init__(
        self,
        intermediate_dim: int | None = None,
        num_heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-6,
        use_bias: bool = False,
        parts: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        # None only where the parts are given that need them.
        self.intermediate_dim: Any = intermediate_dim
        self.num_heads: Any = num_heads
        self.head_dim = head_dim
        self.value_dim = value_dim
        self.activation = make_activation(activation)
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        parts = {name: nested.from_config(part) for name, part in (parts or {}).items()}
        for name in parts:
            if name not in self.part_names:
                raise ValueError(
                    f"a block has no part {name!r}; its parts are "
                    f"{', '.join(self.part_names)}"
                )
        # Always in this order, which is that of the weights in an optimizer's state.
        self._given_parts = tuple(name for name in self.part_names if name in parts)
        for name in self._given_parts:
            setattr(self, name, parts[name])
        if isinstance(parts.get("self_attention"), SSRU):
            if "cross_attention" not in self.part_names:
                raise ValueError(
                    "an SSRU is causal, and an encoder needs both directions; use the "
                    "SSRU in a DecoderBlock"
                )
            self.autocast = False  # it would round the cache
        for argument, name, made in (
            ("intermediate_dim", "feed_forward", intermediate_dim),
            ("num_heads", "attention", num_heads),
        ):
            missing = [p for p in self.part_names if p.endswith(name)]
            if made is None and not set(missing) <= set(parts):
                raise ValueError(
                    f"{argument} is missing; give it, or the parts {', '.join(missing)}"
                )

    @property
    def parts(self) -> dict[str, Any]:
        """The parts that were given, by name."""
        return {name: getattr(self, name) for name in self._given_parts}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "use_bias": self.use_bias,
            "parts": {
                name: nested.to_config(part) for name, part in self.parts.items()
            },
        }

    # === Quantization ===

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Makes attention and feed-forward network int8; see `Kernels.quantize`."""
        layers = self._flatten_layers(include_self=False)
        for layer in layers:
            if isinstance(layer, Kernels):
                layer.quantize(mode, config=config)
        self._is_quantized = True
        if self.dtype_policy.quantization_mode is None:
            name = f"int8_from_{self.dtype_policy.name}"
            self.dtype_policy = keras.dtype_policies.get(name)

    def quantized_call(self, *arguments: Any, **options: Any) -> Any:
        """The call of a block whose dtype policy says int8."""
        return self.call(*arguments, **options)

    # === Parts ===

    def build_attention(
        self, name: str, query_shape: Shape, value_shape: Shape | None = None
    ) -> None:
        """The attention of a name, given or made, with its weights."""
        if name not in self._given_parts:
            setattr(self, name, self._attention(name, query_shape[-1]))
        attention = getattr(self, name)
        if attention.built:  # a part that several blocks share
            return
        if value_shape is None:
            attention.build(query_shape)
        else:
            attention.build(query_shape, value_shape)

    def _attention(self, name: str, hidden_dim: int) -> Any:
        head_dim = self.head_dim
        if head_dim is None:
            head_dim, rest = divmod(hidden_dim, self.num_heads)
            if rest:
                raise ValueError(
                    f"num_heads {self.num_heads} does not divide the hidden_dim "
                    f"{hidden_dim} of the input; give head_dim"
                )
        return MultiHeadAttention(
            self.num_heads,
            head_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )

    def build_residual(self, name: str, shape: Shape) -> None:
        """The residual connection of a name, given or made, with its weights."""
        if name not in self._given_parts:
            made = Residual(
                self.normalize_first,
                self.dropout,
                self.layer_norm_epsilon,
                dtype=float_policy(self.dtype_policy),
                name=name,
            )
            setattr(self, name, made)
        residual = getattr(self, name)
        if not residual.built:
            residual.build(shape)

    def build_feed_forward(self, shape: Shape) -> None:
        """The feed-forward network and its residual connection, with their weights."""
        if "feed_forward" not in self._given_parts:
            self.feed_forward = FeedForward(
                self.intermediate_dim,
                self.activation,
                self.activation_dropout,
                dtype=self.dtype_policy,
                name="feed_forward",
            )
        if not self.feed_forward.built:
            self.feed_forward.build(shape)
        self.build_residual("feed_forward_residual", shape)

    def attend(
        self,
        attention: MultiHeadAttention,
        query: Tensor,
        *,
        cache: Tensors | None,
        return_attention_weights: bool,
        **arguments: Any,
    ) -> tuple[Tensor, Tensors | None, Tensor | None]:
        """Output, cache and weights of an attention, None where not asked for.

        A custom part needs only the arguments that this call passes.
        """
        for name in ("query_mask", "value_mask", "use_causal_mask"):
            if arguments.get(name) is None or arguments[name] is False:
                arguments.pop(name, None)
        if cache is not None:
            arguments["cache"] = cache
        results = attention(
            query, return_attention_weights=return_attention_weights, **arguments
        )
        output, *others = results if isinstance(results, tuple) else (results,)
        weights = others.pop() if return_attention_weights else None
        return output, others.pop() if others else None, weights

    def apply_feed_forward(self, hidden: Tensor, training: bool | None) -> Tensor:
        """The sublayer in its residual connection: (B, T, D) -> (B, T, D)."""
        update = self.feed_forward(
            self.feed_forward_residual.enter(hidden), training=training
        )
        return self.feed_forward_residual(hidden, update, training=training)
