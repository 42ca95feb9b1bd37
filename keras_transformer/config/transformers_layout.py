"""The layout of a Transformer in the model classes of Hugging Face `transformers`.

Which class computes what a config says, and where each weight stands in its file: an
export writes by it, an import reads by it. Neither needs `transformers`.

D hidden_dim, F intermediate_dim, V vocabulary.

Their sinusoids are all sines, then all cosines. With the paper's, which interleave
them, a model is the same after a permutation of D in all that reads or writes the
residual stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_transformer.config.transformer import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.tensors import Shape

#: The key of their `config.json` under which our own config travels.
OWN_KEY = "keras_transformer"
#: Of their layer normalization, which no config of theirs changes. What a smaller one
#: would give differs little, as long as variances are not small, too.
LAYER_NORM_EPSILON = 1e-5
#: The row of the first position in a learned table of BART.
_FIRST_ROW = 2

# === Classes ===

#: Fields that have a place in every class, that are checked by functions below, or that
#: nothing reads where the others are right.
_PLACED = {
    *("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size"),
    *("hidden_dim", "num_encoder_layers", "num_decoder_layers"),
    *("intermediate_dim", "num_heads", "head_dim", "value_dim"),
    *("num_key_value_heads", "decoder_intermediate_dim", "decoder_num_heads"),
    *("decoder_num_key_value_heads", "decoder_head_dim", "decoder_value_dim"),
    *("dropout", "attention_dropout", "activation_dropout"),
    *("activation", "layer_norm_epsilon", "max_sequence_length"),
    *("pad_id", "start_id", "end_id"),
    *("rotary_base", "num_relative_buckets", "max_relative_distance"),
}
_ANY = object()  # among the values of a field: all are computed
_TIES_OF_ONE_VOCABULARY = ("all", "inputs")


@dataclasses.dataclass(frozen=True, eq=False)
class ModelClass:
    """A model class of theirs.

    Args:
        name: of the class.
        model_type: its name in a `config.json`.
        values: of fields of `TransformerConfig`, those that it computes; of a field
            that is not here, the default alone.
        checks: functions that give the names of further fields that do not fit.
    """

    name: str
    model_type: str
    values: dict[str, tuple[Any, ...]]
    checks: tuple[Callable[[TransformerConfig], Iterable[str]], ...]

    def lacking(self, config: TransformerConfig) -> list[str]:
        """The fields of a config that it does not compute, each with its value."""
        names = []
        for name, field in type(config).model_fields.items():
            values = self.values.get(name, (field.default,))
            computed = name in _PLACED or _ANY in values
            if not computed and getattr(config, name) not in values:
                names.append(name)
        for check in self.checks:
            names += check(config)
        return [f"{name} {getattr(config, name)}" for name in names]

    @property
    def has_learned_positions(self) -> bool:
        """Whether its file holds positions that are weights."""
        return "learned" in self.values["position"]


def _head_sizes(config: TransformerConfig) -> Iterator[str]:
    """Their heads divide D; keys, values and queries have the same."""
    for side in ("encoder", "decoder"):
        sizes = config.sizes(side)
        prefix = "decoder_" if side == "decoder" else ""
        if sizes.num_key_value_heads != sizes.num_heads:
            yield _first_given(config, prefix, "num_key_value_heads")
            return
        for name in ("head_dim", "value_dim"):
            if getattr(sizes, name) * sizes.num_heads != config.hidden_dim:
                yield _first_given(config, prefix, name)
                return


def _first_given(config: TransformerConfig, prefix: str, name: str) -> str:
    """The name with its prefix, where that field is set."""
    full = prefix + name
    return full if getattr(config, full) is not None else name


def _large_epsilon(config: TransformerConfig) -> Iterator[str]:
    if config.layer_norm_epsilon > LAYER_NORM_EPSILON:
        yield "layer_norm_epsilon"


def _positions_from_padding(config: TransformerConfig) -> Iterator[str]:
    """Their first position is the one after the padding id; padding has none."""
    if config.position_offset != config.pad_id + 1:
        yield "position_offset"
    if config.start_id == config.pad_id:
        yield "start_id"


def _unlike_t5(config: TransformerConfig) -> Iterator[str]:
    """Both of its sides have the same sizes, keys as large as values."""
    encoder, decoder = config.sizes("encoder"), config.sizes("decoder")
    if encoder != decoder:
        names = ("intermediate_dim", "num_heads", "head_dim", "value_dim")
        names += ("num_key_value_heads",)
        yield from (
            f"decoder_{name}" for name in names if getattr(config, f"decoder_{name}")
        )
    if encoder.num_key_value_heads != encoder.num_heads:
        yield "num_key_value_heads"
    if encoder.head_dim != encoder.value_dim:
        yield "value_dim"
    if config.scale_logits and config.tie_embeddings != "all":
        yield "scale_logits"


_PRE_NORM = {"normalize_first": (True,), "final_norm": (True,)}
_POST_NORM = {"final_norm": (False,)}
_SCALED = {"scale_embeddings": (_ANY,)}
_BIASES = {"use_bias": (_ANY,), "feed_forward_bias": (_ANY,)}
_OUTPUT_BIAS = {"output_bias": (_ANY,)}
_USUAL = {**_SCALED, **_BIASES, **_OUTPUT_BIAS}
_SHARED = {"tie_embeddings": _TIES_OF_ONE_VOCABULARY}
#: The last are those of marian-nmt: the two classes take them from a file.
_HALVES = {"position": ("sinusoidal", "sinusoidal_halves", "sinusoidal_halves_t2t")}
_HALVES_T2T = {"position": ("sinusoidal_halves_t2t",), "position_offset": (_ANY,)}
_LEARNED = {"position": ("learned",)}
_BART = {
    **_LEARNED,
    "position_offset": tuple(range(_FIRST_ROW + 1)),
    "embedding_norm": (True,),
}
_CHECKS = (_head_sizes, _large_epsilon)

#: Those that a model may become, the first that fits before others.
CLASSES = (
    ModelClass(
        "MarianMTModel",
        "marian",
        {**_USUAL, **_POST_NORM, **_HALVES, "tie_embeddings": (_ANY,)},
        _CHECKS,
    ),
    ModelClass(
        "PegasusForConditionalGeneration",
        "pegasus",
        {**_USUAL, **_PRE_NORM, **_HALVES, **_SHARED},
        _CHECKS,
    ),
    ModelClass(
        "M2M100ForConditionalGeneration",
        "m2m_100",
        {**_SCALED, **_BIASES, **_PRE_NORM, **_HALVES_T2T, **_SHARED},
        (*_CHECKS, _positions_from_padding),
    ),
    ModelClass(
        "FSMTForConditionalGeneration",
        "fsmt",
        {
            **_SCALED,
            **_BIASES,
            **_POST_NORM,
            **_HALVES_T2T,
            "tie_embeddings": (_ANY,),
        },
        (*_CHECKS, _positions_from_padding),
    ),
    ModelClass(
        "BartForConditionalGeneration",
        "bart",
        {**_USUAL, **_POST_NORM, **_BART, **_SHARED},
        _CHECKS,
    ),
    ModelClass(
        "MBartForConditionalGeneration",
        "mbart",
        {**_USUAL, **_PRE_NORM, **_BART, **_SHARED},
        _CHECKS,
    ),
    ModelClass(
        "BlenderbotForConditionalGeneration",
        "blenderbot",
        {**_USUAL, **_PRE_NORM, **_LEARNED, **_SHARED},
        _CHECKS,
    ),
    ModelClass(
        "T5ForConditionalGeneration",
        "t5",
        {
            **_PRE_NORM,
            **_SHARED,
            "normalization_layer": ("rms",),
            "attention_scoring": ("dot_product",),
            "position": ("relative_buckets",),
            "feed_forward": (_ANY,),
            "feed_forward_bias": (False,),
            "scale_embeddings": (False,),
            "scale_logits": (_ANY,),
        },
        (_unlike_t5,),
    ),
)


def model_class(config: TransformerConfig) -> ModelClass:
    """The class of theirs that computes what a config says.

    Raises:
        InputError: where none does, with the fields that the nearest one lacks.
    """
    lacking = {one: one.lacking(config) for one in CLASSES}
    nearest = min(CLASSES, key=lambda one: len(lacking[one]))
    if lacking[nearest]:
        raise InputError(
            f"the export to transformers does not have {', '.join(lacking[nearest])}: "
            f"of its classes {nearest.name} is the nearest; export to saved_model, "
            f"onnx or litert"
        )
    return nearest


# === Weights ===


class Placement(NamedTuple):
    """The place of one of our weights in a file of `transformers`."""

    weight: str  # path
    shape: Shape
    hidden: tuple[int, ...]  # the axes that are D of the residual stream
    tensors: tuple[str, ...]  # names, each of which holds all of it
    others: tuple[str, ...] = ()  # names that may stand for it in a file of theirs


class Layout:
    """All weights of a config in a class of theirs, in both directions.

    Args:
        config: of the model.

    Raises:
        InputError: see `model_class`.
    """

    def __init__(self, config: TransformerConfig) -> None:
        self.config = config
        self.model_class = model_class(config)
        names = _t5_names if self.model_class.model_type == "t5" else _bart_names
        self._own = {path for path, *_ in _weights(config)}
        # They have every bias; one that a model has not is 0.
        every = config.model_copy(update=dict.fromkeys(self._biases, True))
        self.placements = [
            Placement(path, shape, hidden, *names(path, config, self.model_class))
            for path, shape, hidden in _weights(every)
        ]
        self._order = None
        if config.position == "sinusoidal":
            halves = [np.arange(i, config.hidden_dim, 2) for i in range(2)]
            self._order = np.concatenate(halves)

    def tensors(
        self, weights: Mapping[str, np.ndarray]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Names and tensors of theirs, one after the other.

        Args:
            weights: `{path: float32 array}` of the model, see `models.weights`.
        """
        for placement in self.placements:
            array = weights.get(placement.weight)
            if array is None:
                array = np.zeros(placement.shape, np.float32)
            tensor = self._to_theirs(placement, array)
            for name in placement.tensors:
                yield name, tensor

    def of_file(self, read: Callable[[str], np.ndarray]) -> Layout:
        """The layout of a file that may have been trained on since it was written.

        Args:
            read: gives the tensor of a name.

        Returns:
            This one, or where biases that the config lacks are no longer 0, that of a
            config that has them.
        """
        found = {}
        for name in self._biases:
            paths = {
                p for p, *_ in _weights(self.config.model_copy(update={name: True}))
            }
            found[name] = any(
                read(placement.tensors[0]).any()
                for placement in self.placements
                if placement.weight in paths - self._own
            )
        new = {name: True for name, is_there in found.items() if is_there}
        return Layout(self.config.model_copy(update=new)) if new else self

    def is_own(self, placement: Placement) -> bool:
        """Whether the model has that weight; one of the others is a bias of 0."""
        return placement.weight in self._own

    @property
    def _biases(self) -> list[str]:
        """Fields of biases that the class has always and the config may lack."""
        return [
            name
            for name in ("use_bias", "feed_forward_bias", "output_bias")
            if self.model_class.values.get(name) == (_ANY,)
        ]

    def _to_theirs(self, placement: Placement, array: np.ndarray) -> np.ndarray:
        array = self._permuted(placement, array, self._order)
        kind = _kind(placement.weight)
        if kind == "kernel":
            array = array.T
        elif kind == "output bias":
            array = array[np.newaxis]
        elif kind == "positions" and (rows := self._empty_rows):
            array = np.pad(array, [(rows, 0), (0, 0)])
        return np.ascontiguousarray(array)

    def to_ours(self, placement: Placement, tensor: np.ndarray) -> np.ndarray:
        """The weight of a tensor of theirs; its numbers are moved, not looked at."""
        kind = _kind(placement.weight)
        if kind == "kernel":
            tensor = tensor.T
        elif kind == "output bias":
            tensor = tensor.ravel()
        elif kind == "positions":
            tensor = tensor[self._empty_rows :]
        order = None if self._order is None else np.argsort(self._order)
        return self._permuted(placement, tensor, order)

    @property
    def _empty_rows(self) -> int:
        """Rows before those of our learned table that BART's has."""
        bart = self.model_class.model_type in ("bart", "mbart")
        return _FIRST_ROW - self.config.position_offset if bart else 0

    @staticmethod
    def _permuted(
        placement: Placement, array: np.ndarray, order: np.ndarray | None
    ) -> np.ndarray:
        if order is None:
            return array
        for axis in placement.hidden:
            array = array.take(order, axis)
        return array


