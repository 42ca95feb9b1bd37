"""MarianMT folders of `transformers`: the models of OPUS-MT on the hub.

Reference: Junczys-Dowmunt et al., 2018, https://arxiv.org/abs/1804.00344; Tiedemann and
Thottingal, 2020, https://aclanthology.org/2020.eamt-1.61.
"""

from __future__ import annotations

import re

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.data.foreign_pieces import with_pieces
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.families.encoder_decoder import architecture
from keras_transformer.importing.families.transformer_layers import layer_weights
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

FAMILY = "MarianMT"
_LANGUAGE = re.compile(r">>([^<>]+)<<")
_BIAS = "final_logits_bias"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
#: Sinusoids, which the config says too.
_IGNORABLE = ("model.*coder.embed_positions.weight",)
#: The bias of padding, which no search writes: as if it were forbidden.
_NEVER = -30.0


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a MarianMT folder holds.

    Raises:
        InputError: where a file is missing or damaged, or the model has parts that this
            package has not.
    """
    given = source.config
    for name in ("normalize_before", "add_final_layer_norm", "normalize_embedding"):
        if given.get(name):
            raise InputError(
                f"{source.folder}: a {FAMILY} model with {name} cannot be imported: "
                f"transformers itself does not compute it; translate with Marian"
            )
    config = _config(source)
    check_declared(config, tensors)
    groups = _embeddings(config.tie_embeddings)
    weights = layer_weights(config)
    for path, names in groups.items():
        weights[path] = kept(held(names, tensors))
    matrix = [path for path in weights if path.endswith("/embeddings")][-1]
    weights[matrix.replace("/embeddings", "/bias")] = _bias(config, tensors)
    source_tokenizer, target_tokenizer = _tokenizers(source, config)
    languages = languages_of(source_tokenizer)
    decoding, lost = decoding_of(
        source, config, languages, longest=config.max_sequence_length
    )
    return ForeignModel(
        family=FAMILY,
        config=config,
        weights=weights,
        source_tokenizer=source_tokenizer,
        target_tokenizer=target_tokenizer,
        decoding=decoding,
        languages=languages,
        left_out=lost,
        ignorable=_IGNORABLE,
        equal=tuple(groups.values()),
    )


def languages_of(tokenizer: Tokenizer) -> Languages | None:
    """The target languages that a vocabulary has as `>>code<<`; None without any."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    found = map(_LANGUAGE.fullmatch, pieces)
    codes = {match[1]: i for i, match in enumerate(found) if match}
    fields = {"codes": codes, "source_layout": ("target", "text", "end")}
    return Languages.of(fields) if codes else None


def _config(source: Source) -> TransformerConfig:
    given = source.config
    shared = bool(given.get("share_encoder_decoder_embeddings", True))
    tied = bool(given.get("tie_word_embeddings", True))
    return architecture(
        source,
        target_vocabulary_size=given.get("decoder_vocab_size")
        or given.get("vocab_size"),
        tie_embeddings={
            (True, True): "all",
            (False, True): "target",
            (True, False): "inputs",
            (False, False): "none",
        }[shared, tied],
        output_bias=True,
        position="sinusoidal_halves",
        max_sequence_length=given.get("max_position_embeddings", 1024),
    )


def _embeddings(tied: str) -> dict[str, tuple[str, ...]]:
    """By path, the names of one matrix; a file has one of them, or several."""
    inputs = (_SHARED, _SOURCE, _TARGET)
    groups: dict[str, dict[str, tuple[str, ...]]] = {
        "all": {"embedding/embeddings": (*inputs, _OUTPUT)},
        "target": {
            "source_embedding/embeddings": (_SOURCE,),
            "target_embedding/embeddings": (_TARGET, _OUTPUT),
        },
        "inputs": {
            "input_embedding/embeddings": inputs,
            "output_embedding/embeddings": (_OUTPUT,),
        },
        "none": {
            "source_embedding/embeddings": (_SOURCE,),
            "target_embedding/embeddings": (_TARGET,),
            "output_embedding/embeddings": (_OUTPUT,),
        },
    }
    return groups[tied]


def _bias(config: TransformerConfig, tensors: TensorFile) -> Weight:
    def forbidding(values: np.ndarray) -> np.ndarray:
        bias = np.array(values, np.float32).ravel()
        bias[config.pad_id :][:1] = _NEVER
        return bias

    if _BIAS in tensors.tensors:
        return Weight((_BIAS,), forbidding)
    zeros = np.zeros(config.target_vocabulary_size, np.float32)
    return Weight((), lambda: forbidding(zeros))


def _tokenizers(source: Source, config: TransformerConfig) -> tuple[Tokenizer, ...]:
    separate = source.tokenizer_config.get("separate_vocabs")
    sides = {
        "source": ("source.spm", "vocab.json", config.source_vocabulary_size),
        "target": (
            "target.spm",
            "target_vocab.json" if separate else "vocab.json",
            config.target_vocabulary_size,
        ),
    }
    return tuple(_tokenizer(source, config, *side) for side in sides.values())


def _tokenizer(
    source: Source, config: TransformerConfig, model: str, vocabulary: str, size: int
) -> Tokenizer:
    pieces = source.vocabulary(vocabulary)
    if len(pieces) != size:
        raise InputError(
            f"{source.folder / vocabulary} has {len(pieces)} pieces, but the matrix of "
            f"config.json has {size} rows; use the files that belong together"
        )
    special = {name: pieces[i] for name, i in config.special_ids.items()}
    try:
        return Tokenizer(
            with_pieces(
                source.bytes(model),
                pieces,
                start=special["start_id"],
                end=special["end_id"],
                pad=special["pad_id"],
                control=list(filter(_LANGUAGE.fullmatch, pieces)),
            )
        )
    except InputError as error:
        raise InputError(f"{source.folder / model}: {error}") from None
