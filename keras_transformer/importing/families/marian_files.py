"""Marian's own files: `.npz` of OPUS-MT, `.bin` of Bergamot and Firefox Translations.

Positions are those of Marian, which conversions by other toolkits get wrong.

Reference: Junczys-Dowmunt et al., 2018, https://arxiv.org/abs/1804.00344; Kim et al.,
2019, https://aclanthology.org/D19-5632 (SSRU).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np
import yaml

from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.data.foreign_pieces import pieces_of
from keras_transformer.data.foreign_pieces import with_pieces
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.families.marian import languages_of
from keras_transformer.importing.families.marian_layers import marian_layers
from keras_transformer.importing.families.marian_vocabulary import yaml_pieces
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.reading import open_tensors
from keras_transformer.importing.source import MOST_VOCABULARY_BYTES
from keras_transformer.importing.source import Source

FAMILY = "Marian"
_CONFIG = "special:model.yml"
#: The config, and the scales of int8 activations.
_IGNORABLE = (_CONFIG, "*QuantMultA")
_BIAS, _OUTPUT = "decoder_ff_logit_out_b", "decoder_ff_logit_out_W"
_END, _UNKNOWN = "</s>", "<unk>"
_LANGUAGE = re.compile(r">>[^<>]+<<")
#: Of what no search writes.
_NEVER = -30.0
#: Options that change what a Transformer computes -> the values that this package has.
_NEEDED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-dim-ffn": (0,),
    "transformer-no-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-no-affine": (False,),
    "transformer-no-bias": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-dim-model": (0,),
    "layer-normalization": (False,),
    "right-left": (False,),
    "input-types": ([], ["sequence"]),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "bert-train-type-embeddings": (True, False),
}
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}


class _Vocabulary(NamedTuple):
    """Pieces of one side, and the SentencePiece model that cuts text into them."""

    pieces: list[str]
    model: bytes
    names: str


def is_in(source: Source) -> bool:
    """Whether there are such files, as far as their names tell."""
    if source.path.is_file():
        return source.path.name.endswith((".npz", ".bin", ".bin.gz"))
    binary = source.names("*.bin", "*.bin.gz")
    return bool(
        source.names("*.npz") or (binary and source.names("*.spm", "*vocab.yml"))
    )


def open_weights(source: Source) -> TensorFile:
    """Opens the weights: in a folder, the `.npz` that `decoder.yml` or its name tells.

    Raises:
        InputError: as `open_tensors` does.
    """
    if source.path.is_file():
        return open_tensors(source.path)
    named = _decoder(source).get("models")
    found = [n for n in source.names("*.npz") if not n.endswith(".optimizer.npz")]
    if isinstance(named, list) and len(named) == 1 and str(named[0]) in found:
        found = [str(named[0])]
    only = len(found) == 1
    return open_tensors(source.folder / found[0] if only else source.folder)


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What Marian's files hold.

    Raises:
        InputError: where a file is missing or damaged, or the model has parts that this
            package has not.
    """
    if _CONFIG not in tensors.tensors:
        raise InputError(
            f"{tensors.path} is no model of Marian: it holds no {_CONFIG}; give the "
            f"folder that was downloaded"
        )
    given = _yaml(tensors.text(_CONFIG), f"{tensors.path}, {_CONFIG}")
    _check(given, tensors)
    sides = _vocabularies(source, _rows(tensors))
    # One id of padding for both sides: the shorter vocabulary is filled up.
    pad_id = max(len(side.pieces) for side in sides)
    config = _config(given, tensors, pad_id)
    tokenizers = [_tokenizer(side, pad_id, source) for side in sides]
    decoding, left_out = _search(source, tensors)
    weights = dict(marian_layers(config))
    weights |= _positions(config)
    weights |= _embeddings(config, tensors, [len(side.pieces) for side in sides])
    unknown = sides[1].pieces.index(_UNKNOWN)
    return ForeignModel(
        family=FAMILY,
        config=config,
        weights=weights,
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        decoding=decoding.updated({"suppressed_tokens": (unknown,)}),
        languages=languages_of(tokenizers[0]),
        left_out=left_out,
        ignorable=_IGNORABLE,
    )


