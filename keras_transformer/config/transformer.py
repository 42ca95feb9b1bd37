"""Architecture of a Transformer: its sizes, and the presets of the paper.

D hidden_dim (the paper's d_model), F intermediate_dim (d_ff), H num_heads (h),
K head_dim (d_k), N layers, V vocabulary size.
"""

from __future__ import annotations

from typing import Any
from typing import ClassVar
from typing import Literal

import pydantic

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
    head_dim: Size | None = None
    """Head size K (d_k) of queries and keys; D / H if left out."""
    value_dim: Size | None = None
    """Head size of values (d_v); D / H if left out."""
    activation: Literal["relu", "gelu", "swish"] = "relu"
    """Activation function of the feed-forward layer: `"relu"`, `"gelu"` or
    `"swish"`."""
    attention_dropout: Rate = 0.0
    """Attention dropout rate, on the attention weights."""
    activation_dropout: Rate = 0.0
    """Activation dropout rate, on the inner activations of the feed-forward layer."""
    normalize_first: bool = False
    """Pre-norm (True) or the paper's post-norm (False): layer normalization before each
    sublayer, or after its residual sum."""
    final_norm: bool | None = None
    """Final layer normalization after the last block of each stack; the value of
    `normalize_first` if left out."""
    embedding_norm: bool = False
    """Embedding normalization: layer normalization of the sums of embeddings and
    positions."""
    use_bias: bool = False
    """Attention biases, in the attention projections (the paper has none)."""
    position: Literal[
        "sinusoidal", "sinusoidal_halves", "sinusoidal_halves_t2t", "learned"
    ] = "sinusoidal"
    """Positional encoding: `"sinusoidal"` (sine and cosine interleaved, the paper),
    `"sinusoidal_halves"` (all sines, then all cosines), `"sinusoidal_halves_t2t"` (the
    same with exponent i / (D/2 - 1)) or `"learned"`."""
    position_offset: pydantic.NonNegativeInt = 0
    """Position offset, added to every position."""
    attention_window: Size | None = None
    """Attention window (local, restricted self-attention): how far to either side a
    position may attend; None is unrestricted."""

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
        if self.hidden_dim % 2 and self.position != "learned":
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is odd, but sinusoidal positions pair "
                f'sines with cosines; use an even hidden_dim or position "learned"'
            )
        return self

    @property
    def longest_sequence(self) -> int:
        """The most tokens of a source, and of a translation, in a search."""
        learned = self.position == "learned"
        return self.max_sequence_length - self.position_offset * learned

    @property
    def num_weights(self) -> int:
        """The number of weights of the model, in closed form."""
        d, f = self.hidden_dim, self.intermediate_dim
        width = self.num_heads * (self.head_dim + self.value_dim)
        attention = 2 * d * width
        if self.use_bias:  # query, key, value and output
            attention += self.num_heads * (2 * self.head_dim + self.value_dim) + d
        feed_forward = 2 * d * f + f + d
        norm = 2 * d
        encoder = self.num_encoder_layers * (attention + feed_forward + 2 * norm)
        decoder = self.num_decoder_layers * (2 * attention + feed_forward + 3 * norm)
        total = encoder + decoder + self.num_embedding_weights
        total += 2 * norm * (self.final_norm + self.embedding_norm)
        if self.position == "learned":
            total += 2 * self.max_sequence_length * d
        return total
