"""A `TransformerSpec` of CTranslate2, filled from our weights.

B batch, D hidden_dim, F intermediate_dim, H heads, K head_dim, V vocabulary.

CTranslate2 keeps a matrix as (outputs, inputs), query, key and value projections of
one input as one matrix, and takes tables of positions as they are.
"""

from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.config.transformer import StackSizes
from keras_transformer.errors import InputError
from keras_transformer.hiding import hidden
from keras_transformer.models.word_attention import word_layer
from keras_transformer.position_tables import LAYOUTS
from keras_transformer.position_tables import bucket_starts
from keras_transformer.position_tables import sinusoidal_table

_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "gelu_sigmoid": "GELUSigmoid",
    "swish": "SWISH",
}
_ROTARY = ("rotary", "rotary_halves")
_POSITIONS = (*LAYOUTS, "learned", *_ROTARY, "relative_buckets", "none")
_SCORINGS = ("scaled_dot_product", "dot_product")


def check_config(config: TransformerConfig) -> None:
    """Refuses a model with a part that CTranslate2 does not have.

    Raises:
        InputError: with the fields of the config.
    """
    absent = {
        "attention_scoring": config.attention_scoring not in _SCORINGS,
        "attention_window": config.attention_window is not None,
        "decoder": config.decoder != "attention",
        "deep_norm": config.deep_norm,
        "position": config.position not in _POSITIONS,
        "query_key_norm": config.query_key_norm,  # of cross-attention
    }
    lacking = [f"{name} {getattr(config, name)}" for name in absent if absent[name]]
    if lacking:
        raise InputError(
            f"the export to CTranslate2 does not have {', '.join(lacking)}; export to "
            f"saved_model, onnx or litert"
        )


def specification(
    config: TransformerConfig,
    weights: dict[str, np.ndarray],
    source_pieces: list[str],
    target_pieces: list[str],
    unknown_id: int,
) -> Any:
    """The specification of a model, with vocabularies and config.

    Args:
        config: of the model, one that `check_config` takes.
        weights: `{path: float32 array}`, see `models.weights`.
        source_pieces: the spelling of each source id.
        target_pieces: the spelling of each target id.
        unknown_id: the target id of what the tokenizer cannot spell.
    """
    # The specifications import PyTorch where they find it, though nothing here needs
    # it, and loading it after TensorFlow can crash the process.
    with hidden("torch"):
        from ctranslate2.specs import TransformerDecoderSpec
        from ctranslate2.specs import TransformerEncoderSpec
        from ctranslate2.specs import TransformerSpec

        spec = TransformerSpec(
            TransformerEncoderSpec(
                config.num_encoder_layers, **_options(config, "encoder")
            ),
            TransformerDecoderSpec(
                config.num_decoder_layers,
                **_options(config, "decoder"),
                # What it calls attention: as `word_attention` has it, of all heads (0).
                alignment_layer=word_layer(config.num_decoder_layers),
                alignment_heads=0,
            ),
        )
    _fill(spec, config, weights)
    spec.register_source_vocabulary(source_pieces)
    spec.register_target_vocabulary(target_pieces)
    spec.config.unk_token = target_pieces[unknown_id]
    spec.config.bos_token = target_pieces[config.start_id]
    spec.config.eos_token = target_pieces[config.end_id]
    spec.config.decoder_start_token = target_pieces[config.start_id]
    spec.config.add_source_bos = False
    spec.config.add_source_eos = config.source_end
    spec.config.add_attribute("layer_norm_epsilon", config.layer_norm_epsilon)
    spec.validate()
    return spec