# === Architecture ===


def _check(given: Mapping[str, Any], tensors: TensorFile) -> None:
    for name, values in _NEEDED.items():
        value = given.get(name, values[0])
        if value not in values:
            raise InputError(
                f"{tensors.path}: a {FAMILY} model with {name} {str(value)[:100]!r} "
                f"cannot be imported; translate with Marian"
            )
    for name in ("factor", "lemma"):
        if any(name in tensor for tensor in tensors.tensors):
            raise InputError(
                f"{tensors.path}: a {FAMILY} model with factored vocabularies cannot "
                f"be imported; translate with Marian"
            )


def _config(
    given: Mapping[str, Any], tensors: TensorFile, pad_id: int
) -> TransformerConfig:
    def refused(name: str) -> InputError:
        value = str(given.get(name))[:100]
        return InputError(
            f"{tensors.path}: a {FAMILY} model with {name} {value!r} cannot be "
            f"imported; translate with Marian"
        )

    decoder = given.get("transformer-decoder-autoreg", "self-attention")
    if decoder == "rnn":
        if given.get("dec-cell") != "ssru":
            raise refused("dec-cell")
        decoder = "ssru"
    elif decoder == "self-attention":
        decoder = "attention"
    else:
        raise refused("transformer-decoder-autoreg")
    activation = given.get("transformer-ffn-activation", "swish")
    if activation not in _ACTIVATIONS:
        raise refused("transformer-ffn-activation")
    before = "n" in str(given.get("transformer-preprocess", ""))
    after = "n" in str(given.get("transformer-postprocess", "dan"))
    if before == after:
        raise refused("transformer-preprocess")
    learned = bool(given.get("transformer-train-position-embeddings"))
    try:
        fields = {
            "vocabulary_size": pad_id + 1,
            "hidden_dim": given["dim-emb"],
            "intermediate_dim": given["transformer-dim-ffn"],
            "num_heads": given["transformer-heads"],
            "num_encoder_layers": given["enc-depth"],
            "num_decoder_layers": given["dec-depth"],
        }
    except KeyError as error:
        raise InputError(
            f"{tensors.path}, {_CONFIG}: {error} is missing; get the file again"
        ) from None
    if decoder != "attention":
        fields["decoder"] = decoder
    if learned and "Wpos" in tensors.tensors:
        fields["max_sequence_length"] = tensors.tensors["Wpos"].shape[0]
    try:
        return TransformerConfig.from_dict(
            {
                **fields,
                "tie_embeddings": _tied(given),
                "activation": _ACTIVATIONS[activation],
                "normalize_first": before,
                "final_norm": "n" in str(given.get("transformer-postprocess-top", "")),
                "embedding_norm": "n"
                in str(given.get("transformer-postprocess-emb", "d")),
                "position": "learned" if learned else "sinusoidal_halves_t2t",
                "scale_embeddings": not learned,
                "use_bias": True,
                "output_bias": True,
                "layer_norm_epsilon": 1e-6,
                "pad_id": pad_id,
                "start_id": pad_id,
                "end_id": 0,
            }
        )
    except InputError as error:
        raise InputError(f"{tensors.path}, {_CONFIG}: {error}") from None


def _tied(given: Mapping[str, Any]) -> str:
    if given.get("tied-embeddings-all"):
        return "all"
    names = ("tied-embeddings-src", "tied-embeddings")
    return {
        (True, True): "all",
        (True, False): "inputs",
        (False, True): "target",
        (False, False): "none",
    }[bool(given.get(names[0])), bool(given.get(names[1]))]


# === Weights ===


