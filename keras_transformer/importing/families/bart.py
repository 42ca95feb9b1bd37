"""BART, whose vocabulary is GPT-2's byte-pair encoding of bytes.

Reference: Lewis et al., 2020, https://arxiv.org/abs/1910.13461.
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.families import listed_vocabulary
from keras_transformer.importing.families.encoder_decoder import EMBEDDINGS
from keras_transformer.importing.families.encoder_decoder import architecture
from keras_transformer.importing.families.encoder_decoder import learned_positions
from keras_transformer.importing.families.encoder_decoder import output_bias
from keras_transformer.importing.families.fairseq_pieces import END_ID
from keras_transformer.importing.families.transformer_layers import layer_weights
from keras_transformer.importing.families.transformer_layers import norm_weights
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import MOST_VOCABULARY_BYTES
from keras_transformer.importing.source import Source
from keras_transformer.importing.source import pieces_in_order

FAMILY = "BART"
_PREFIX = "model."
#: What the report and `keras-transformer info` call the one language of a BART, which
#: says nothing of languages: the code of ISO 639 for that.
_LANGUAGE = "und"
_START = "<s>"
_VOCABULARY, _TOKENIZER = "vocab.json", "tokenizer.json"
#: Of old files.
_IGNORABLE = ("*encoder.version", "*decoder.version")
_OTHER_PARTS = (
    "normalize_before",
    "add_final_layer_norm",
    "static_position_embeddings",
)
_NOT_TRAINED = (
    "the files are of the pre-trained model alone (BartModel), which copies its text "
    "until it was fine-tuned to translate"
)


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a folder of the model type `bart` holds.

    Raises:
        InputError: where a file is missing or damaged, files do not belong together, or
            the model has parts that transformers itself does not compute.
    """
    for name in _OTHER_PARTS:
        if source.config.get(name):
            raise InputError(
                f"{source.folder}: a {FAMILY} model with {name} cannot be imported: "
                f"transformers itself does not compute it; translate with fairseq"
            )
    config = architecture(
        source,
        normalize_first=False,
        embedding_norm=True,
        start_id=source.search_config.get("decoder_start_token_id", END_ID),
        **learned_positions(source),
    )
    is_bare = not any(name.startswith(_PREFIX) for name in tensors.tensors)
    prefix = "" if is_bare else _PREFIX
    embeddings = tuple(name.replace(_PREFIX, prefix) for name in EMBEDDINGS)
    matrix = held(embeddings, tensors)
    check_declared(config, tensors)
    weights = {
        "embedding/embeddings": kept(matrix),
        "embedding/bias": output_bias(config, tensors),
        **layer_weights(config, prefix),
    }
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        name = f"{prefix}{stack}"
        positions = f"{name}.embed_positions.weight"
        weights[f"{side}_position/embeddings"] = kept(positions)
        norm = f"{name}.layernorm_embedding"
        weights |= norm_weights(f"{side}_embedding_norm", norm)
    tokenizer = _tokenizer(source, config)
    languages = _languages(tokenizer)
    decoding, lost = decoding_of(
        source, config, languages, longest=config.longest_sequence
    )
    return ForeignModel(
        family=FAMILY,
        config=config,
        weights=weights,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        decoding=decoding,
        languages=languages,
        left_out=(_NOT_TRAINED, *lost) if is_bare else lost,
        ignorable=_IGNORABLE,
        equal=(embeddings,),
    )


def _languages(tokenizer: Tokenizer) -> Languages:
    """The `<s>` in front of every text and translation, as a model of one language."""
    (start,) = tokenizer.ids_of([_START])
    return Languages.of(
        {
            "codes": {_LANGUAGE: start},
            "source": _LANGUAGE,
            "target": _LANGUAGE,
            "source_layout": ("source", "text", "end"),
            "target_layout": ("target", "text", "end"),
        }
    )


def _tokenizer(source: Source, config: TransformerConfig) -> Tokenizer:
    prefix_space = source.tokenizer_config.get("add_prefix_space")
    if source.has(_VOCABULARY):
        pieces = source.vocabulary(_VOCABULARY)
        merges = listed_vocabulary.merges_of(source)
    else:
        pieces, merges, of_file = _of_tokenizer_json(source)
        prefix_space = of_file if prefix_space is None else prefix_space
    rules = listed_vocabulary.rules_of(
        source, pieces, config, kind="bytes", prefix_space=bool(prefix_space)
    )
    size = config.source_vocabulary_size
    return listed_vocabulary.listed_tokenizer(source, pieces, merges, rules, size)


def _of_tokenizer_json(source: Source) -> tuple[list[str], list[tuple[str, str]], bool]:
    """Pieces, merges, and whether a space is put in front of a text."""
    path = source.folder / _TOKENIZER
    content = source.json(_TOKENIZER, MOST_VOCABULARY_BYTES)
    model, splitter = (_part(content, name) for name in ("model", "pre_tokenizer"))
    kinds = (model.get("type"), splitter.get("type"), content.get("normalizer"))
    if kinds != ("BPE", "ByteLevel", None):
        raise InputError(
            f"{path} is not byte-level BPE as BART has it; add vocab.json and "
            f"merges.txt of the model"
        )
    try:
        added = {entry["content"]: entry["id"] for entry in content["added_tokens"]}
        ids = {**model["vocab"], **added}
        pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
        merges = [(str(left), str(right)) for left, right in pairs]
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} holds no vocabulary with merges; get it again"
        ) from None
    prefix_space = splitter.get("add_prefix_space") is True
    return pieces_in_order(ids, str(path)), merges, prefix_space


def _part(content: dict[str, Any], name: str) -> dict[str, Any]:
    part = content.get(name)
    return part if isinstance(part, dict) else {}