def _kind(path: str) -> str:
    if path.endswith("_kernel"):
        return "kernel"
    if path.endswith("embedding/bias"):
        return "output bias"
    return "positions" if path.endswith("_position/embeddings") else ""


_Weight = tuple[str, Shape, tuple[int, ...]]


def _weights(config: TransformerConfig) -> Iterator[_Weight]:
    """Paths, shapes and axes of D of all weights of a config that a class computes."""
    yield from _embedding_weights(config)
    for side, place in (("encoder", "source"), ("decoder", "target")):
        if config.position == "learned":
            shape = (config.max_sequence_length, config.hidden_dim)
            yield f"{place}_position/embeddings", shape, (1,)
        elif config.position == "relative_buckets":
            shape = (config.num_relative_buckets, config.sizes(side).num_heads)
            yield f"{place}_position/embeddings", shape, ()
        if config.embedding_norm:
            yield from _norm_weights(config, f"{place}_embedding_norm")
        for index in range(getattr(config, f"num_{side}_layers")):
            yield from _block_weights(config, side, f"{side}_{index}")
        if config.final_norm:
            yield from _norm_weights(config, f"{side}_norm")


def _embedding_weights(config: TransformerConfig) -> Iterator[_Weight]:
    sizes = {"input": config.source_vocabulary_size}
    sizes["source"] = config.source_vocabulary_size
    sizes["target"] = sizes["output"] = config.target_vocabulary_size
    for matrix, sides in _matrices(config).items():
        size = sizes[sides[-1]]
        yield f"{matrix}/embeddings", (size, config.hidden_dim), (1,)
        if config.output_bias and "output" in sides:
            yield f"{matrix}/bias", (size,), ()