def _rows(tensors: TensorFile) -> list[int]:
    """The rows of the embeddings of source and target."""
    rows = []
    for side in ("encoder", "decoder"):
        name = "Wemb" if "Wemb" in tensors.tensors else f"{side}_Wemb"
        if name not in tensors.tensors or not tensors.tensors[name].shape:
            raise InputError(
                f"{tensors.path} lacks the tensor {name!r} of a {FAMILY} model; get "
                f"the file again"
            )
        rows.append(tensors.tensors[name].shape[0])
    return rows


def _positions(config: TransformerConfig) -> dict[str, Weight]:
    if config.position != "learned":
        return {}
    sides = ("source", "target")
    return {f"{side}_position/embeddings": kept("Wpos") for side in sides}


def _embeddings(
    config: TransformerConfig, tensors: TensorFile, sizes: list[int]
) -> dict[str, Weight]:
    """The matrices with rows of zeros behind them, the last of which starts.

    What Marian's decoder begins with is a vector of zeros.
    """
    source, target = (
        "Wemb" if "Wemb" in tensors.tensors else f"{side}_Wemb"
        for side in ("encoder", "decoder")
    )
    size = config.target_vocabulary_size

    def filled(values: np.ndarray) -> np.ndarray:
        rows = np.zeros((size - len(values), *values.shape[1:]), np.float32)
        return np.concatenate([values, rows])

    def columns_filled(values: np.ndarray) -> np.ndarray:
        return filled(np.transpose(values))

    def forbidding(*values: np.ndarray) -> np.ndarray:
        row = np.ravel(values[0]) if values else np.zeros(sizes[1], np.float32)
        never = np.full(size - len(row), _NEVER, np.float32)
        return np.concatenate([row, never])

    if f"{_OUTPUT}t" in tensors.tensors:
        output = Weight((f"{_OUTPUT}t",), filled)
    else:
        output = Weight((_OUTPUT,), columns_filled)
    paths = {
        "all": {"embedding": Weight((target,), filled)},
        "target": {
            "source_embedding": Weight((source,), filled),
            "target_embedding": Weight((target,), filled),
        },
        "inputs": {
            "input_embedding": Weight((target,), filled),
            "output_embedding": output,
        },
        "none": {
            "source_embedding": Weight((source,), filled),
            "target_embedding": Weight((target,), filled),
            "output_embedding": output,
        },
    }[config.tie_embeddings]
    weights = {f"{path}/embeddings": weight for path, weight in paths.items()}
    names = (_BIAS,) if _BIAS in tensors.tensors else ()
    weights[f"{list(paths)[-1]}/bias"] = Weight(names, forbidding)
    return weights


# === Vocabularies ===


def _vocabularies(source: Source, rows: list[int]) -> list[_Vocabulary]:
    files = _vocabulary_files(source)
    sides = []
    for side, name, size in zip(("source", "target"), files, rows, strict=True):
        if name.endswith((".yml", ".yaml", ".json")):
            text = source.text(name, MOST_VOCABULARY_BYTES)
            pieces = yaml_pieces(text, str(source.folder / name))
            model = source.bytes(_sentencepiece(source, side))
        else:
            model = source.bytes(name)
            pieces = _named(source, name, pieces_of, model)
        if len(pieces) < size:
            raise InputError(
                f"{source.folder / name} has {len(pieces)} pieces, but the matrix of "
                f"the {side} has {size} rows; use the files that belong together"
            )
        pieces = pieces[:size]  # Marian has no others
        if pieces[:1] != [_END] or _UNKNOWN not in pieces:
            raise InputError(
                f"{source.folder / name} is no vocabulary of Marian, which begins with "
                f"{_END} and has {_UNKNOWN}; use the files that belong together"
            )
        sides.append(_Vocabulary(pieces, model, name))
    return sides


