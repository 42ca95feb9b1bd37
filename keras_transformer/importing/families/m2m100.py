"""M2M100, NLLB-200, SMaLL-100 and the multilingual models of WMT 2021.

Reference: Fan et al., 2020, https://arxiv.org/abs/2010.11125; NLLB Team, 2022,
https://arxiv.org/abs/2207.04672; Mohammadshahi et al., 2022,
https://arxiv.org/abs/2210.11621 (SMaLL-100).
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config.languages import Languages
from keras_transformer.data.foreign_pieces import pieces_of
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.families import fairseq_pieces
from keras_transformer.importing.families import language_codes
from keras_transformer.importing.families.encoder_decoder import EMBEDDINGS
from keras_transformer.importing.families.encoder_decoder import architecture
from keras_transformer.importing.families.transformer_layers import layer_weights
from keras_transformer.importing.families.transformer_layers import norm_weights
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

_NLLB_LICENCE = "cc-by-nc-4.0"  # of all NLLB-200 models
_NUM_SPECIAL = len(fairseq_pieces.SPECIAL)
_IGNORABLE = ("model.*coder.embed_positions.weights", "final_logits_bias")


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a folder of the model type `m2m_100` holds.

    Raises:
        InputError: where a file is missing or damaged, or files do not belong together.
    """
    config = architecture(
        source,
        normalize_first=True,
        start_id=source.config.get("decoder_start_token_id", fairseq_pieces.END_ID),
        position="sinusoidal_halves_t2t",
        position_offset=2,  # after the id of padding
        max_sequence_length=source.config.get("max_position_embeddings", 1024),
    )
    check_declared(config, tensors)
    weights = {
        "embedding/embeddings": kept(held(EMBEDDINGS, tensors)),
        **layer_weights(config),
        **norm_weights("encoder_norm", "model.encoder.layer_norm"),
        **norm_weights("decoder_norm", "model.decoder.layer_norm"),
    }
    is_nllb = not source.has("vocab.json")
    read_vocabulary = _nllb_vocabulary if is_nllb else _m2m_vocabulary
    tokenizer, codes = read_vocabulary(source, config.source_vocabulary_size)
    languages = _languages(source, codes)
    decoding, lost = decoding_of(source, config, languages)
    return ForeignModel(
        family="NLLB" if is_nllb else "M2M100",
        config=config,
        weights=weights,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        decoding=decoding,
        languages=languages,
        licence=source.licence or (_NLLB_LICENCE if is_nllb else None),
        left_out=lost,
        ignorable=_IGNORABLE,
        equal=(EMBEDDINGS,),
    )


def _nllb_vocabulary(source: Source, size: int) -> tuple[Tokenizer, dict[str, int]]:
    own = pieces_of(fairseq_pieces.model_of(source))
    pieces = [*fairseq_pieces.SPECIAL, *own[_NUM_SPECIAL - 1 :]]
    languages = _listed(source) or list(language_codes.NLLB)
    fairseq_pieces.check_listed(source, languages, len(pieces))
    tokenizer = fairseq_pieces.tokenizer_of(
        source, pieces, [*languages, "<mask>"], size
    )
    return tokenizer, {code: i for i, code in enumerate(languages, len(pieces))}


def _m2m_vocabulary(source: Source, size: int) -> tuple[Tokenizer, dict[str, int]]:
    pieces = source.vocabulary("vocab.json")
    wmt = source.tokenizer_config.get("language_codes") == "wmt21"
    codes = language_codes.WMT21 if wmt else language_codes.M2M100
    languages = _listed(source) or [f"__{code}__" for code in codes]
    fairseq_pieces.check_listed(source, languages, len(pieces))
    tokenizer = fairseq_pieces.tokenizer_of(source, pieces, languages, size)
    return tokenizer, {
        name.strip("_"): number for number, name in enumerate(languages, len(pieces))
    }


def _listed(source: Source) -> list[str]:
    """The languages that a folder lists, in the order of their ids."""
    name = "special_tokens_map.json"
    tokens = source.json(name) if source.has(name) else {}
    for listed in (tokens, source.tokenizer_config):
        languages = listed.get("additional_special_tokens")
        if languages:
            names = [e.get("content") if isinstance(e, dict) else e for e in languages]
            return [str(name) for name in names if name != "<mask>"]
    return []


def _languages(source: Source, codes: dict[str, int]) -> Languages:
    fields: dict[str, Any] = {
        "codes": codes,
        "source_layout": ("source", "text", "end"),
        "target_layout": ("target", "text", "end"),
        **fairseq_pieces.defaults(source, codes),
    }
    tokenizer = source.tokenizer_config
    if tokenizer.get("tokenizer_class") == "SMALL100Tokenizer":
        # The language of the target stands in front of the source; none is forced.
        fields["source_layout"] = ("target", "text", "end")
        fields["target_layout"] = ("text", "end")
    elif tokenizer.get("legacy_behaviour") is True:
        fields["source_layout"] = ("text", "end", "source")
    return Languages.of(fields)