def _matrices(config: TransformerConfig) -> dict[str, tuple[str, ...]]:
    """The embedding matrices by name, and what each is used for."""
    uses: dict[str, dict[str, tuple[str, ...]]] = {
        "all": {"embedding": ("source", "target", "output")},
        "target": {
            "source_embedding": ("source",),
            "target_embedding": ("target", "output"),
        },
        "inputs": {
            "input_embedding": ("source", "target"),
            "output_embedding": ("output",),
        },
        "none": {f"{s}_embedding": (s,) for s in ("source", "target", "output")},
    }
    return uses[config.tie_embeddings]


def _norm_weights(config: TransformerConfig, path: str) -> Iterator[_Weight]:
    names = ("scale",) if config.normalization_layer == "rms" else ("gamma", "beta")
    for name in names:
        yield f"{path}/{name}", (config.hidden_dim,), (0,)


def _block_weights(
    config: TransformerConfig, side: str, path: str
) -> Iterator[_Weight]:
    sizes, hidden = config.sizes(side), config.hidden_dim
    inner = sizes.intermediate_dim
    attentions = ["self_attention", "cross_attention"][: 1 + (side == "decoder")]
    for name in attentions:
        keys = sizes.num_heads * sizes.head_dim
        values = sizes.num_heads * sizes.value_dim
        for part, size in (("query", keys), ("key", keys), ("value", values)):
            yield f"{path}/{name}/{part}_kernel", (hidden, size), (0,)
            if config.use_bias:
                yield f"{path}/{name}/{part}_bias", (size,), ()
        yield f"{path}/{name}/output_kernel", (values, hidden), (1,)
        if config.use_bias:
            yield f"{path}/{name}/output_bias", (hidden,), (0,)
    into = ["inner", "gate"][: 1 + (config.feed_forward == "gated")]
    for part in into:
        yield f"{path}/feed_forward/{part}_kernel", (hidden, inner), (0,)
        if config.feed_forward_bias:
            yield f"{path}/feed_forward/{part}_bias", (inner,), ()
    yield f"{path}/feed_forward/outer_kernel", (inner, hidden), (1,)
    if config.feed_forward_bias:
        yield f"{path}/feed_forward/outer_bias", (hidden,), (0,)
    for name in (*attentions, "feed_forward"):
        yield from _norm_weights(config, f"{path}/{name}_residual/norm")