def _options(config: TransformerConfig, stack: str) -> dict[str, Any]:
    """What the library wants to know of a stack before it has the weights."""
    from ctranslate2.specs import Activation

    sizes = config.sizes(stack)
    options = {
        "num_heads": sizes.num_heads,
        # A specification has a final norm under pre-norm alone; the library, which
        # reads them apart, takes one in either case.
        "pre_norm": True,
        "no_final_norm": not config.final_norm,
        "activation": getattr(Activation, _ACTIVATIONS[config.activation]),
        "layernorm_embedding": config.embedding_norm,
        "rms_norm": config.normalization_layer == "rms",
        "ffn_glu": config.feed_forward == "gated",
        "relative_attention_bias": config.position == "relative_buckets",
    }
    if sizes.num_key_value_heads < sizes.num_heads:
        options["num_heads_kv"] = sizes.num_key_value_heads
        options["head_dim"] = _head_size(sizes)
    if config.position in _ROTARY:
        options["rotary_dim"] = sizes.head_dim
        options["rotary_interleave"] = config.position == "rotary"
        options["rotary_base"] = config.rotary_base
    return options


def _head_size(sizes: StackSizes) -> int:
    """The library has one size for keys and values."""
    return max(sizes.head_dim, sizes.value_dim)


def _fill(spec: Any, config: TransformerConfig, weights: dict[str, np.ndarray]) -> None:
    """Puts `{path: array}` of a model where CTranslate2 wants it."""
    encoder = _Filling(config, weights, "encoder")
    decoder = _Filling(config, weights, "decoder")
    encoder.fill(spec.encoder)
    decoder.fill(spec.decoder)
    spec.encoder.embeddings[0].weight = encoder.embedding("source")
    spec.decoder.embeddings.weight = decoder.embedding("target")
    spec.decoder.projection.weight = decoder.embedding("output")
    if config.output_bias:
        spec.decoder.projection.bias = decoder.embedding("output", "bias")
    if config.scale_logits:
        spec.decoder.scale_outputs = np.float32(config.hidden_dim**-0.5)


