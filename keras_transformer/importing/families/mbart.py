"""mBART-25 and mBART-50.

Reference: Liu et al., 2020, https://arxiv.org/abs/2001.08210; Tang et al., 2020,
https://arxiv.org/abs/2008.00401.
"""

from __future__ import annotations

from typing import Any

from keras_transformer.config.languages import Languages
from keras_transformer.data.foreign_pieces import pieces_of
from keras_transformer.errors import InputError
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.families import fairseq_pieces
from keras_transformer.importing.families import language_codes
from keras_transformer.importing.families.encoder_decoder import EMBEDDINGS
from keras_transformer.importing.families.encoder_decoder import architecture
from keras_transformer.importing.families.encoder_decoder import learned_positions
from keras_transformer.importing.families.encoder_decoder import output_bias
from keras_transformer.importing.families.transformer_layers import layer_weights
from keras_transformer.importing.families.transformer_layers import norm_weights
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

_NUM_SPECIAL = len(fairseq_pieces.SPECIAL)
_NOT_TRAINED = (
    "a folder without a target language of its own is most often pre-trained only: "
    "it copies or invents until it was fine-tuned to translate"
)


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a folder of the model type `mbart` holds.

    Raises:
        InputError: where a file is missing or damaged, or files do not belong together.
    """
    config = architecture(
        source,
        normalize_first=True,
        embedding_norm=True,
        start_id=fairseq_pieces.END_ID,  # mBART-25 starts with the language instead
        **learned_positions(source),
    )
    check_declared(config, tensors)
    weights = {
        "embedding/embeddings": kept(held(EMBEDDINGS, tensors)),
        "embedding/bias": output_bias(config, tensors),
        **layer_weights(config),
    }
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        prefix = f"model.{stack}"
        positions = kept(held((f"{prefix}.embed_positions.weight",), tensors))
        weights[f"{side}_position/embeddings"] = positions
        weights |= norm_weights(f"{stack}_norm", f"{prefix}.layer_norm")
        weights |= norm_weights(
            f"{side}_embedding_norm", f"{prefix}.layernorm_embedding"
        )
    size = config.source_vocabulary_size
    own = pieces_of(fairseq_pieces.model_of(source))
    pieces = [*fairseq_pieces.SPECIAL, *own[_NUM_SPECIAL - 1 :]]
    listed = _codes(source, size - len(pieces))
    tokenizer = fairseq_pieces.tokenizer_of(source, pieces, [*listed, "<mask>"], size)
    codes = {code: number for number, code in enumerate(listed, len(pieces))}
    defaults = fairseq_pieces.defaults(source, codes)
    languages = _languages(listed, codes, defaults)
    decoding, lost = decoding_of(source, config, languages)
    return ForeignModel(
        family="mBART-50" if listed is language_codes.MBART_50 else "mBART-25",
        config=config,
        weights=weights,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        decoding=decoding,
        languages=languages,
        left_out=lost if defaults else (_NOT_TRAINED, *lost),
        equal=(EMBEDDINGS,),
    )


def _codes(source: Source, num_rows: int) -> tuple[str, ...]:
    """The languages, by the tokenizer's class, else by the rows that are no pieces."""
    kind = str(source.tokenizer_config.get("tokenizer_class"))
    if kind.startswith("MBart50"):
        return language_codes.MBART_50
    if kind.startswith("MBart"):
        return language_codes.MBART_25
    for codes in (language_codes.MBART_25, language_codes.MBART_50):
        if num_rows == len(codes) + 1:  # and <mask>
            return codes
    raise InputError(
        f"{source.folder}: {num_rows} rows of the matrix are no pieces, but mBART-25 "
        f"has 26 and mBART-50 53; add the tokenizer_config.json of the model"
    )


def _languages(
    languages: tuple[str, ...], codes: dict[str, int], defaults: dict[str, str]
) -> Languages:
    fields: dict[str, Any] = {"codes": codes, **defaults}
    if languages is language_codes.MBART_50:
        fields["source_layout"] = ("source", "text", "end")
        fields["target_layout"] = ("target", "text", "end")
    else:
        fields["source_layout"] = ("text", "end", "source")
        fields["target_layout"] = ("text", "end", "target")
        fields["decoder_start"] = "target"
    return Languages.of(fields)
