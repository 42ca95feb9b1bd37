"""CTranslate2 folders, and packages of Argos Translate, which hold one.

Reference: Klein et al., 2020, https://aclanthology.org/2020.ngt-1.25; Finlay and Argos
Translate, https://github.com/argosopentech/argos-translate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.control_characters import escaped
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.importing.argos import METADATA
from keras_transformer.importing.families import ctranslate2_layers
from keras_transformer.importing.families import ctranslate2_positions
from keras_transformer.importing.families import ctranslate2_vocabulary
from keras_transformer.importing.families import marian
from keras_transformer.importing.families import t5
from keras_transformer.importing.families.ctranslate2_layers import CLOSE
from keras_transformer.importing.families.ctranslate2_layers import OUTPUT
from keras_transformer.importing.families.ctranslate2_layers import TARGET_EMBEDDINGS
from keras_transformer.importing.families.ctranslate2_layers import source_embeddings
from keras_transformer.importing.families.ctranslate2_positions import Positions
from keras_transformer.importing.families.ctranslate2_positions import refused
from keras_transformer.importing.families.ctranslate2_vocabulary import NO_ROW
from keras_transformer.importing.families.ctranslate2_vocabulary import Vocabularies
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.reading import open_tensors
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File
from keras_transformer.importing.source import Source

FAMILY, ARGOS = "CTranslate2", "Argos Translate"
_MODEL, _INSIDE = "model.bin", "model"
#: Kind of the model -> its heads, where an old file does not say them.
_HEADS = {"TransformerSpec": None, "TransformerBase": 8, "TransformerBig": 16}
#: In the order of their numbers.
_ACTIVATIONS = ("relu", "gelu_tanh", "swish", "gelu", "gelu_sigmoid")
_SHOWN = 60  # characters of a name from a file
#: Keys of `config.json` that are read.
_CONFIG = {
    "add_source_bos": False,
    "add_source_eos": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "layer_norm_epsilon": None,
    "multi_query_attention": False,
}
_START = "decoder_start_token"
#: The search of the library, which wants a piece before the end; that of Argos.
_SEARCH: dict[str, Any] = {
    "beam_size": 2,
    "normalization": "average",
    "min_length": 2,
}
_ARGOS_SEARCH = {
    **_SEARCH,
    "beam_size": 4,
    "normalization": "power",
    "length_penalty": 0.2,
}
#: Options of the library's search that a config may hold -> ours.
_OPTIONS = {
    "beam_size": "beam_size",
    "length_penalty": "length_penalty",
    "max_decoding_length": "max_length",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
}
#: Numbers that change no translation here, by the ends of their names.
_IGNORABLE = (
    "decoder/alignment_heads",
    "decoder/alignment_layer",
    "decoder/alibi_use_positive_positions",
    "decoder/scale_alibi",
    "encoder/embeddings_merge",
    "*/queries_scale",
    "*/num_heads_kv",
    "*/head_dim",
    "encoder/num_heads",
    "decoder/num_heads",
    f"*/{ctranslate2_positions.DISTANCE}",
)


def is_in(source: Source) -> bool:
    """Whether there is a CTranslate2 model, or a package that holds one."""
    if source.path.is_file() and source.path.name != _MODEL:
        return False
    if _is_package(source):
        return True
    return source.has(_MODEL) and ctranslate2_vocabulary.is_in(source)


def open_weights(source: Source) -> TensorFile:
    """Opens `model.bin`.

    Raises:
        InputError: as `open_tensors` does.
    """
    name = f"{_INSIDE}/{_MODEL}" if _is_package(source) else _MODEL
    return open_tensors(plain_file(source.folder, name))


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What such a folder holds.

    Raises:
        InputError: where a file is missing or damaged, there is no tokenizer, or the
            model has parts that this package has not.
    """
    is_package = _is_package(source)
    beside = Source(source.folder / _INSIDE) if is_package else source
    if not isinstance(tensors, CTranslate2File):
        raise InputError(
            f"{tensors.path} is no model of CTranslate2, but its vocabularies lie "
            f"beside it; give the folder that was downloaded"
        )
    if tensors.specification not in _HEADS:
        raise refused(tensors, f"the specification {tensors.specification[:_SHOWN]}")
    own = _own_description(beside)
    numbers = _Numbers(tensors)
    given = _settings(beside, numbers, own)
    vocabularies = _vocabularies(beside, given, numbers)
    positions = ctranslate2_positions.positions(tensors)
    languages, told_by_start = _languages_by_ids(given, vocabularies)
    if given[_START] is None and not told_by_start:
        raise refused(tensors, f"a {_START} that whoever translates gives")
    config = _config(given, numbers, vocabularies, positions)
    tokenizers = ctranslate2_vocabulary.tokenizers(source, beside, vocabularies)
    if languages is None:
        languages = marian.languages_of(tokenizers[0])
        languages = languages or t5.languages_by_tags(tokenizers[0])
    metadata = source.json(METADATA) if is_package else {}
    if is_package:
        languages = _languages_of_package(metadata, config)
    decoding, left_out = _decoding(beside, config, languages, own, is_package)
    if prefix := metadata.get("target_prefix"):
        decoding = decoding.updated({"forced_start": _id_of(prefix, vocabularies)})
    return ForeignModel(
        family=ARGOS if is_package else FAMILY,
        config=config,
        weights={
            **dict(ctranslate2_layers.attention_weights(config, tensors)),
            **dict(ctranslate2_layers.embedding_weights(config, tensors, vocabularies)),
            **positions.weights,
        },
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        decoding=decoding,
        languages=languages,
        left_out=left_out,
        ignorable=(
            *_IGNORABLE,
            *positions.unused,
            *numbers.read,
            *ctranslate2_layers.matrices(tensors),  # names of one that is shared
        ),
        equal=_equal(numbers, positions),
    )


