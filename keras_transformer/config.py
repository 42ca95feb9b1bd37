"""What a Transformer is made of, as one validated and frozen object.

Letters, here and in every file: B batch, T target positions, S source positions,
D hidden_dim (the paper's d_model), F intermediate_dim (d_ff), H num_heads (h),
K head_dim (d_k), N layers, V vocabulary size, W beam width, L length of a cache.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.errors import InputError

UNKNOWN_ID = 3

Size = pydantic.PositiveInt
Rate = pydantic.confloat(ge=0.0, lt=1.0)

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


class TransformerConfig(pydantic.BaseModel):
    """The architecture of a `Transformer`; the defaults are the paper's `base`.

    Args:
        vocabulary_size: V, of source and target where they share one vocabulary.
        source_vocabulary_size: V of the source, where the two differ.
        target_vocabulary_size: V of the target, where the two differ.
        hidden_dim: D, the width of the residual stream (d_model).
        intermediate_dim: F, the inner width of the feed-forward layer (d_ff).
        num_heads: H (h).
        head_dim: K, size of one head's queries and keys (d_k); default D / H.
        value_dim: size of one head's values (d_v); default D / H.
        num_encoder_layers: N of the encoder.
        num_decoder_layers: N of the decoder.
        activation: of the feed-forward layer: `"relu"`, `"gelu"` or `"swish"`.
        dropout: on the output of every sublayer and on the sums of embeddings and
            positions.
        attention_dropout: on the attention weights.
        activation_dropout: on the inner activations of the feed-forward layer.
        normalize_first: False is the paper's post-norm, True is pre-norm.
        final_norm: a normalization after the last block of each stack; default:
            the value of `normalize_first`.
        embedding_norm: a normalization of the sums of embeddings and positions.
        layer_norm_epsilon: added to the variance.
        use_bias: biases in the attention projections (the paper has none).
        output_bias: a bias on the logits.
        tie_embeddings: `"all"` shares one matrix between source, target and output,
            `"target"` between target and output, `"none"` shares nothing.
        scale_embeddings: multiply embeddings by the square root of D.
        position: `"sinusoidal"` (sine and cosine interleaved, the paper),
            `"sinusoidal_halves"` (all sines, then all cosines),
            `"sinusoidal_halves_t2t"` (the same with exponent i / (D/2 - 1)) or
            `"learned"`.
        position_offset: added to every position.
        max_sequence_length: rows of each learned position table, and the length
            limit of a search.
        attention_window: restricted self-attention: how far to either side a
            position may attend; None is unrestricted.
        source_end: whether the source ends with `end_id`.
        pad_id: fills batches; no position attends to it.
        start_id: the first input of the decoder.
        end_id: ends every target.

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

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True
    )

    vocabulary_size: Size | None = None
    source_vocabulary_size: Size | None = None
    target_vocabulary_size: Size | None = None
    hidden_dim: Size = 512
    intermediate_dim: Size = 2048
    num_heads: Size = 8
    head_dim: Size | None = None
    value_dim: Size | None = None
    num_encoder_layers: Size = 6
    num_decoder_layers: Size = 6
    activation: Literal["relu", "gelu", "swish"] = "relu"
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    activation_dropout: Rate = 0.0
    normalize_first: bool = False
    final_norm: bool | None = None
    embedding_norm: bool = False
    layer_norm_epsilon: pydantic.PositiveFloat = 1e-6
    use_bias: bool = False
    output_bias: bool = False
    tie_embeddings: Literal["all", "target", "none"] = "all"
    scale_embeddings: bool = True
    position: Literal[
        "sinusoidal", "sinusoidal_halves", "sinusoidal_halves_t2t", "learned"
    ] = "sinusoidal"
    position_offset: pydantic.NonNegativeInt = 0
    max_sequence_length: Size = 1024
    attention_window: Size | None = None
    source_end: bool = True
    pad_id: pydantic.NonNegativeInt = 0
    start_id: pydantic.NonNegativeInt = 1
    end_id: pydantic.NonNegativeInt = 2

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        """Fills in the fields whose default depends on others."""
        if not isinstance(fields, dict):
            return fields
        fields = dict(fields)
        vocabulary_size = fields.get("vocabulary_size")
        for side in ("source_vocabulary_size", "target_vocabulary_size"):
            if fields.get(side) is None:
                fields[side] = vocabulary_size
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
        if self.source_vocabulary_size is None or self.target_vocabulary_size is None:
            raise ValueError(
                "vocabulary_size is missing; give it, or both "
                "source_vocabulary_size and target_vocabulary_size"
            )
        differ = self.source_vocabulary_size != self.target_vocabulary_size
        if differ and self.tie_embeddings == "all":
            raise ValueError(
                f'tie_embeddings "all" needs one vocabulary, but the source has '
                f"{self.source_vocabulary_size} entries and the target "
                f'{self.target_vocabulary_size}; use "target" or "none"'
            )
        if self.hidden_dim % 2 and self.position != "learned":
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is odd, but sinusoidal positions pair "
                f'sines with cosines; use an even hidden_dim or position "learned"'
            )
        special = (self.pad_id, self.start_id, self.end_id)
        smallest = min(self.source_vocabulary_size, self.target_vocabulary_size)
        if len({self.pad_id, self.end_id}) < 2 or max(special) >= smallest:
            raise ValueError(
                f"pad_id, start_id, end_id {special} must lie within the vocabulary "
                f"of {smallest} entries, and pad_id must differ from end_id"
            )
        return self

    @classmethod
    def from_preset(cls, name: str, **fields: Any) -> TransformerConfig:
        """A preset by name (a key of `PRESETS`), with any field replaced."""
        if name not in PRESETS:
            raise InputError(
                f"unknown preset {name!r}; expected one of {', '.join(PRESETS)}"
            )
        return cls.from_dict({**PRESETS[name], **fields})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> TransformerConfig:
        """Like the constructor, with one clear sentence where a field is wrong."""
        try:
            return cls(**fields)
        except pydantic.ValidationError as error:
            raise InputError(describe(error, cls, "model")) from None

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
        matrices = {
            "all": self.target_vocabulary_size,
            "target": self.source_vocabulary_size + self.target_vocabulary_size,
            "none": self.source_vocabulary_size + 2 * self.target_vocabulary_size,
        }[self.tie_embeddings]
        total = encoder + decoder + matrices * d
        total += 2 * norm * (self.final_norm + self.embedding_norm)
        if self.position == "learned":
            total += 2 * self.max_sequence_length * d
        if self.output_bias:
            total += self.target_vocabulary_size
        return total


