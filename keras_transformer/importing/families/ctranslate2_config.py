"""Architecture of a CTranslate2 model: single numbers and shapes of `model.bin`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.translation import MOST_LAYERS
from keras_transformer.errors import InputError
from keras_transformer.importing.families import ctranslate2_layers
from keras_transformer.importing.families import ctranslate2_positions
from keras_transformer.importing.families.ctranslate2_layers import CLOSE
from keras_transformer.importing.families.ctranslate2_layers import OUTPUT
from keras_transformer.importing.families.ctranslate2_layers import TARGET_EMBEDDINGS
from keras_transformer.importing.families.ctranslate2_positions import Positions
from keras_transformer.importing.families.ctranslate2_positions import refused
from keras_transformer.importing.families.ctranslate2_vocabulary import NO_ROW
from keras_transformer.importing.families.ctranslate2_vocabulary import Vocabularies
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File

#: Kind of the model -> its heads, where an old file does not say them.
HEADS = {"TransformerSpec": None, "TransformerBase": 8, "TransformerBig": 16}
#: In the order of their numbers.
_ACTIVATIONS = ("relu", "gelu_tanh", "swish", "gelu", "gelu_sigmoid")


class Numbers:
    """Single numbers of a file, and which of them were asked for."""

    def __init__(self, file: CTranslate2File) -> None:
        self.file = file
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """The number of a name, the default where there is none.

        Raises:
            InputError: where it is no single, finite number.
        """
        self.read.add(name)
        if name not in self.file.tensors:
            return default
        value = self.file.number(name)
        if value is None or not math.isfinite(value):
            raise refused(self.file, f"{name} that is no finite number")
        return value

    def one(self, name: str, default: Any = None, places: Iterable[str] = ()) -> Any:
        """The number that all places have: encoder and decoder, or layers.

        Raises:
            InputError: where they differ.
        """
        places = list(places) or list(ctranslate2_positions.STACKS)
        values = {self.get(f"{place}/{name}", default) for place in places}
        if len(values) > 1:
            shown = " and ".join(sorted(map(str, values))[:2])
            raise refused(self.file, f"{name} {shown} in its parts")
        return values.pop()

    def has(self, name: str, places: Iterable[str] = ()) -> bool:
        """Whether all places have a tensor, or none.

        Raises:
            InputError: where some have.
        """
        places = list(places) or list(ctranslate2_positions.STACKS)
        found = {f"{place}/{name}" in self.file.tensors for place in places}
        if len(found) > 1:
            raise refused(self.file, f"{name} in some of its parts")
        return found.pop()

    def layers(self, stack: str) -> int:
        """The number of layers of a stack."""
        found = [re.match(rf"{stack}/layer_(\d+)/", name) for name in self.file.tensors]
        count = 1 + max((int(match[1]) for match in found if match), default=-1)
        if count > MOST_LAYERS:
            raise refused(self.file, f"more than {MOST_LAYERS} layers")
        return count


def _head_dim(file: CTranslate2File, stack: str) -> int:
    heads = _num_heads(file, stack)
    size = _shape(file, f"{stack}/layer_0/self_attention/linear_1/weight")[1]
    if size % heads or size == 0:
        raise refused(file, f"{heads} heads of {size} components together")
    return size // heads


def _num_heads(file: CTranslate2File, stack: str) -> int:
    heads = Numbers(file).get(f"{stack}/num_heads", HEADS[file.specification])
    if heads is None or heads < 1 or heads != int(heads):
        raise refused(file, "no number of heads")
    return int(heads)


def architecture(
    given: Mapping[str, Any],
    numbers: Numbers,
    vocabularies: Vocabularies,
    positions: Positions,
) -> TransformerConfig:
    """The config of a model.

    Args:
        given: what `config.json` says.
        numbers: of `model.bin`.
        vocabularies: of both sides.
        positions: what the files say of them.

    Raises:
        InputError: where the model has parts that this package has not, or files do
            not belong together.
    """
    file = numbers.file
    counts = {stack: numbers.layers(stack) for stack in ("encoder", "decoder")}
    layers = [f"{stack}/layer_{i}" for stack, n in counts.items() for i in range(n)]
    _check_parts(numbers, layers)
    dim = _shape(file, TARGET_EMBEDDINGS)[-1]
    activation = int(numbers.one("activation", 0))
    if activation not in range(len(_ACTIVATIONS)):
        raise refused(file, f"activation {activation}")
    rms = not numbers.has("ffn/layer_norm/beta", layers)
    epsilon = given["layer_norm_epsilon"]
    if epsilon is None:
        epsilon = 1e-6 if rms else 1e-5
    bias = f"{OUTPUT}/bias" in file.tensors
    fields: dict[str, Any] = {
        "source_vocabulary_size": len(vocabularies.source.pieces),
        "target_vocabulary_size": len(vocabularies.target.pieces),
        "hidden_dim": dim,
        "num_encoder_layers": counts["encoder"],
        "num_decoder_layers": counts["decoder"],
        **_sizes(file),
        "attention_scoring": _scoring(numbers, layers),
        "feed_forward": "gated"
        if numbers.has("ffn/linear_0_noact/weight", layers)
        else "plain",
        "feed_forward_bias": any(
            f"{x}/ffn/linear_0/bias" in file.tensors for x in layers
        ),
        "use_bias": any(
            f"{x}/self_attention/linear_0/bias" in file.tensors for x in layers
        ),
        "activation": _ACTIVATIONS[activation],
        "normalize_first": bool(numbers.one("pre_norm", 1)),
        "normalization_layer": "rms" if rms else "layer",
        "layer_norm_epsilon": epsilon,
        "final_norm": numbers.has("layer_norm/gamma"),
        "embedding_norm": numbers.has("layernorm_embedding/gamma"),
        "scale_embeddings": _scales_embeddings(numbers, dim),
        "scale_logits": _scales_logits(numbers, dim),
        "tie_embeddings": ctranslate2_layers.tied(file, vocabularies),
        # Rows that the file has not must never be written.
        "output_bias": bias or NO_ROW in vocabularies.target.rows,
        "source_end": _ends_source(given, vocabularies),
        **positions.fields,
        **vocabularies.special_ids,
    }
    try:
        return TransformerConfig.from_dict(fields)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from None


def _check_parts(numbers: Numbers, layers: list[str]) -> None:
    """Refuses parts that this package has not, and that a number turns on."""
    places = [f"{layer}/self_attention" for layer in layers]
    dim, *others = ctranslate2_positions.ROTARY
    for name in others:
        numbers.one(name, places=places)
    for place in places:
        size = _head_dim(numbers.file, place.partition("/")[0])
        found = numbers.get(f"{place}/{dim}", 0)
        if found not in (0, size):
            raise refused(numbers.file, f"{dim} {found} of heads of {size}")
    for name in (
        "decoder/alibi",
        "encoder/multi_query_attention",
        "decoder/multi_query_attention",
        "encoder/sliding_window",
        "decoder/sliding_window",
    ):
        if numbers.get(name, 0):
            raise refused(numbers.file, name.rpartition("/")[2])


def _shape(file: CTranslate2File, name: str) -> tuple[int, ...]:
    shape = file.tensors[name].shape if name in file.tensors else ()
    if len(shape) != 2:
        raise InputError(
            f"{file.path} lacks the matrix {name!r} of a CTranslate2 model; get the "
            f"file again"
        )
    return tuple(shape)


def _sizes(file: CTranslate2File) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for stack, prefix in (("encoder", ""), ("decoder", "decoder_")):
        heads, size = _num_heads(file, stack), _head_dim(file, stack)
        layer = f"{stack}/layer_0"
        joined = _shape(file, f"{layer}/self_attention/linear_0/weight")[0]
        inner = _shape(file, f"{layer}/ffn/linear_0/weight")[0]
        groups, rest = divmod(joined - heads * size, 2 * size)
        if rest or groups < 1:
            raise refused(file, f"queries, keys and values of {joined} components")
        sizes |= {
            f"{prefix}num_heads": heads,
            f"{prefix}num_key_value_heads": groups,
            f"{prefix}head_dim": size,
            f"{prefix}value_dim": size,
            f"{prefix}intermediate_dim": inner,
        }
    for name in list(sizes):  # which a config has of a decoder that differs
        if name.startswith("decoder_") and sizes[name] == sizes[name[8:]]:
            del sizes[name]
    heads_alike = "decoder_num_heads" not in sizes
    if sizes["num_key_value_heads"] == sizes["num_heads"] and heads_alike:
        del sizes["num_key_value_heads"]
    return sizes


def _scoring(numbers: Numbers, layers: list[str]) -> str:
    """`"dot_product"` where no attention scales its queries."""
    names = [f"{layer}/self_attention" for layer in layers]
    names += [f"{layer}/attention" for layer in layers if layer.startswith("decoder")]
    scales = [numbers.get(f"{name}/queries_scale") for name in names]
    plain = all(s is not None and math.isclose(s, 1.0, rel_tol=CLOSE) for s in scales)
    return "dot_product" if plain else "scaled_dot_product"


def _scales_embeddings(numbers: Numbers, dim: int) -> bool:
    scale = numbers.one("scale_embeddings", 1)
    file, name = numbers.file, "decoder/scale_embeddings"
    is_flag = name not in file.tensors or file.tensors[name].dtype.startswith("int")
    if is_flag:
        return bool(scale)
    for value, scales in ((1.0, False), (dim**0.5, True)):
        if math.isclose(scale, value, rel_tol=CLOSE):
            return scales
    raise refused(file, f"scale_embeddings {scale}")


def _scales_logits(numbers: Numbers, dim: int) -> bool:
    scale = numbers.get("decoder/scale_outputs")
    if scale is None or math.isclose(scale, 1.0, rel_tol=CLOSE):
        return False
    if math.isclose(scale, dim**-0.5, rel_tol=CLOSE):
        return True
    raise refused(numbers.file, f"scale_outputs {scale}")


def _ends_source(given: Mapping[str, Any], vocabularies: Vocabularies) -> bool:
    """Whether a source ends with the end token.

    Where `config.json` does not ask for it, models of `transformers` still expect it of
    their tokenizer. They start with their end, with padding or with zeros; models of
    OpenNMT, which have no end there, start with a token of its own.
    """
    if "source_end" in given:
        return bool(given["source_end"])
    ids = vocabularies.special_ids
    starts = (ids["pad_id"], ids["end_id"])
    return bool(given["add_source_eos"]) or ids["start_id"] in starts


def equal_tables(numbers: Numbers, positions: Positions) -> tuple[tuple[str, ...], ...]:
    """Names of tables of relative positions that must be equal: one for each layer."""
    if positions.fields["position"] != "relative_buckets":
        return ()
    return tuple(
        tuple(
            f"{stack}/layer_{i}/self_attention/{ctranslate2_positions.BIAS}"
            for i in range(numbers.layers(stack))
        )
        for stack in ctranslate2_positions.STACKS
    )
