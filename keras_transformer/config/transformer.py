"""Architecture of a Transformer: its sizes, and the presets of the paper.

D hidden_dim (the paper's d_model), F intermediate_dim (d_ff), H num_heads (h),
K head_dim (d_k), G num_key_value_heads, N layers, V vocabulary size.
"""

from __future__ import annotations

from typing import Any
from typing import ClassVar
from typing import Literal
from typing import NamedTuple

import pydantic

from keras_transformer.config.positions import POSITIONS
from keras_transformer.config.translation import LEFT_OUT
from keras_transformer.config.translation import FilledBool
from keras_transformer.config.translation import FilledSize
from keras_transformer.config.translation import Rate
from keras_transformer.config.translation import Size
from keras_transformer.config.translation import TranslationConfig

_BASE: dict[str, Any] = {}  # the defaults of TransformerConfig are the paper's base
_BIG = {"hidden_dim": 1024, "intermediate_dim": 4096, "num_heads": 16, "dropout": 0.3}
_TINY = {
    "hidden_dim": 128,
    "intermediate_dim": 256,
    "num_heads": 4,
    "num_encoder_layers": 4,
    "num_decoder_layers": 4,
    "dropout": 0.3,
}


def _layers(count: int) -> dict[str, int]:
    return {"num_encoder_layers": count, "num_decoder_layers": count}


#: `tiny` is the published Multi30k text-only model; `base` and `big` are the paper's;
#: the names with a letter are the rows of its Table 3 (rows D that change label
#: smoothing change `training.label_smoothing`, not the model).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _TINY,
    "base": _BASE,
    "big": _BIG,
    "a-1-head": {"num_heads": 1},
    "a-4-heads": {"num_heads": 4},
    "a-16-heads": {"num_heads": 16},
    "a-32-heads": {"num_heads": 32},
    "b-head-dim-16": {"head_dim": 16, "value_dim": 64},
    "b-head-dim-32": {"head_dim": 32, "value_dim": 64},
    "c-2-layers": _layers(2),
    "c-4-layers": _layers(4),
    "c-8-layers": _layers(8),
    "c-hidden-256": {"hidden_dim": 256, "head_dim": 32, "value_dim": 32},
    "c-hidden-1024": {"hidden_dim": 1024, "head_dim": 128, "value_dim": 128},
    "c-intermediate-1024": {"intermediate_dim": 1024},
    "c-intermediate-4096": {"intermediate_dim": 4096},
    "d-dropout-0.0": {"dropout": 0.0},
    "d-dropout-0.2": {"dropout": 0.2},
    "e-learned-positions": {"position": "learned"},
}


class StackSizes(NamedTuple):
    """The sizes of the blocks of one side, encoder or decoder."""

    intermediate_dim: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    value_dim: int