def _is_package(source: Source) -> bool:
    return source.has(METADATA) and source.has(f"{_INSIDE}/{_MODEL}")


# === Numbers of the file ===


class _Numbers:
    """Single numbers of a file, and which of them were asked for."""

    def __init__(self, file: CTranslate2File) -> None:
        self.file = file
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        value = self.file.number(name)
        return default if value is None else value

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
        names = "\n".join(self.file.tensors)
        found = re.findall(rf"^{stack}/layer_(\d+)/", names, re.MULTILINE)
        return 1 + max(map(int, found), default=-1)


def _head_dim(file: CTranslate2File, stack: str) -> int:
    heads = _num_heads(file, stack)
    name = f"{stack}/layer_0/self_attention/linear_1/weight"
    shape = file.tensors[name].shape if name in file.tensors else ()
    if len(shape) != 2:
        raise InputError(
            f"{file.path} lacks the matrix {name!r} of a {FAMILY} model; get the file "
            f"again"
        )
    if shape[1] % heads or shape[1] == 0:
        raise refused(file, f"{heads} heads of {shape[1]} components together")
    return shape[1] // heads


def _num_heads(file: CTranslate2File, stack: str) -> int:
    heads = file.number(f"{stack}/num_heads") or _HEADS[file.specification]
    if heads is None or heads < 1:
        raise refused(file, "no number of heads")
    return int(heads)


# === Architecture ===


def _settings(
    source: Source, numbers: _Numbers, own: Mapping[str, Any]
) -> dict[str, Any]:
    """What `config.json` says, or what files of before said in `model.bin`."""
    given = {**_CONFIG, "pad": None}
    for side in ("bos", "eos"):
        given[f"add_source_{side}"] = bool(numbers.get(f"with_source_{side}", 0))
    user_starts = bool(numbers.get("user_decoder_start_tokens", 0))
    with_start = bool(numbers.get("with_target_bos", 1))
    given |= source.config
    start = given["bos_token"] if with_start else given["eos_token"]
    given.setdefault(_START, None if user_starts else start)
    for name in ("bos_token", "eos_token", "unk_token", _START):
        if not isinstance(given[name], str | (type(None) if name == _START else str)):
            raise InputError(
                f"{source.folder / 'config.json'}: {name} must be a piece, got "
                f"{str(given[name])[:_SHOWN]!r}; get the file again"
            )
    if given["add_source_bos"]:
        raise refused(numbers.file, "add_source_bos, a start token of its sources,")
    if own:
        given["pad"] = own["pad"]
        given["source_end"] = own["source_end"]
    return given


def _vocabularies(
    source: Source, given: Mapping[str, Any], numbers: _Numbers
) -> Vocabularies:
    file = numbers.file
    pieces = ctranslate2_vocabulary.read_pieces(source)
    names = (source_embeddings(file), TARGET_EMBEDDINGS)
    for name, side, held in zip(("source", "target"), names, pieces, strict=True):
        rows = file.tensors[side].shape[:1] if side in file.tensors else ()
        if rows and rows[0] != len(held):
            raise InputError(
                f"{source.folder}: the vocabulary of the {name} has {len(held)} "
                f"pieces, but its matrix {rows[0]} rows; use the files that belong "
                f"together"
            )
    if isinstance(given["pad"], int):
        own_pad = pieces[1][given["pad"]] if given["pad"] < len(pieces[1]) else None
        given = {**given, "pad": own_pad}
    zeros = bool(numbers.get("decoder/start_from_zero_embedding", 0))
    try:
        return ctranslate2_vocabulary.arranged(pieces, given, starts_with_zeros=zeros)
    except InputError as error:
        raise InputError(f"{source.folder}: {error}") from None


def _config(
    given: Mapping[str, Any],
    numbers: _Numbers,
    vocabularies: Vocabularies,
    positions: Positions,
) -> TransformerConfig:
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
        "layer_norm_epsilon": epsilon or (1e-6 if rms else 1e-5),
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


def _check_parts(numbers: _Numbers, layers: list[str]) -> None:
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
            f"{file.path} lacks the matrix {name!r} of a {FAMILY} model; get the file "
            f"again"
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


