"""Multi-head attention: one layer for all three uses the paper makes of it.

B batch, T query positions, S key positions, D hidden_dim, H heads, K head_dim,
W beam width, L length of the cache.
"""

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.layers import masks
from keras_transformer.layers.attention import additive_attention
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial_values import initializer

SCORINGS = ("scaled_dot_product", "dot_product", "additive")


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
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
        scoring: `"scaled_dot_product"`, `"dot_product"` (unscaled) or `"additive"`
            (Bahdanau: vᵀ tanh(Q W_Q + K W_K), one v per head).
        kernel_initializer: of the four projections.

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
        cache: keys (B, W, H, L, K) and values (B, W, H, L, value_dim): each of the
            W = T queries is the next position of a hypothesis with a cache of its
            own, its key and value are written at `position` and it attends to the
            cache. Mask and bias are (1, L), (B, 1, L) or broadcast to (B, W, H, 1, L)
            with five axes. Or keys (B, H, L * T, K) and values
            (B, H, L * T, value_dim) that the T queries share: theirs are written from
            place `position` * T on, and mask and bias (B, H, T, L * T) say which they
            may see.
        position: scalar int32, where the cache is written.
        return_attention_weights: also return them.

    Returns:
        The output (B, T, output_dim); with a cache, the output and the new cache;
        with `return_attention_weights`, also the weights (B, H, T, S) in float32.

    Raises:
        ValueError: mask or bias has another dtype or shape.

    Masking: Keras masks are neither read nor produced. A query for which everything
    is blocked gives a finite but meaningless output.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import MultiHeadAttention
    >>> attention = MultiHeadAttention(num_heads=2, head_dim=8)
    >>> tuple(attention(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.2.
    """

    def __init__(
        self,
        num_heads,
        head_dim,
        value_dim=None,
        output_dim=None,
        dropout=0.0,
        use_bias=False,
        scoring="scaled_dot_product",
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        if scoring not in SCORINGS:
            raise ValueError(
                f"scoring must be one of {', '.join(SCORINGS)}, got {scoring!r}"
            )
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_dim = value_dim or head_dim
        self.output_dim = output_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.scoring = scoring
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.weights_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="weights_dropout"
        )

    def build(self, query_shape, value_shape=None, key_shape=None):
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        output_dim = self.output_dim or query_shape[-1]
        keys, values = self.num_heads * self.head_dim, self.num_heads * self.value_dim
        self.query_kernel = self._kernel("query", query_shape[-1], keys)
        self.key_kernel = self._kernel("key", key_shape[-1], keys)
        self.value_kernel = self._kernel("value", value_shape[-1], values)
        self.output_kernel = self._kernel("output", values, output_dim)
        if self.use_bias:
            self.query_bias = self._bias("query", keys)
            self.key_bias = self._bias("key", keys)
            self.value_bias = self._bias("value", values)
            self.output_bias = self._bias("output", output_dim)
        if self.scoring == "additive":
            self.score_weights = self.add_weight(
                name="score_weights",
                shape=(self.num_heads, 1, 1, self.head_dim),
                initializer=initializer("glorot_uniform"),
            )

    def call(
        self,
        query,
        value=None,
        key=None,
        attention_mask=None,
        attention_bias=None,
        keys_values=None,
        cache=None,
        position=None,
        return_attention_weights=False,
        training=None,
    ):
        beams = cache is not None and len(cache[0].shape) == 5
        if beams:
            query = ops.expand_dims(query, 2)  # (B, W, 1, D)
        if keys_values is not None:
            queries = self._project(query, "query")
            keys, values = keys_values
        else:
            # Kernels are joined anew at each call: little to the rest of a training
            # step, and to a search whose backend does it once, before the loop.
            joined = training or (cache is not None and backends.hoists_invariants)
            queries, keys, values = self._project_all(query, key, value, joined)
        if cache is not None:
            keys = backends.update_cache(cache[0], keys, position)
            values = backends.update_cache(cache[1], values, position)
        scores_shape = (*queries.shape[:-1], keys.shape[-2])
        bias = self._joined_bias(attention_mask, attention_bias, scores_shape)
        output, weights = self._attend(queries, keys, values, bias, training)
        output = self._merge_heads(output)
        if beams:
            output = ops.squeeze(output, 2)  # (B, W, D)
        returns = [output]
        if cache is not None:
            returns.append((keys, values))
        if return_attention_weights:
            returns.append(weights)
        return returns[0] if len(returns) == 1 else tuple(returns)

    def project_memory(self, memory):
        """Keys (B, H, S, K) and values (B, H, S, value_dim) of (B, S, D')."""
        return self._project_keys_values(memory, memory)

    def compute_output_spec(
        self, query, value=None, *, return_attention_weights=False, **kwargs
    ):
        if any(kwargs.get(name) is not None for name in ("cache", "keys_values")):
            kwargs["return_attention_weights"] = return_attention_weights
            return keras.Operation.compute_output_spec(self, query, value, **kwargs)
        self._joined_bias(
            kwargs.get("attention_mask"),
            kwargs.get("attention_bias"),
            self.attention_weights_spec(query, value).shape,
        )
        shape = self.compute_output_shape(query.shape)
        output = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not return_attention_weights:
            return output
        return output, self.attention_weights_spec(query, value)

    def attention_weights_spec(self, query, value=None):
        """Symbolic (B, H, T, S) of a call without a cache."""
        length = (query if value is None else value).shape[-2]
        shape = (*query.shape[:-2], self.num_heads, query.shape[-2], length)
        return keras.KerasTensor(shape, dtype="float32")

    def compute_output_shape(self, query_shape, value_shape=None, key_shape=None):
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "scoring": self.scoring,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def _kernel(self, name, rows, columns):
        # A clone each: one initializer object would give equal values to equal shapes.
        return self.add_weight(
            name=f"{name}_kernel",
            shape=(rows, columns),
            initializer=initializer(self.kernel_initializer.clone()),
        )

    def _bias(self, name, size):
        return self.add_weight(name=f"{name}_bias", shape=(size,), initializer="zeros")

    def _project(self, inputs, name):
        """(..., T, D) -> (..., H, T, size of a head)."""
        outputs = ops.matmul(inputs, getattr(self, f"{name}_kernel"))
        if self.use_bias:
            outputs = outputs + getattr(self, f"{name}_bias")
        if self.num_heads == 1:
            return ops.expand_dims(outputs, -3)
        size = self.value_dim if name == "value" else self.head_dim
        heads = (*ops.shape(inputs)[:-1], self.num_heads, size)
        outputs = ops.reshape(outputs, heads)
        return ops.swapaxes(outputs, -3, -2)

    def _project_all(self, query, key, value, joined):
        """Queries (..., H, T, K), keys (..., H, S, K) and values of layer inputs."""
        alone = key is None and value is None
        if alone and joined and self.value_dim == self.head_dim:
            return self._project_self(query)
        value = query if value is None else value
        key = value if key is None else key
        return self._project(query, "query"), *self._project_keys_values(key, value)

    def _project_self(self, inputs):
        """The same of self-attention, by one product instead of three."""
        # Stacked, not joined end to end: heads may be split over devices.
        kernels = (self.query_kernel, self.key_kernel, self.value_kernel)
        # Values: TensorFlow stacks no Keras variables along the first axis.
        kernels = ops.stack([kernel.value for kernel in kernels], axis=1)
        outputs = ops.tensordot(inputs, kernels, axes=1)
        if self.use_bias:
            biases = (self.query_bias, self.key_bias, self.value_bias)
            biases = [bias.value for bias in biases]
            outputs = outputs + ops.stack(biases)
        heads = (*ops.shape(inputs)[:-1], 3, self.num_heads, self.head_dim)
        outputs = ops.reshape(outputs, heads)  # (..., T, 3, H, K)
        outputs = ops.swapaxes(ops.moveaxis(outputs, -3, 0), -3, -2)
        return ops.unstack(outputs, 3)

    def _project_keys_values(self, key, value):
        return self._project(key, "key"), self._project(value, "value")

    def _merge_heads(self, outputs):
        """(..., H, T, value_dim) -> (..., T, output_dim)."""
        if self.num_heads == 1:
            outputs = ops.squeeze(outputs, -3)
        else:
            outputs = ops.swapaxes(outputs, -3, -2)
            width = self.num_heads * self.value_dim
            outputs = ops.reshape(outputs, (*ops.shape(outputs)[:-2], width))
        outputs = ops.matmul(outputs, self.output_kernel)
        return outputs + self.output_bias if self.use_bias else outputs

    def _joined_bias(self, mask, bias, scores_shape):
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

    def _attend(self, queries, keys, values, bias, training):
        def dropout(weights):
            return self.weights_dropout(weights, training=training)

        dropout = dropout if self.dropout and training else None
        if self.scoring == "additive":
            return additive_attention(
                queries, keys, values, self.score_weights, bias, dropout
            )
        scale = 1.0 if self.scoring == "dot_product" else None
        return scaled_dot_product_attention(queries, keys, values, bias, scale, dropout)
