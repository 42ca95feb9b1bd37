"""Base of the configs of all kinds of models.

D hidden_dim, N layers, V vocabulary size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Annotated
from typing import Any
from typing import ClassVar
from typing import Literal
from typing import Self

import pydantic

from keras_transformer.config.documented import Documented
from keras_transformer.config.faults import first_fault
from keras_transformer.errors import InputError

#: Of the tokenizers that `Tokenizer.train` makes; any other has its own `unknown_id`.
UNKNOWN_ID = 3

#: The backends count the rows and columns of a tensor in 32 bits.
MOST_SIZE = 2**31 - 1
Size = Annotated[int, pydantic.Field(gt=0, le=MOST_SIZE)]
#: Of a table of positions; the config of a stranger may ask for any number.
MOST_POSITIONS = 2**16
#: On each side. Keras goes through a model by recursion, and fails at about a thousand.
MOST_LAYERS = 256
Layers = Annotated[int, pydantic.Field(ge=1, le=MOST_LAYERS)]
Rate = Annotated[float, pydantic.Field(ge=0.0, lt=1.0)]
# What may be left out and is then filled in: None is never read.
if TYPE_CHECKING:
    FilledSize = int
    FilledBool = bool
else:
    FilledSize = Size | None
    FilledBool = bool | None
LEFT_OUT: Any = None


class TranslationConfig(Documented):
    """The fields and checks of every kind; see `TransformerConfig`.

    A subclass has a `kind`, `presets` by name, `tiny` and `base` among them, and says
    in closed form how many weights its model holds.
    """

    model_config = pydantic.ConfigDict(validate_default=True)

    kind: ClassVar[str]
    presets: ClassVar[dict[str, dict[str, Any]]]
    #: Names that fields had before, which files may still have.
    old_names: ClassVar[dict[str, str]] = {}

    vocabulary_size: Size | None = None
    """Vocabulary size V, of source and target where they share one vocabulary."""
    source_vocabulary_size: FilledSize = LEFT_OUT
    """Vocabulary size of the source, where the two differ."""
    target_vocabulary_size: FilledSize = LEFT_OUT
    """Vocabulary size of the target, where the two differ."""
    hidden_dim: Size = 512
    """Model dimension D (the paper's d_model): the width of the residual stream, even
    where positions are sinusoidal."""
    num_encoder_layers: Layers = 6
    """Encoder layers N, at most 256."""
    num_decoder_layers: Layers = 6
    """Decoder layers N, at most 256."""
    dropout: Rate = 0.1
    """Dropout rate, on the embeddings (their positions added) and on the output of
    every sublayer."""
    tie_embeddings: Literal["all", "target", "inputs", "none"] = "all"
    """Weight tying: `"all"` shares one embedding matrix between source, target and
    output, `"target"` between target and output, `"inputs"` between source and target,
    `"none"` shares nothing."""
    scale_embeddings: bool = True
    """Embedding scale: multiply embeddings by the square root of D."""
    output_bias: bool = False
    """Output bias: a bias on the logits."""
    layer_norm_epsilon: pydantic.PositiveFloat = 1e-6
    """Layer normalization epsilon, added to the variance."""
    max_sequence_length: Annotated[int, pydantic.Field(gt=0, le=MOST_POSITIONS)] = 1024
    """Maximum sequence length: the length limit of a search, and of learned positions
    the rows of each table; at most 65 536."""
    source_end: bool = True
    """End token of the source: whether every source ends with `end_id`."""
    pad_id: pydantic.NonNegativeInt = 0
    """Padding token's id: it fills batches, and no position attends to it."""
    start_id: pydantic.NonNegativeInt = 1
    """Start token's id (BOS): the first input of the decoder."""
    end_id: pydantic.NonNegativeInt = 2
    """End token's id (EOS): it ends every target."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve_sizes(cls, fields: Any) -> Any:
        """Takes fields by their old names, and fills in the vocabulary of each side."""
        if not isinstance(fields, dict):
            return fields
        fields = dict(fields)
        for old, name in cls.old_names.items():
            if old in fields and name in fields:
                raise ValueError(f"{old} is the old name of {name}; give {name} alone")
            if old in fields:
                fields[name] = fields.pop(old)
        for side in ("source_vocabulary_size", "target_vocabulary_size"):
            if fields.get(side) is None:
                fields[side] = fields.get("vocabulary_size")
        return fields

    @pydantic.model_validator(mode="after")
    def _check_vocabulary(self) -> Self:
        if self.source_vocabulary_size is None or self.target_vocabulary_size is None:
            raise ValueError(
                "vocabulary_size is missing; give it, or both "
                "source_vocabulary_size and target_vocabulary_size"
            )
        differ = self.source_vocabulary_size != self.target_vocabulary_size
        if differ and self.tie_embeddings in ("all", "inputs"):
            raise ValueError(
                f'tie_embeddings "{self.tie_embeddings}" needs one vocabulary, but the '
                f"source has {self.source_vocabulary_size} entries and the target "
                f'{self.target_vocabulary_size}; use "target" or "none"'
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
    def from_preset(cls, name: str, **fields: Any) -> Self:
        """A preset by name (a key of `presets`), with any field replaced."""
        if name not in cls.presets:
            raise InputError(
                f"unknown preset {name!r}; expected one of {', '.join(cls.presets)}"
            )
        return cls.from_dict({**cls.presets[name], **fields})

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Like the constructor, with one clear sentence where a field is wrong."""
        try:
            return cls(**fields)
        except pydantic.ValidationError as error:
            raise InputError(first_fault(error, cls, "model")) from None

    @property
    def longest_sequence(self) -> int:
        """The most tokens of a source, and of a translation, in a search."""
        return self.max_sequence_length

    @property
    def special_ids(self) -> dict[str, int]:
        """`pad_id`, `start_id` and `end_id`, as `TokenBatches` takes them."""
        names = ("pad_id", "start_id", "end_id")
        return {name: getattr(self, name) for name in names}

    @property
    def suppressed_ids(self) -> tuple[int, ...]:
        """The ids that no search writes: padding and start, unless it is the end."""
        return tuple(sorted({self.pad_id, self.start_id} - {self.end_id}))

    @property
    def attends(self) -> bool:
        """Whether the decoder attends to the source."""
        return True

    @property
    def num_weights(self) -> int:
        """The number of weights of the model, in closed form."""
        raise NotImplementedError

    @property
    def num_embedding_weights(self) -> int:
        """Those of the embedding matrices and of the bias of the logits."""
        source, target = self.source_vocabulary_size, self.target_vocabulary_size
        rows = {
            "all": target,
            "target": source + target,
            "inputs": 2 * target,
            "none": source + 2 * target,
        }
        total = rows[self.tie_embeddings] * self.hidden_dim
        return total + target * self.output_bias