# === Their names ===

_Names = tuple[tuple[str, ...], tuple[str, ...]]  # those written; others that may be

_BART_PARTS = {
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "self_attention_residual/norm": "self_attn_layer_norm",
    "cross_attention_residual/norm": "encoder_attn_layer_norm",
    "feed_forward_residual/norm": "final_layer_norm",
}
_BART_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "out"}
_BART_LAYERS = {"inner": "fc1", "outer": "fc2"}
_VECTORS = {"gamma": "weight", "beta": "bias", "scale": "weight", "kernel": "weight"}
_SIDES = {"source": "encoder", "target": "decoder"}


def _bart_names(path: str, config: TransformerConfig, its: ModelClass) -> _Names:
    """In BART and its relatives, of which Marian is one."""
    part, name = path.rsplit("/", 1)
    if part.endswith("embedding"):
        if name == "bias":
            return ("final_logits_bias",), ()
        return _bart_embeddings(_matrices(config)[part], its)
    kind = _VECTORS.get(name.rpartition("_")[2], "bias")
    block, _, rest = part.partition("/")
    side, _, index = block.partition("_")
    if part.endswith("_position"):
        return (f"model.{_SIDES[side]}.embed_positions.weight",), ()
    if part.endswith("_embedding_norm"):
        return (f"model.{_SIDES[side]}.layernorm_embedding.{kind}",), ()
    if index == "norm":
        return (f"model.{side}.layer_norm.{kind}",), ()
    layer = f"model.{side}.layers.{index}"
    projection = name.partition("_")[0]
    if rest == "feed_forward":
        return (f"{layer}.{_BART_LAYERS[projection]}.{kind}",), ()
    if rest.endswith("_attention"):
        projection = _BART_PROJECTIONS[projection]
        return (f"{layer}.{_BART_PARTS[rest]}.{projection}_proj.{kind}",), ()
    return (f"{layer}.{_BART_PARTS[rest]}.{kind}",), ()