def describe(
    error: pydantic.ValidationError, model: type[pydantic.BaseModel], where: str
) -> str:
    """One sentence for the first fault that pydantic found.

    Names the key with its path below `where`, and for an unknown key the nearest
    right one.
    """
    fault = error.errors()[0]
    path = ".".join([where, *(str(part) for part in fault["loc"])]).strip(".")
    if fault["type"] == "extra_forbidden":
        fields = model.model_fields
        for part in fault["loc"][:-1]:
            if part in fields:  # a number counts the items of a list
                fields = _fields(fields[part].annotation) or fields
        near = nearest(str(fault["loc"][-1]), fields)
        return f"unknown key {path}; did you mean {near!r}?"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "model_type":
        return f"{path}: expected keys with values, got {fault['input']!r}"
    if fault["type"] == "value_error":
        return f"{path}: {fault['ctx']['error']}".removeprefix(": ")
    return f"{path}: {fault['msg']}, got {fault['input']!r}"


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of `names` that looks most like `name`."""
    import difflib

    return difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]


def _fields(annotation: Any) -> dict[str, Any]:
    """The fields of the model in an annotation such as `list[Model] | None`."""
    fields = getattr(annotation, "model_fields", {})
    for part in typing.get_args(annotation):
        fields = fields or _fields(part)
    return fields