class TransformerConfig(TranslationConfig):
    """The architecture of a `Transformer`; the defaults are the paper's `base`.

    Raises:
        InputError: from `from_preset` and `from_dict`, naming the field.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer import TransformerConfig
    >>> config = TransformerConfig.from_preset("base", vocabulary_size=37_000)
    >>> config.head_dim, config.num_weights
    (64, 63045632)

    Reference: Vaswani et al., 2017, [Attention Is All You Need](
    https://arxiv.org/abs/1706.03762), section 3 and Table 3.
    """

    kind: ClassVar[str] = "transformer"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    intermediate_dim: Size = 2048
    """Feed-forward dimension F (d_ff): the inner width of the feed-forward layer."""
    num_heads: Size = 8
    """Attention heads H (h) of every attention layer."""
    head_dim: FilledSize = LEFT_OUT
    """Head size K (d_k) of queries and keys; D / H if left out."""
    value_dim: FilledSize = LEFT_OUT
    """Head size of values (d_v); D / H if left out."""
    num_key_value_heads: Size | None = None
    """Key/value heads G, which divide H: so many heads of keys and values, each shared
    by H / G heads of queries (grouped-query attention; 1 is multi-query attention); H
    if left out."""
    attention_scoring: Literal["scaled_dot_product", "dot_product", "additive"] = (
        "scaled_dot_product"
    )
    """Attention scoring: `"scaled_dot_product"` (the paper), `"dot_product"` (without
    the scale, as T5) or `"additive"` (Bahdanau et al.)."""
    query_key_norm: bool = False
    """Query-key normalization of each head's queries and keys, with weights of K."""
    feed_forward: Literal["plain", "gated"] = "plain"
    """Feed-forward layer: `"plain"` (the paper) or `"gated"` (a gated linear unit:
    GEGLU or SwiGLU, by the activation)."""
    feed_forward_bias: bool = True
    """Feed-forward biases."""
    activation: Literal["relu", "gelu", "gelu_tanh", "gelu_sigmoid", "swish"] = "relu"
    """Activation function of the feed-forward layer: `"relu"`, `"gelu"`, `"gelu_tanh"`
    and `"gelu_sigmoid"` (its two approximations) or `"swish"`."""
    decoder_intermediate_dim: Size | None = None
    """Feed-forward dimension of the decoder, where it is not that of the encoder."""
    decoder_num_heads: Size | None = None
    """Attention heads of the decoder, where they are not those of the encoder."""
    decoder_num_key_value_heads: Size | None = None
    """Key/value heads of the decoder; without `decoder_num_heads` those of the encoder,
    with it as many as that, if left out."""
    decoder_head_dim: Size | None = None
    """Head size of queries and keys of the decoder; without `decoder_num_heads` that of
    the encoder, with it D / H, if left out."""
    decoder_value_dim: Size | None = None
    """Head size of values of the decoder; if left out, as for `decoder_head_dim`."""
    attention_dropout: Rate = 0.0
    """Attention dropout rate, on the attention weights."""
    activation_dropout: Rate = 0.0
    """Activation dropout rate, on the inner activations of the feed-forward layer."""
    normalize_first: bool = False
    """Pre-norm (True) or the paper's post-norm (False): normalization before each
    sublayer, or after its residual sum."""
    normalization_layer: Literal["layer", "rms"] = "layer"
    """Normalization layer: `"layer"` (layer normalization, the paper) or `"rms"`
    (RMSNorm), with `layer_norm_epsilon`."""
    deep_norm: bool = False
    """DeepNorm, for post-norm of many layers: scaled residual connections and smaller
    initial values, both by the number of layers."""
    final_norm: FilledBool = LEFT_OUT
    """Final layer normalization after the last block of each stack; the value of
    `normalize_first` if left out."""
    embedding_norm: bool = False
    """Embedding normalization: layer normalization of the sums of embeddings and
    positions."""
    use_bias: bool = False
    """Attention biases, in the attention projections (the paper has none)."""
    decoder: Literal["attention", "ssru"] = "attention"
    """Decoder recurrence: `"attention"` (none: self-attention, the paper) or `"ssru"`
    (a simpler simple recurrent unit in place of self-attention, as in Marian's small
    models: a step of a search costs the same at every position)."""
    position: str = "sinusoidal"
    """Positional encoding: `"sinusoidal"` (sine and cosine interleaved, the paper),
    `"sinusoidal_halves"` (all sines, then all cosines), `"sinusoidal_halves_t2t"` (the
    same with exponent i / (D/2 - 1)), `"learned"`, `"rotary"` (RoPE, neighbours are
    pairs), `"rotary_halves"` (RoPE, pairs of both halves), `"relative_buckets"` (a bias
    on the attention scores by distance, T5) or `"none"`; or a name of your own, see
    `models.register_position`."""
    rotary_base: pydantic.PositiveFloat = 10_000.0
    """RoPE base (theta) of the angular frequencies of rotary positions."""
    num_relative_buckets: Size = 32
    """Relative position buckets, of both directions together."""
    max_relative_distance: Size = 128
    """Relative distance beyond which all positions share the last bucket."""
    position_offset: pydantic.NonNegativeInt = 0
    """Position offset, added to every position of sinusoids and learned tables."""
    attention_window: Size | None = None
    """Attention window (local, restricted self-attention): how far to either side a
    position may attend; None is unrestricted."""
    scale_logits: bool = False
    """Logit scale: multiply the decoder's output by 1 / √D before the logits, as T5
    does with tied embeddings."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        """Fills in the fields whose default depends on others."""
        if not isinstance(fields, dict):
            return fields
        fields = dict(fields)
        if fields.get("final_norm") is None:
            fields["final_norm"] = fields.get("normalize_first", False)
        hidden_dim = fields.get("hidden_dim", cls.model_fields["hidden_dim"].default)
        num_heads = fields.get("num_heads", cls.model_fields["num_heads"].default)
        for name in ("head_dim", "value_dim"):
            if fields.get(name) is not None:
                continue
            if not (isinstance(hidden_dim, int) and isinstance(num_heads, int)):
                continue  # the field's own validation says what is wrong
            if num_heads > 0 and hidden_dim % num_heads:
                raise ValueError(
                    f"num_heads {num_heads} does not divide hidden_dim {hidden_dim}; "
                    f"choose another number of heads, or give head_dim and value_dim"
                )
            fields[name] = hidden_dim // max(num_heads, 1)
        return fields

    @pydantic.model_validator(mode="after")
    def _check(self) -> TransformerConfig:
        if self.position not in POSITIONS:
            raise ValueError(
                f"position must be one of {', '.join(POSITIONS)}, or a name given to "
                f"keras_transformer.models.register_position before, by a module that "
                f"--import names, got {self.position!r}"
            )
        if self.hidden_dim % 2 and self.position.startswith("sinusoidal"):
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is odd, but sinusoidal positions pair "
                f'sines with cosines; use an even hidden_dim or position "learned"'
            )
        for side in ("encoder", "decoder"):
            self._check_sizes(self.sizes(side))
        if self.deep_norm and self.normalize_first:
            raise ValueError(
                "deep_norm is a scaled post-norm, and normalize_first asks for "
                "pre-norm; leave out one of them"
            )
        if self.decoder == "ssru":
            self._check_ssru()
        return self

    def _check_ssru(self) -> None:
        if self.position in ("rotary", "rotary_halves", "relative_buckets"):
            raise ValueError(
                f"position {self.position} works within self-attention, which a "
                f"decoder ssru does not have; use sinusoidal, learned or none"
            )
        if self.attention_window is not None:
            raise ValueError(
                "attention_window is a limit of self-attention, which a decoder ssru "
                "does not have; leave out one of them"
            )

    def _check_sizes(self, sizes: StackSizes) -> None:
        if sizes.num_heads % sizes.num_key_value_heads:
            raise ValueError(
                f"num_key_value_heads {sizes.num_key_value_heads} does not divide "
                f"num_heads {sizes.num_heads}"
            )
        if self.position.startswith("rotary") and sizes.head_dim % 2:
            raise ValueError(
                f"head_dim {sizes.head_dim} is odd, but rotary positions turn pairs of "
                f"components; use an even head_dim or another position"
            )
        if self.position != "relative_buckets":
            return
        if self.num_relative_buckets % 4:
            raise ValueError(
                f"num_relative_buckets must be a multiple of 4, got "
                f"{self.num_relative_buckets}"
            )
        if self.max_relative_distance <= self.num_relative_buckets // 2:
            raise ValueError(
                f"max_relative_distance must be more than half of the "
                f"{self.num_relative_buckets} buckets, got {self.max_relative_distance}"
            )

    def sizes(self, side: str) -> StackSizes:
        """The sizes of the blocks of `"encoder"` or `"decoder"`."""
        heads = self.num_heads
        groups = self.num_key_value_heads or heads
        key, value = self.head_dim, self.value_dim
        if side == "encoder":
            return StackSizes(self.intermediate_dim, heads, groups, key, value)
        if self.decoder_num_heads is not None:
            heads = groups = self.decoder_num_heads
            key = value = self._head_size(heads)
        return StackSizes(
            self.decoder_intermediate_dim or self.intermediate_dim,
            heads,
            self.decoder_num_key_value_heads or groups,
            self.decoder_head_dim or key,
            self.decoder_value_dim or value,
        )

    def _head_size(self, num_heads: int) -> int:
        size, rest = divmod(self.hidden_dim, num_heads)
        if rest and not (self.decoder_head_dim and self.decoder_value_dim):
            raise ValueError(
                f"decoder_num_heads {num_heads} does not divide hidden_dim "
                f"{self.hidden_dim}; choose another number of heads, or give "
                f"decoder_head_dim and decoder_value_dim"
            )
        return size

    def deep_norm_factors(self, side: str) -> tuple[float, float]:
        """The scale α of a residual stream and the gain β of initial values; 1 and 1.

        Reference: Wang et al., 2022, https://arxiv.org/abs/2203.00555, figure 2.
        """
        if not self.deep_norm:
            return 1.0, 1.0
        encoder, decoder = self.num_encoder_layers, self.num_decoder_layers
        if side == "encoder":
            layers = encoder**4 * decoder
            return 0.81 * layers ** (1 / 16), 0.87 * layers ** (-1 / 16)
        return (3 * decoder) ** (1 / 4), (12 * decoder) ** (-1 / 4)

    @property
    def longest_sequence(self) -> int:
        """The most tokens of a source, and of a translation, in a search."""
        learned = self.position == "learned"
        return self.max_sequence_length - self.position_offset * learned

    @property
    def num_weights(self) -> int:
        """The number of weights of the model, in closed form."""
        encoder, decoder = self.sizes("encoder"), self.sizes("decoder")
        norm = self._norm_weights(self.hidden_dim)
        total = self.num_encoder_layers * (
            self._attention_weights(encoder)
            + self._feed_forward_weights(encoder)
            + 2 * norm
        )
        before = self._attention_weights(decoder)
        if self.decoder == "ssru":
            before = (2 * self.hidden_dim + 1) * self.hidden_dim
        total += self.num_decoder_layers * (
            before
            + self._attention_weights(decoder)
            + self._feed_forward_weights(decoder)
            + 3 * norm
        )
        total += 2 * norm * (self.final_norm + self.embedding_norm)
        return total + self.num_embedding_weights + POSITIONS[self.position](self)

    def _norm_weights(self, size: int) -> int:
        return size if self.normalization_layer == "rms" else 2 * size

    def _attention_weights(self, sizes: StackSizes) -> int:
        heads, groups = sizes.num_heads, sizes.num_key_value_heads
        projections = groups * (sizes.head_dim + sizes.value_dim)
        projections += heads * sizes.head_dim
        total = self.hidden_dim * (projections + heads * sizes.value_dim)
        if self.use_bias:
            total += projections + self.hidden_dim
        if self.query_key_norm:
            total += 2 * self._norm_weights(sizes.head_dim)
        if self.attention_scoring == "additive":
            total += heads * sizes.head_dim
        return total

    def _feed_forward_weights(self, sizes: StackSizes) -> int:
        inner = 2 if self.feed_forward == "gated" else 1  # projections to F
        total = (inner + 1) * self.hidden_dim * sizes.intermediate_dim
        if self.feed_forward_bias:
            total += inner * sizes.intermediate_dim + self.hidden_dim
        return total