def _bart_embeddings(sides: tuple[str, ...], its: ModelClass) -> _Names:
    output = "lm_head.weight"
    if its.model_type == "fsmt":
        output = "model.decoder.output_projection.weight"
    names = {
        "source": "model.encoder.embed_tokens.weight",
        "target": "model.decoder.embed_tokens.weight",
        "output": output,
    }
    own = tuple(names[side] for side in sides)
    if its.model_type == "fsmt":
        return own, ()
    shared = "model.shared.weight"
    if len(sides) == 3:
        return (shared,), own
    if sides == ("target", "output"):
        return own[:1], own[1:]
    if sides == ("source", "target") and its.model_type != "marian":
        return (shared, *own), ()
    return own, ()


_T5_LAYERS = {"self_attention": 0, "cross_attention": 1}
_T5_ATTENTIONS = {
    "self_attention": "SelfAttention",
    "cross_attention": "EncDecAttention",
}


def _t5_names(path: str, config: TransformerConfig, its: ModelClass) -> _Names:
    part, name = path.rsplit("/", 1)
    if part.endswith("embedding"):
        return _t5_embeddings(_matrices(config)[part], config)
    block, _, rest = part.partition("/")
    side, _, index = block.partition("_")
    if part.endswith("_position"):
        first = f"{_SIDES[side]}.block.0.layer.0.SelfAttention"
        return (f"{first}.relative_attention_bias.weight",), ()
    if index == "norm":
        return (f"{side}.final_layer_norm.weight",), ()
    of = rest.removesuffix("/norm").removesuffix("_residual")
    layer = f"{side}.block.{index}.layer.{_T5_LAYERS.get(of, 1 + (side == 'decoder'))}"
    if rest.endswith("/norm"):
        return (f"{layer}.layer_norm.weight",), ()
    projection = name.removesuffix("_kernel")
    if of == "feed_forward":
        gated = config.feed_forward == "gated"
        inner = {"gate": "wi_0", "inner": "wi_1" if gated else "wi", "outer": "wo"}
        return (f"{layer}.DenseReluDense.{inner[projection]}.weight",), ()
    return (f"{layer}.{_T5_ATTENTIONS[of]}.{projection[0]}.weight",), ()


def _t5_embeddings(sides: tuple[str, ...], config: TransformerConfig) -> _Names:
    inputs = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    if sides == ("output",):
        return ("lm_head.weight",), ()
    if "output" not in sides:
        return ("shared.weight",), inputs
    if config.scale_logits:
        return ("shared.weight",), (*inputs, "lm_head.weight")
    # A config of theirs scales the logits unless it has two matrices.
    return ("shared.weight", "lm_head.weight"), inputs