def _vocabulary_files(source: Source) -> list[str]:
    """The files of source and target, which `decoder.yml` or their names tell."""
    named = _decoder(source).get("vocabs")
    if isinstance(named, list) and len(named) == 2:
        names = [str(name).replace("\\", "/").rpartition("/")[2] for name in named]
        if all(map(source.has, names)):
            return names
    for patterns in (
        ("*src*vocab*.yml", "*trg*vocab*.yml"),
        ("*vocab*src*.yml", "*vocab*trg*.yml"),
        ("*srcvocab*.spm", "*trgvocab*.spm"),
        ("*vocab*.yml", "*vocab*.yml"),
        ("*vocab*.spm", "*vocab*.spm"),
    ):
        found = [source.names(pattern) for pattern in patterns]
        if all(len(names) == 1 for names in found):
            return [names[0] for names in found]
    raise InputError(
        f"{source.folder} has no vocabulary of Marian, or several (vocab.yml or "
        f"vocab.spm, one for each side, or decoder.yml that names them); get all files "
        f"of the model into a folder of its own"
    )


def _sentencepiece(source: Source, side: str) -> str:
    """The file of the SentencePiece model that cuts text before it is looked up."""
    if name := source.first(f"{side}.spm", "vocab.spm"):
        return name
    if name := source.first(f"{side}.bpe"):
        raise InputError(
            f"{source.folder / name}: models that cut text by subword-nmt cannot be "
            f"imported; take one with {side}.spm, or translate with Marian"
        )
    raise InputError(
        f"{source.folder / side}.spm is missing, which cuts text into the pieces of "
        f"the vocabulary; get all files of the model"
    )


def _tokenizer(side: _Vocabulary, pad_id: int, source: Source) -> Tokenizer:
    taken = set(side.pieces)
    pad = next(n for n in _numbered("<pad>") if n not in taken)
    missing = pad_id - len(side.pieces)
    free = (name for name in _numbered("<filler>") if name not in taken)
    pieces = [*side.pieces, *(next(free) for _ in range(missing)), pad]

    def made() -> Tokenizer:
        languages = list(filter(_LANGUAGE.fullmatch, pieces))
        model = with_pieces(
            side.model,
            pieces,
            unknown=_UNKNOWN,
            start=pad,
            end=_END,
            pad=pad,
            control=languages,
        )
        return Tokenizer(model)

    return _named(source, side.names, made)


def _numbered(name: str) -> Iterator[str]:
    """The name, then others that are like it."""
    yield name
    number = 1
    while True:
        yield f"{name[:-1]}{number}>"
        number += 1


def _named(source: Source, name: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except InputError as error:
        raise InputError(f"{source.folder / name}: {error}") from None


# === Search ===


def _search(
    source: Source, tensors: TensorFile
) -> tuple[DecodingOptions, tuple[str, ...]]:
    """The options of the search, and what of them was left out.

    Without a config of the search: what OPUS-MT's models have, or Firefox' small ones.
    """
    given = _decoder(source)
    small = tensors.path.name.endswith((".bin", ".bin.gz"))
    alpha = given.get("normalize", 0.0 if given else 1.0)
    beams = given.get("beam-size", 1 if small else 6)
    try:
        alpha = float(alpha)
        options = {
            "beam_size": beams,
            "normalization": {1.0: "average", 0.0: "none"}.get(alpha, "power"),
        }
        if options["normalization"] == "power":
            options["length_penalty"] = alpha
        decoding = DecodingOptions.of(options)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source.folder}, its search: {error}") from None
    left_out = []
    if given.get("word-penalty"):
        left_out.append(f"word-penalty {str(given['word-penalty'])[:20]} of the search")
    if given.get("allow-unk"):
        left_out.append("allow-unk of the search: <unk> is never written here")
    if given.get("shortlist"):
        left_out.append("the shortlist, which makes Marian faster")
    return decoding, tuple(left_out)


def _decoder(source: Source) -> dict[str, Any]:
    """The config of the search; nothing where there is none."""
    names = source.names("decoder.yml", "*.decoder.yml", "config*.yml")
    if not names:
        return {}
    name = "decoder.yml" if "decoder.yml" in names else names[0]
    return _yaml(source.text(name), str(source.folder / name))


def _yaml(text: str, where: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except (RecursionError, ValueError, yaml.YAMLError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{where} is not YAML, or is cut off; get the file again")
    return content