class _Filling:
    """Puts the weights of one stack, `"encoder"` or `"decoder"`, into its part."""

    def __init__(
        self, config: TransformerConfig, weights: dict[str, np.ndarray], stack: str
    ) -> None:
        self.config = config
        self.weights = weights
        self.stack = stack
        self.side = "source" if stack == "encoder" else "target"
        self.sizes = config.sizes(stack)
        self.size = _head_size(self.sizes)

    def fill(self, part: Any) -> None:
        config = self.config
        part.pre_norm = config.normalize_first
        part.scale_embeddings = config.scale_embeddings
        if config.position not in (*_ROTARY, "relative_buckets"):
            part.position_encodings.encodings = self._positions()
        if config.final_norm:
            self._norm(part.layer_norm, f"{self.stack}_norm")
        if config.embedding_norm:
            self._norm(part.layernorm_embedding, f"{self.side}_embedding_norm")
        for index, layer in enumerate(part.layer):
            self._layer(layer, f"{self.stack}_{index}")

    def embedding(self, side: str, name: str = "embeddings") -> np.ndarray:
        tied = self.config.tie_embeddings
        if tied == "all":
            return self.weights[f"embedding/{name}"]
        if tied == "target" and side == "output":
            side = "target"
        if tied == "inputs" and side != "output":
            side = "input"
        return self.weights[f"{side}_embedding/{name}"]

    def _positions(self) -> np.ndarray:
        """The table of positions (longest sequence, D)."""
        config = self.config
        if config.position == "learned":
            table = self.weights[f"{self.side}_position/embeddings"]
            return table[config.position_offset :]
        if config.position == "none":  # without a table the library has its own
            return np.zeros((config.longest_sequence, config.hidden_dim), np.float32)
        return sinusoidal_table(
            config.longest_sequence,
            config.hidden_dim,
            LAYOUTS[config.position],
            config.position_offset,
        )

    def _layer(self, layer: Any, path: str) -> None:
        self._attention(layer.self_attention, f"{path}/self_attention")
        if self.config.position == "relative_buckets":
            self._relative_buckets(layer.self_attention)
        if hasattr(layer, "attention"):
            self._attention(layer.attention, f"{path}/cross_attention")
        if self.config.feed_forward == "gated":  # its first projection is the gate
            self._linear(layer.ffn.linear_0, *self._inner(path, "gate"))
            self._linear(layer.ffn.linear_0_noact, *self._inner(path, "inner"))
        else:
            self._linear(layer.ffn.linear_0, *self._inner(path, "inner"))
        self._linear(layer.ffn.linear_1, *self._inner(path, "outer"))
        self._norm(layer.ffn.layer_norm, f"{path}/feed_forward_residual/norm")

    def _inner(self, path: str, name: str) -> tuple[np.ndarray, np.ndarray | None]:
        path = f"{path}/feed_forward/{name}"
        return self.weights[f"{path}_kernel"], self.weights.get(f"{path}_bias")

    def _attention(self, attention: Any, path: str) -> None:
        projections = [
            (self._heads(path, name, "kernel"), self._heads(path, name, "bias"))
            for name in ("query", "key", "value")
        ]
        # Self-attention has them in one matrix, cross-attention its query apart.
        first = 3 if path.endswith("self_attention") else 1
        groups = [projections[:first], projections[first:]]
        for linear, group in zip(attention.linear[:-1], groups, strict=False):
            kernels, biases = zip(*group, strict=True)
            bias = None if biases[0] is None else np.concatenate(biases)
            self._linear(linear, np.concatenate(kernels, axis=1), bias)
        kernel = self.weights[f"{path}/output_kernel"]  # (H * value_dim, D)
        kernel = self._pad(kernel.T, self.sizes.value_dim).T
        bias = self.weights.get(f"{path}/output_bias")
        self._linear(attention.linear[-1], kernel, bias)
        self._norm(attention.layer_norm, f"{path}_residual/norm")
        # The library would take 1 / √(D / H).
        scaled = self.config.attention_scoring == "scaled_dot_product"
        scale = self.sizes.head_dim**-0.5 if scaled else 1.0
        attention.queries_scale = np.float32(scale)

    def _relative_buckets(self, attention: Any) -> None:
        """A bucket for each distance, up to that from which on all share the last.

        The library's own rounding at the ends of ranges then decides nothing: the
        first half of its buckets hold a distance each, the others are all alike.
        """
        config, causal = self.config, self.stack == "decoder"
        size = config.num_relative_buckets // (1 if causal else 2)  # of a direction
        largest = min(config.max_relative_distance, config.longest_sequence)
        starts = bucket_starts(size, config.max_relative_distance)[1:]
        distances = np.minimum(np.arange(2 * largest), largest)
        buckets = np.searchsorted(starts, distances, side="right")
        if not causal:  # and the same of what comes later
            buckets = np.concatenate([buckets, buckets + size])
        table = self.weights[f"{self.side}_position/embeddings"]
        attention.relative_attention_bias = table[buckets]
        attention.relative_attention_max_distance = np.int32(2 * largest)

    def _heads(self, path: str, name: str, part: str) -> np.ndarray | None:
        """A kernel (D, heads * size) or bias of a projection; None: no bias."""
        array = self.weights.get(f"{path}/{name}_{part}")
        size = self.sizes.value_dim if name == "value" else self.sizes.head_dim
        return None if array is None else self._pad(array, size)

    def _pad(self, array: np.ndarray, size: int) -> np.ndarray:
        """(..., heads * size) -> (..., heads * self.size); zeros change no product."""
        leading = array.shape[:-1]
        array = array.reshape(*leading, -1, size)
        padding = [(0, 0)] * (array.ndim - 1) + [(0, self.size - size)]
        return np.pad(array, padding).reshape(*leading, -1)

    def _linear(self, linear: Any, kernel: np.ndarray, bias: np.ndarray | None) -> None:
        linear.weight = np.ascontiguousarray(kernel.T)
        if bias is not None:
            linear.bias = bias

    def _norm(self, norm: Any, path: str) -> None:
        if self.config.normalization_layer == "rms":
            norm.gamma = self.weights[f"{path}/scale"]
            return
        norm.gamma = self.weights[f"{path}/gamma"]
        norm.beta = self.weights[f"{path}/beta"]