def _scoring(numbers: _Numbers, layers: list[str]) -> str:
    """`"dot_product"` where no attention scales its queries."""
    names = [f"{layer}/self_attention" for layer in layers]
    names += [f"{layer}/attention" for layer in layers if layer.startswith("decoder")]
    scales = [numbers.get(f"{name}/queries_scale") for name in names]
    plain = all(s is not None and math.isclose(s, 1.0, rel_tol=CLOSE) for s in scales)
    return "dot_product" if plain else "scaled_dot_product"


def _scales_embeddings(numbers: _Numbers, dim: int) -> bool:
    scale = numbers.one("scale_embeddings", 1)
    file, name = numbers.file, "decoder/scale_embeddings"
    is_flag = name not in file.tensors or file.tensors[name].dtype.startswith("int")
    if is_flag:
        return bool(scale)
    for value, scales in ((1.0, False), (dim**0.5, True)):
        if math.isclose(scale, value, rel_tol=CLOSE):
            return scales
    raise refused(file, f"scale_embeddings {scale}")


def _scales_logits(numbers: _Numbers, dim: int) -> bool:
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


def _equal(numbers: _Numbers, positions: Positions) -> tuple[tuple[str, ...], ...]:
    """Tables of relative positions that stand once for each layer."""
    if positions.fields["position"] != "relative_buckets":
        return ()
    return tuple(
        tuple(
            f"{stack}/layer_{i}/self_attention/{ctranslate2_positions.BIAS}"
            for i in range(numbers.layers(stack))
        )
        for stack in ctranslate2_positions.STACKS
    )


# === Languages and search ===


def _languages_by_ids(
    given: Mapping[str, Any], vocabularies: Vocabularies
) -> tuple[Languages | None, bool]:
    """The languages of models that start with their end or with a language."""
    told_by_start = given[_START] is None
    ids = vocabularies.special_ids
    if not vocabularies.shared or ids["start_id"] != ids["end_id"]:
        return None, False
    found = ctranslate2_vocabulary.languages_of(
        vocabularies.target.pieces, told_by_start=told_by_start
    )
    return found, told_by_start and found is not None


def _languages_of_package(
    metadata: Mapping[str, Any], config: TransformerConfig
) -> Languages | None:
    source, target = (metadata.get(f"{end}_code") for end in ("from", "to"))
    if not isinstance(source, str) or not isinstance(target, str):
        raise InputError(
            f"{METADATA} of the package lacks from_code and to_code; get the package "
            f"again"
        )
    return Languages.of(
        {
            "codes": dict.fromkeys((source, target)),
            "source": source,
            "target": target,
            "sources": (source,),
            "targets": (target,),
            "source_layout": ("text", "end") if config.source_end else ("text",),
        },
        METADATA,
    )


def _id_of(piece: Any, vocabularies: Vocabularies) -> int:
    try:
        return vocabularies.target.pieces.index(piece)
    except ValueError:
        raise InputError(
            f"{METADATA}: target_prefix {str(piece)[:_SHOWN]!r} is not in the "
            f"vocabulary of the target; get the package again"
        ) from None


def _decoding(
    source: Source,
    config: TransformerConfig,
    languages: Languages | None,
    own: Mapping[str, Any],
    is_package: bool,
) -> tuple[DecodingOptions, tuple[str, ...]]:
    if source.generation_config:
        return decoding_of(
            source, config, languages, longest=config.max_sequence_length
        )
    options = dict(own.get("search") or (_ARGOS_SEARCH if is_package else _SEARCH))
    notes = ["replace_unknowns of Argos Translate"] if is_package else []
    for key, value in source.config.items():
        if key in _OPTIONS:
            options[_OPTIONS[key]] = value
            if key == "length_penalty":
                options["normalization"] = "power"
        elif key == "min_decoding_length" and isinstance(value, int):
            options["min_length"] = value + 1  # the end included
        elif key not in (*_CONFIG, _START):
            notes.append(f"{escaped(key)[:_SHOWN]} of config.json: unknown; unused")
    try:
        return DecodingOptions.of(options, "search"), tuple(notes)
    except (InputError, TypeError) as error:
        raise InputError(f"{source.folder}: {error}") from None


# === Exports of this package ===


def _own_description(source: Source) -> dict[str, Any]:
    """What `model.json` of an export of this package says; nothing without one."""
    name = "model.json"
    content = source.json(name) if source.has(name) else {}
    if content.get("format") != "ctranslate2":
        return {}
    path = source.folder / name
    if "languages" in content:
        raise InputError(
            f"{path}: the export is of one direction of a multilingual model; import "
            f"nothing, but take the model folder that it was exported from"
        )
    ids, search = content.get("ids"), content.get("search")
    pad = ids.get("pad") if isinstance(ids, dict) else None
    if not isinstance(pad, int) or pad < 0 or not isinstance(search, dict):
        raise InputError(
            f"{path} lacks ids or search; export the model again, with this version"
        )
    return {"pad": pad, "search": search, "source_end": content.get("source_end", True)}
