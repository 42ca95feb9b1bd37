"""A `TransformerSpec` of CTranslate2, filled from our weights.

B batch, D hidden_dim, F intermediate_dim, H heads, K head_dim, V vocabulary.

CTranslate2 keeps a matrix as (outputs, inputs), query, key and value projections of
one input as one matrix, and takes tables of positions as they are.
"""

from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.hiding import hidden
from keras_transformer.layers import sinusoidal_table
from keras_transformer.models.positions import LAYOUTS
from keras_transformer.models.word_attention import word_layer

_ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "gelu_sigmoid": "GELUSigmoid",
    "swish": "SWISH",
}
#: Fields of the config whose other values the library cannot compute.
_ONLY_AS_THE_PAPER = (
    "attention_window",
    "attention_scoring",
    "query_key_norm",
    "num_key_value_heads",
    "normalization_layer",
    "feed_forward",
    "feed_forward_bias",
    "deep_norm",
    "scale_logits",
)


def check_config(config: TransformerConfig) -> None:
    """Refuses a model with a part that CTranslate2 does not have.

    Raises:
        InputError: with the fields of the config.
    """
    plain = TransformerConfig(vocabulary_size=config.target_vocabulary_size)
    lacking = {
        name: getattr(config, name)
        for name in _ONLY_AS_THE_PAPER
        if getattr(config, name) != getattr(plain, name)
    }
    if config.position not in (*LAYOUTS, "learned"):
        lacking["position"] = config.position
    if config.sizes("encoder")[1:] != config.sizes("decoder")[1:]:
        lacking["decoder_num_heads"] = config.sizes("decoder").num_heads
    if lacking:
        fields = ", ".join(f"{name} {value}" for name, value in lacking.items())
        raise InputError(
            f"the export to CTranslate2 does not have {fields}; export to saved_model, "
            f"onnx or litert"
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
        config: of the model, without `attention_window`.
        weights: `{path: float32 array}`, see `models.weights`.
        source_pieces: the spelling of each source id.
        target_pieces: the spelling of each target id.
        unknown_id: the target id of what the tokenizer cannot spell.
    """
    # The specifications import PyTorch where they find it, though nothing here needs
    # it, and loading it after TensorFlow can crash the process.
    with hidden("torch"):
        from ctranslate2.specs import Activation
        from ctranslate2.specs import TransformerSpec

        spec = TransformerSpec.from_config(
            (config.num_encoder_layers, config.num_decoder_layers),
            config.num_heads,
            # A specification has a final norm under pre-norm alone; the library, which
            # reads them apart, takes one in either case.
            pre_norm=True,
            no_final_norm=not config.final_norm,
            activation=getattr(Activation, _ACTIVATIONS[config.activation]),
            layernorm_embedding=config.embedding_norm,
            # What it calls attention: as `word_attention` has it, of all heads (0).
            alignment_layer=word_layer(config.num_decoder_layers),
            alignment_heads=0,
        )
    _Filling(config, weights).fill(spec)
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


class _Filling:
    """Puts `{path: array}` of a model where CTranslate2 wants it."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = weights
        self.size = max(config.head_dim, config.value_dim)

    def fill(self, spec):
        config = self.config
        for side, part, stack in (
            ("source", spec.encoder, "encoder"),
            ("target", spec.decoder, "decoder"),
        ):
            part.pre_norm = config.normalize_first
            part.scale_embeddings = config.scale_embeddings
            part.position_encodings.encodings = self._positions(side)
            if config.final_norm:
                self._norm(part.layer_norm, f"{stack}_norm")
            if config.embedding_norm:
                self._norm(part.layernorm_embedding, f"{side}_embedding_norm")
            for index, layer in enumerate(part.layer):
                self._layer(layer, f"{stack}_{index}")
        spec.encoder.embeddings[0].weight = self._embedding("source")
        spec.decoder.embeddings.weight = self._embedding("target")
        spec.decoder.projection.weight = self._embedding("output")
        if config.output_bias:
            spec.decoder.projection.bias = self._embedding("output", "bias")

    def _embedding(self, side, name="embeddings"):
        tied = self.config.tie_embeddings
        if tied == "all":
            return self.weights[f"embedding/{name}"]
        if tied == "target" and side == "output":
            side = "target"
        if tied == "inputs" and side != "output":
            side = "input"
        return self.weights[f"{side}_embedding/{name}"]

    def _positions(self, side):
        """The table of positions (longest sequence, D)."""
        config = self.config
        if config.position == "learned":
            table = self.weights[f"{side}_position/embeddings"]
            return table[config.position_offset :]
        return sinusoidal_table(
            config.longest_sequence,
            config.hidden_dim,
            LAYOUTS[config.position],
            config.position_offset,
        )

    def _layer(self, layer, path):
        self._attention(layer.self_attention, f"{path}/self_attention")
        if hasattr(layer, "attention"):
            self._attention(layer.attention, f"{path}/cross_attention")
        self._linear(layer.ffn.linear_0, *self._inner(path, "inner"))
        self._linear(layer.ffn.linear_1, *self._inner(path, "outer"))
        self._norm(layer.ffn.layer_norm, f"{path}/feed_forward_residual/norm")

    def _inner(self, path, name):
        path = f"{path}/feed_forward/{name}"
        return self.weights[f"{path}_kernel"], self.weights[f"{path}_bias"]

    def _attention(self, attention, path):
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
        kernel = self._pad(kernel.T, self.config.value_dim).T
        bias = self.weights.get(f"{path}/output_bias")
        self._linear(attention.linear[-1], kernel, bias)
        self._norm(attention.layer_norm, f"{path}_residual/norm")
        # The library would take 1 / √(D / H).
        attention.queries_scale = np.float32(self.config.head_dim**-0.5)

    def _heads(self, path, name, part):
        """A kernel (D, H * size) or bias (H * size,) of a projection; None: no bias."""
        array = self.weights.get(f"{path}/{name}_{part}")
        size = self.config.value_dim if name == "value" else self.config.head_dim
        return None if array is None else self._pad(array, size)

    def _pad(self, array, size):
        """(..., H * size) -> (..., H * self.size).

        The library has one size for keys and values; zeros change no product.
        """
        leading = array.shape[:-1]
        array = array.reshape(*leading, self.config.num_heads, size)
        padding = [(0, 0)] * (array.ndim - 1) + [(0, self.size - size)]
        return np.pad(array, padding).reshape(*leading, -1)

    def _linear(self, linear, kernel, bias):
        linear.weight = np.ascontiguousarray(kernel.T)
        if bias is not None:
            linear.bias = bias

    def _norm(self, norm, path):
        norm.gamma = self.weights[f"{path}/gamma"]
        norm.beta = self.weights[f"{path}/beta"]
