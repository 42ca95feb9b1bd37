"""FSMT: fairseq's translators of WMT 2019 and others, as folders of `transformers`.

Reference: Ng et al., 2019, https://arxiv.org/abs/1907.06616.
"""

from __future__ import annotations

from keras_transformer.config import TransformerConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.families import listed_vocabulary
from keras_transformer.importing.families.encoder_decoder import architecture
from keras_transformer.importing.families.fairseq_pieces import END_ID
from keras_transformer.importing.families.fairseq_pieces import PAD_ID
from keras_transformer.importing.families.transformer_layers import layer_weights
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

_SOURCE = "model.encoder.embed_tokens.weight"
#: One matrix, whatever `tie_word_embeddings` says.
_TARGET = (
    "model.decoder.embed_tokens.weight",
    "model.decoder.output_projection.weight",
)
_IGNORABLE = ("model.*coder.embed_positions.weight", "model.*coder.version")


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a folder of the model type `fsmt` holds.

    Raises:
        InputError: where a file is missing or damaged, files do not belong together, or
            `sacremoses` is not installed.
    """
    config = _config(source)
    sizes = config.source_vocabulary_size, config.target_vocabulary_size
    target = held(_TARGET, tensors)
    check_declared(config, tensors)
    tokenizers = [
        _tokenizer(source, config, name, language, size)
        for name, language, size in zip(
            ("vocab-src.json", "vocab-tgt.json"), _languages(source), sizes, strict=True
        )
    ]
    decoding, lost = decoding_of(source, config, longest=config.longest_sequence)
    return ForeignModel(
        family="FSMT",
        config=config,
        weights={
            "source_embedding/embeddings": kept(_SOURCE),
            "target_embedding/embeddings": kept(target),
            **layer_weights(config),
        },
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        decoding=decoding,
        left_out=lost,
        ignorable=_IGNORABLE,
        equal=(_TARGET,),
    )


def _config(source: Source) -> TransformerConfig:
    given = {
        "activation_function": "relu",
        "max_position_embeddings": 1024,
        "pad_token_id": PAD_ID,
        "decoder_start_token_id": END_ID,
        "scale_embedding": True,
        **source.config,
    }
    path = source.folder / "config.json"
    try:
        source_size, target_size = given["src_vocab_size"], given["tgt_vocab_size"]
    except KeyError as error:
        raise InputError(f"{path} lacks {error}; get the file again") from None
    pad_id = given["pad_token_id"]
    if not isinstance(pad_id, int):
        raise InputError(
            f"{path}: pad_token_id must be a number, got {str(pad_id)[:100]!r}; get "
            f"the file again"
        )
    return architecture(
        source,
        source_vocabulary_size=source_size,
        target_vocabulary_size=target_size,
        tie_embeddings="target",
        activation=given["activation_function"],
        scale_embeddings=bool(given["scale_embedding"]),
        pad_id=pad_id,
        start_id=given["decoder_start_token_id"],
        position="sinusoidal_halves_t2t",
        position_offset=pad_id + 1,
        max_sequence_length=given["max_position_embeddings"],
    )


def _languages(source: Source) -> tuple[str, str]:
    """The languages of source and target, which decide the rules of Moses."""
    languages = source.tokenizer_config.get("langs") or source.config.get("langs")
    codes = languages if isinstance(languages, list) else []
    if len(codes) != 2 or not all(isinstance(code, str) for code in codes):
        raise InputError(
            f"{source.folder}: langs in tokenizer_config.json must be two languages, "
            f"got {str(languages)[:100]!r}; get the file again"
        )
    return codes[0], codes[1]


def _tokenizer(
    source: Source, config: TransformerConfig, name: str, language: str, size: int
) -> Tokenizer:
    pieces = source.vocabulary(name)
    rules = listed_vocabulary.rules_of(
        source,
        pieces,
        config,
        kind="moses",
        language=language,
        lowercase=source.tokenizer_config.get("do_lower_case") is True,
    )
    merges = listed_vocabulary.merges_of(source)
    return listed_vocabulary.listed_tokenizer(source, pieces, merges, rules, size)
