"""Multi-head attention: one layer for all three uses the paper makes of it.

B batch, T query positions, S key positions, D hidden_dim, H heads, G heads of keys and
values, K head_dim, W beam width, L length of the cache.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.layers import masks
from keras_transformer.layers import nested
from keras_transformer.layers.attention import additive_attention
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.banded_attention import banded_attention
from keras_transformer.layers.banded_attention import held_position
from keras_transformer.layers.banded_attention import saves
from keras_transformer.layers.call_arguments import by_name
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import scaled
from keras_transformer.layers.initial_values import serialized
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.kernels import float_policy
from keras_transformer.layers.normalization import normalization
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

SCORINGS = ("scaled_dot_product", "dot_product", "additive")


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(Kernels):
    """Concat(head_1 .. head_H) W_O, head_i = Attention(Q W_i_Q, K W_i_K, V W_i_V).

    Each projection is one matrix for all heads, D x (H * head_dim), initialized with
    its own fans. Unlike `keras.layers.MultiHeadAttention` it has no biases unless
    asked (the paper has none; a key bias has a gradient of exactly zero), takes an
    additive bias that several layers can share, and works step by step with a cache.

    Args:
        num_heads: H.
        head_dim: K, size of a head's queries and keys (d_k).
        value_dim: size of a head's values (d_v); default `head_dim`.
        output_dim: size of the output; default that of the query.
        dropout: of the attention weights.
        use_bias: biases in the four projections.
        attention_scoring: `"scaled_dot_product"`, `"dot_product"` (unscaled) or
            `"additive"` (Bahdanau: vᵀ tanh(Q W_Q + K W_K), one v per head); `scoring`
            is its old name.
        kernel_initializer: of the four projections.
        num_key_value_heads: G, which divides H: H / G heads that follow one another
            share keys and values (grouped-query attention; 1: multi-query attention).
            The KV cache has G heads. Default: H.
        query_key_norm: `"rms"` or `"layer"` normalizes each head's queries and keys;
            default: None.
        norm_epsilon: of that normalization.
        positional_encoding: a `RelativePositionalEncoding`, for self-attention alone;
            default: None.
        initial_gain: a factor of the initial values of the projections of values and
            outputs, DeepNorm's β.
        bias_initializer: of the biases.
        window: r, for self-attention alone: positions further apart do not attend to
            each other. Long sequences are computed in blocks, O(r T K) in place of
            O(T² K), unless weights are asked for or a mask or bias has a row for each
            query. Default: None, any may.

    Call arguments:
        query: (B, T, D).
        value: (B, S, D'), keys and values are made from it; default: the query
            (self-attention).
        key: (B, S, D'), where the keys come from elsewhere than the values.
        attention_mask: boolean or 1 and 0, True = may attend: (T, S), (B, T, S), also
            where B is H, or what broadcasts to (B, H, T, S) with four axes.
        attention_bias: float32 of such a shape, added to the scores where the mask
            allows, see `masks.attention_bias`; alone or beside a mask.
        keys_values: what `project_memory` returned, instead of `value`.
        cache: keys (B, W, G, L, K) and values (B, W, G, L, value_dim): each of the
            W = T queries is the next position of a hypothesis with a cache of its
            own, its key and value are written at `position` and it attends to the
            cache. The cache that is given must not be used again: on PyTorch it is
            written into. Mask and bias are (1, L), (B, 1, L) or broadcast to
            (B, W, H, 1, L) with five axes. Or keys (B, G, L * T, K) and values
            (B, G, L * T, value_dim) that the T queries share: theirs are written from
            place `position` * T on, and mask and bias (B, H, T, L * T) say which they
            may see. With a window, L = r + 1 places suffice, and the cache is written
            at `position` mod L.
        position: scalar int32, where the cache is written.
        return_attention_weights: also return them.
        query_mask: (B, T) bool, False at padding; `mask` is another name for it.
            Default: the Keras mask of the query.
        value_mask: (B, S) bool. Default: the Keras mask of the value.
        key_mask: (B, S) bool. Default: the Keras mask of the key.
        use_causal_mask: whether no position attends to a later one.

    Returns:
        The output (B, T, output_dim); with a cache, the output and the new cache;
        with `return_attention_weights`, also the weights (B, H, T, S) in float32.

    Raises:
        ValueError: mask or bias has another dtype or shape; attention to something else
            with a positional encoding or a window; `value_mask`, `key_mask` or
            `use_causal_mask` with a cache.

    Masking: Keras masks, such as those of `Embedding(mask_zero=True)`, mean what they
    mean in `keras.layers.MultiHeadAttention`, and that of the query is passed on. A
    query for which everything is blocked gives a finite but meaningless output.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import MultiHeadAttention
    >>> attention = MultiHeadAttention(num_heads=2, head_dim=8)
    >>> tuple(attention(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.2;
    grouped queries: Ainslie et al., 2023, https://arxiv.org/abs/2305.13245;
    normalized queries and keys: Henry et al., 2020, https://arxiv.org/abs/2010.04245;
    the window: section 4 and Table 1, "self-attention (restricted)".
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        value_dim: int | None = None,
        output_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        attention_scoring: str = "scaled_dot_product",
        kernel_initializer: Any = "glorot_uniform",
        num_key_value_heads: int | None = None,
        query_key_norm: str | None = None,
        norm_epsilon: float = 1e-6,
        positional_encoding: Any = None,
        initial_gain: float = 1.0,
        bias_initializer: Any = "zeros",
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        attention_scoring = kwargs.pop("scoring", attention_scoring)
        if attention_scoring not in SCORINGS:
            raise ValueError(
                f"attention_scoring must be one of {', '.join(SCORINGS)}, got "
                f"{attention_scoring!r}"
            )
        groups = num_key_value_heads or num_heads
        for name, size in (("num_heads", num_heads), ("head_dim", head_dim)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if num_heads % groups:
            raise ValueError(
                f"num_key_value_heads {groups} does not divide num_heads {num_heads}"
            )
        if window is not None and window < 1:
            raise ValueError(
                f"window must be at least 1, got {window}; leave it out for attention "
                f"to all positions"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_dim = value_dim or head_dim
        self.output_dim = output_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.attention_scoring = attention_scoring
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.num_key_value_heads = groups
        self.query_key_norm = query_key_norm
        self.norm_epsilon = norm_epsilon
        self.positional_encoding = nested.from_config(positional_encoding)
        heads = getattr(self.positional_encoding, "num_heads", num_heads)
        if heads not in (1, num_heads):
            raise ValueError(
                f"the positional_encoding has {heads} heads, but the attention "
                f"{num_heads}; give both the same number"
            )
        self.initial_gain = initial_gain
        self.bias_initializer = given(bias_initializer)
        self.window: Any = window  # an int or None
        self.query_norm = self._norm("query_norm")
        self.key_norm = self._norm("key_norm")
        self.weights_dropout = Dropout(
            dropout, dtype=float_policy(self.dtype_policy), name="weights_dropout"
        )

    @property
    def scoring(self) -> str:
        """`attention_scoring`, under its old name."""
        return self.attention_scoring

    kernel_names = ("query_kernel", "key_kernel", "value_kernel", "output_kernel")

    def build(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> None:
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        output_dim = self.output_dim or query_shape[-1]
        queries = self.num_heads * self.head_dim
        keys = self.num_key_value_heads * self.head_dim
        values = self.num_key_value_heads * self.value_dim
        mixtures = self.num_heads * self.value_dim
        gain = self.initial_gain
        self.query_kernel = self._kernel("query", query_shape[-1], queries)
        self.key_kernel = self._kernel("key", key_shape[-1], keys)
        self.value_kernel = self._kernel("value", value_shape[-1], values, gain)
        self.output_kernel = self._kernel("output", mixtures, output_dim, gain)
        if self.use_bias:
            self.query_bias = self._bias("query", queries)
            self.key_bias = self._bias("key", keys)
            self.value_bias = self._bias("value", values)
            self.output_bias = self._bias("output", output_dim)
        for norm in (self.query_norm, self.key_norm):
            if norm is not None:
                norm.build((None, self.head_dim))
        encoding = self.positional_encoding
        if encoding is not None and not encoding.built:
            encoding.build()
        if self.attention_scoring == "additive":
            self.score_weights = self.add_weight(
                name="score_weights",
                shape=(self.num_heads, 1, 1, self.head_dim),
                initializer=initializer("glorot_uniform"),
            )
        self.build_quantized()

    def call(
        self,
        query: Tensor,
        value: Tensor | None = None,
        key: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        keys_values: tuple[Tensor, Tensor] | None = None,
        cache: Tensors | None = None,
        position: Tensor | None = None,
        return_attention_weights: bool = False,
        training: bool | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        mask: Tensor | None = None,
    ) -> Any:
        if self.positional_encoding is not None or self.window is not None:
            self._require_self_attention(value, key, keys_values)
        if cache is not None:
            self._refuse_with_cache(value_mask, key_mask, use_causal_mask)
        beams = cache is not None and len(cache[0].shape) == 5
        if beams:
            query = ops.expand_dims(query, 2)  # (B, W, 1, D)
        if keys_values is not None:
            queries = self._project(query, "query")
            keys, values = keys_values
        else:
            # Kernels are joined anew at each call: little beside the rest of a training
            # step, and a search does it once, before its loop, on such a backend.
            joined = training or (cache is not None and backends.hoists_invariants)
            queries, keys, values = self._project_all(query, key, value, joined)
        if self.positional_encoding is not None:
            positions = _positions(query, cache, position)
            queries = self.positional_encoding.rotate(queries, positions)
            keys = self.positional_encoding.rotate(keys, positions)
        if cache is not None:
            shared = 1 if beams else ops.shape(queries)[-2]
            places = ops.shape(cache[0])[-2] // shared  # L
            place = position if self.window is None else ops.mod(position, places)
            keys = backends.update_cache(cache[0], keys, place)
            values = backends.update_cache(cache[1], values, place)
        query_mask = mask if query_mask is None else query_mask
        others = cache, keys_values, attention_bias, query_mask, value_mask, key_mask
        if not return_attention_weights and all(other is None for other in others):
            output = self._attend_by_kernel(
                queries, keys, values, attention_mask, use_causal_mask, training
            )
            if output is not None:
                return self._merge_heads(output)
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        bias = self._joined_bias(attention_mask, attention_bias, scores_shape)
        banded = False
        if cache is None:
            if value is None and keys_values is None and value_mask is None:
                value_mask = query_mask
            if not return_attention_weights and query_mask is None:
                banded = self._is_banded(queries, bias, use_causal_mask, training)
            causal = None
            if use_causal_mask and not banded:
                causal = masks.causal_mask(ops.shape(query)[-2], ops.shape(keys)[-2])
            if self.window is not None and not banded:
                near = masks.local_mask(ops.shape(query)[-2], self.window)
                bias = masks.attention_bias(near, bias)
            bias = masks.with_keras_masks(
                bias, scores_shape, query_mask, value_mask, key_mask, causal
            )
        elif self.window is not None or self.positional_encoding is not None:
            # Index p * T + t of a shared cache is its place p.
            key_positions = ops.arange(ops.shape(keys)[-2], dtype="int32") // shared
            if self.window is not None:
                key_positions = held_position(key_positions, position, places)
                near = key_positions >= position - self.window
                bias = masks.attention_bias(near, bias)
        if self.positional_encoding is not None and not banded:
            if cache is None:
                key_positions = positions
            bias = self._with_positions(bias, positions, key_positions)
        if banded:
            output = self._attend_in_bands(
                queries, keys, values, bias, use_causal_mask, training
            )
        else:
            output, weights = self.attend(queries, keys, values, bias, training)
        output = self._merge_heads(output)
        if beams:
            output = ops.squeeze(output, 2)  # (B, W, D)
        returns = [output]
        if cache is not None:
            returns.append((keys, values))
        if return_attention_weights:
            returns.append(weights)
        return returns[0] if len(returns) == 1 else tuple(returns)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, G, S, K) and values (B, G, S, value_dim) of (B, S, D')."""
        return self._project_keys_values(memory, memory)

    def attend(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Scores, softmax and weighted values; a subclass overrides it to change these.

        It is called for whole sequences and with a cache, so the leading axes vary:
        code that uses only the last two axes works for both.

        Args:
            queries: (B, H, T, K); with a cache (B, W, H, 1, K), where it is shared
                (B, H, W, K).
            keys: (B, G, S, K), or (B, W, G, L, K).
            values: (B, G, S, value_dim), or (B, W, G, L, value_dim).
            bias: floating, added to the scores (broadcast); None for nothing.
            training: whether attention dropout is on.

        Returns:
            The output (..., T, value_dim) and the weights (..., T, S) in float32.
        """

        def drop(weights: Tensor) -> Tensor:
            return self.weights_dropout(weights, training=training)

        dropout = drop if self.dropout and training else None
        if self.attention_scoring == "additive":
            return additive_attention(
                queries, keys, values, self.score_weights, bias, dropout
            )
        return scaled_dot_product_attention(
            queries, keys, values, bias, self._scale, dropout
        )

    @property
    def _scale(self) -> float | None:
        """Of the scores; None for 1 / √K."""
        return 1.0 if self.attention_scoring == "dot_product" else None

    def _attend_by_kernel(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        causal: bool,
        training: bool | None,
    ) -> Tensor | None:
        """What `attend` gives without weights, by the device's own kernel.

        None where it has none for these tensors, and where attention is more than a
        softmax of products of which some keys, or later ones, are left out: the kernels
        drop no weights, and some have no gradient for what is added to the scores.

        Args:
            queries: (B, H, T, K).
            keys: (B, G, S, K).
            values: (B, G, S, value_dim).
            mask: boolean, True = may attend; None for every key.
            causal: no position attends to a later one.
            training: whether attention dropout is on.

        Returns:
            (B, H, T, value_dim), or None.
        """
        encoding = self.positional_encoding
        is_plain = (
            type(self).attend is MultiHeadAttention.attend
            and self.attention_scoring != "additive"
            and self.value_dim == self.head_dim
            and self.window is None
            and not (self.dropout and training)
            and (encoding is None or encoding.only_rotates)
        )
        is_by_key = mask is None or masks.is_by_key(mask)
        if not (is_plain and is_by_key) or (causal and mask is not None):
            return None
        if not backends.has_attention_kernel(queries, training):
            return None
        bias = None
        if mask is not None:
            bias = ops.cast(masks.attention_bias(mask), queries.dtype)
        scale = self._scale or 1.0 / math.sqrt(self.head_dim)
        return backends.kernel_attention(queries, keys, values, bias, causal, scale)

    def compute_output_spec(self, *arguments: Any, **options: Any) -> Any:
        kwargs = by_name(MultiHeadAttention.call, arguments, options)
        if any(kwargs.get(name) is not None for name in ("cache", "keys_values")):
            return keras.Operation.compute_output_spec(self, **kwargs)
        query, value, key = kwargs["query"], kwargs.get("value"), kwargs.get("key")
        if self.positional_encoding is not None or self.window is not None:
            self._require_self_attention(value, key, None)
        scores_shape = self.attention_weights_spec(query, value).shape
        self._joined_bias(
            kwargs.get("attention_mask"), kwargs.get("attention_bias"), scores_shape
        )
        masks.with_keras_masks(
            None,
            scores_shape,
            *(kwargs.get(name) for name in ("query_mask", "value_mask", "key_mask")),
        )
        shape = self.compute_output_shape(query.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not kwargs.get("return_attention_weights"):
            return output
        return output, self.attention_weights_spec(query, value)

    def attention_weights_spec(self, query: Tensor, value: Tensor | None = None) -> Any:
        """Symbolic (B, H, T, S) of a call without a cache."""
        length = (query if value is None else value).shape[-2]
        shape = (*query.shape[:-2], self.num_heads, query.shape[-2], length)
        return keras.KerasTensor(shape, dtype="float32")

    def compute_output_shape(
        self,
        query_shape: Shape,
        value_shape: Shape | None = None,
        key_shape: Shape | None = None,
    ) -> Shape:
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "attention_scoring": self.attention_scoring,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "num_key_value_heads": self.num_key_value_heads,
            "query_key_norm": self.query_key_norm,
            "norm_epsilon": self.norm_epsilon,
            "positional_encoding": nested.to_config(self.positional_encoding),
            "initial_gain": self.initial_gain,
            "bias_initializer": serialized(self.bias_initializer),
            "window": self.window,
        }

    def _norm(self, name: str) -> Any:
        if self.query_key_norm is None:
            return None
        return normalization(
            self.query_key_norm,
            self.norm_epsilon,
            dtype=float_policy(self.dtype_policy),
            name=name,
        )

    def _kernel(self, name: str, rows: int, columns: int, gain: float = 1.0) -> Any:
        return self.add_weight(
            name=f"{name}_kernel",
            shape=(rows, columns),
            initializer=initializer(scaled(fresh(self.kernel_initializer), gain)),
        )

    def _bias(self, name: str, size: int) -> Any:
        return self.add_weight(
            name=f"{name}_bias",
            shape=(size,),
            initializer=initializer(fresh(self.bias_initializer)),
        )

    def _project(self, inputs: Tensor, name: str) -> Tensor:
        """(..., T, D) -> (..., H or G, T, size of a head)."""
        outputs = self.multiply(inputs, f"{name}_kernel")
        if self.use_bias:
            outputs = outputs + getattr(self, f"{name}_bias")
        num_heads = self.num_heads if name == "query" else self.num_key_value_heads
        if num_heads == 1:
            outputs = ops.expand_dims(outputs, -3)
        else:
            size = self.value_dim if name == "value" else self.head_dim
            heads = (*ops.shape(inputs)[:-1], num_heads, size)
            outputs = ops.swapaxes(ops.reshape(outputs, heads), -3, -2)
        norm = {"query": self.query_norm, "key": self.key_norm}.get(name)
        return outputs if norm is None else norm(outputs)

    def _project_all(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, joined: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (..., H, T, K), keys (..., G, S, K) and values of layer inputs."""
        alone = key is None and value is None
        if alone and joined and self._projections_are_alike():
            return self._project_self(query)
        value = query if value is None else value
        key = value if key is None else key
        return self._project(query, "query"), *self._project_keys_values(key, value)

    def _projections_are_alike(self) -> bool:
        """Whether queries, keys and values can be computed by one matrix product."""
        return (
            self.value_dim == self.head_dim
            and self.num_key_value_heads == self.num_heads
            and self.query_key_norm is None
            and not self._is_int8
        )

    def _project_self(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`_project_all` for self-attention, by one matrix product instead of three."""
        # Stacked, not joined end to end: heads may be split over devices.
        kernels = [self.matrix(name) for name in self.kernel_names[:3]]
        # Values: TensorFlow stacks no Keras variables along the first axis.
        kernels = [getattr(kernel, "value", kernel) for kernel in kernels]
        kernels = ops.stack(kernels, axis=1)
        outputs = ops.tensordot(inputs, kernels, axes=1)
        if self.use_bias:
            biases = (self.query_bias, self.key_bias, self.value_bias)
            biases = [bias.value for bias in biases]
            outputs = outputs + ops.stack(biases)
        heads = (*ops.shape(inputs)[:-1], 3, self.num_heads, self.head_dim)
        outputs = ops.reshape(outputs, heads)  # (..., T, 3, H, K)
        outputs = ops.swapaxes(ops.moveaxis(outputs, -3, 0), -3, -2)
        return ops.unstack(outputs, 3)

    def _project_keys_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return self._project(key, "key"), self._project(value, "value")

    def _merge_heads(self, outputs: Tensor) -> Tensor:
        """(..., H, T, value_dim) -> (..., T, output_dim)."""
        if self.num_heads == 1:
            outputs = ops.squeeze(outputs, -3)
        else:
            outputs = ops.swapaxes(outputs, -3, -2)
            width = self.num_heads * self.value_dim
            outputs = ops.reshape(outputs, (*ops.shape(outputs)[:-2], width))
        outputs = self.multiply(outputs, "output_kernel")
        return outputs + self.output_bias if self.use_bias else outputs

    def _joined_bias(
        self, mask: Tensor | None, bias: Tensor | None, scores_shape: Shape
    ) -> Tensor | None:
        """Mask and bias of a call as one term of the scores; None without both."""
        if bias is not None:
            name = f"{self.name}: attention_bias"
            masks.check_bias(bias, name)
            bias = masks.fitted(bias, scores_shape, name)
            if self.compute_dtype == "float16":  # to which Keras has cast it
                bias = ops.maximum(bias, masks.BLOCKED)  # -1e9 became -inf
        if mask is not None:
            name = f"{self.name}: attention_mask"
            masks.check_mask(mask, name)
            mask = masks.fitted(mask, scores_shape, name)
            bias = masks.attention_bias(mask, bias)
        return bias

    def _require_self_attention(
        self, value: Tensor | None, key: Tensor | None, keys_values: Tensors | None
    ) -> None:
        if any(other is not None for other in (value, key, keys_values)):
            what = "positional encoding"
            if self.positional_encoding is None:
                what = "window"
            raise ValueError(
                f"{self.name}: a {what} works in self-attention alone, where keys and "
                f"queries share their positions; leave out value, key and keys_values, "
                f"or the {what}"
            )

    def _is_banded(
        self, queries: Tensor, bias: Tensor | None, causal: bool, training: bool | None
    ) -> bool:
        """Whether a whole sequence is computed in blocks, not with a mask."""
        if self.window is None or len(queries.shape) != 4:
            return False
        # What is added is the same for all queries.
        by_key = bias is None or (
            bias.shape[-1] != 1 and (len(bias.shape) == 1 or bias.shape[-2] == 1)
        )
        encoding = self.positional_encoding
        by_distance = encoding is None or encoding.depends_on_distance_alone
        length = ops.shape(queries)[-2]
        return by_key and by_distance and saves(length, self.window, training, causal)

    def _attend_in_bands(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        causal: bool,
        training: bool | None,
    ) -> Tensor:
        """The output (B, H, T, value_dim) of queries (B, H, T, K), by `attend`."""
        if bias is not None:
            bias = ops.expand_dims(bias, tuple(range(4 - len(bias.shape))))
        encoding = self.positional_encoding
        return banded_attention(
            functools.partial(self.attend, training=training),
            queries,
            keys,
            values,
            self.window,
            bias=bias,
            causal=causal,
            distance_bias=None if encoding is None else encoding.bias,
        )

    def _refuse_with_cache(
        self, value_mask: Tensor | None, key_mask: Tensor | None, use_causal_mask: bool
    ) -> None:
        if value_mask is not None or key_mask is not None or use_causal_mask:
            raise ValueError(
                f"{self.name}: with a cache, only attention_mask and attention_bias "
                f"limit which keys a query attends to; leave out value_mask, key_mask "
                f"and use_causal_mask"
            )

    def _with_positions(
        self, bias: Tensor | None, query_positions: Tensor, key_positions: Tensor
    ) -> Tensor | None:
        """The bias and that of the positional encoding, if there is any."""
        own = self.positional_encoding.bias(query_positions, key_positions)
        if own is None or bias is None:
            return bias if own is None else own
        return ops.cast(bias, "float32") + ops.cast(own, "float32")


def _positions(query: Tensor, cache: Tensors | None, position: Tensor | None) -> Tensor:
    """The positions of the queries, (T,) int32; with a cache (1,), shared by all."""
    if cache is None:
        return ops.arange(0, ops.shape(query)[-2], dtype="int32")
    return ops.reshape(ops.cast(position, "int32"), (1,))
