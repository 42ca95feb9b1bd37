"""Architecture of the encoder-decoder models of `transformers` that descend from BART.

MarianMT, M2M100, NLLB and mBART share names in `config.json` and names of tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import flattened
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

#: Names of the matrix of embeddings: a file has one of them, or several.
EMBEDDINGS = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
OUTPUT_BIAS = "final_logits_bias"

#: Theirs -> ours.
_FIELDS = {
    "d_model": "hidden_dim",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_heads",
    "encoder_ffn_dim": "intermediate_dim",
    "pad_token_id": "pad_id",
    "eos_token_id": "end_id",
}
_DECODER_FIELDS = {
    "decoder_attention_heads": "decoder_num_heads",
    "decoder_ffn_dim": "decoder_intermediate_dim",
}
_DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")


def architecture(source: Source, **fields: Any) -> TransformerConfig:
    """The config of a model, by the `config.json` of its folder.

    Args:
        source: the folder.
        fields: of `TransformerConfig`, beside attention biases, epsilon 1e-5 and one
            matrix for all embeddings, which most of these models have.

    Raises:
        InputError: where `config.json` lacks something, or says what no model has.
    """
    given = {"dropout": 0.1, "activation_function": "gelu", **source.config}
    path = source.folder / "config.json"
    try:
        sizes = {ours: given[theirs] for theirs, ours in _FIELDS.items()}
        for theirs, ours in _DECODER_FIELDS.items():
            if given[theirs] != sizes[ours.removeprefix("decoder_")]:
                sizes[ours] = given[theirs]
        if "source_vocabulary_size" not in fields:
            one_size = "target_vocabulary_size" not in fields
            name = "vocabulary_size" if one_size else "source_vocabulary_size"
            sizes[name] = given["vocab_size"]
        if "start_id" not in fields:
            sizes["start_id"] = given["decoder_start_token_id"]
    except KeyError as error:
        raise InputError(f"{path} lacks {error}; get the file again") from None
    try:
        return TransformerConfig.from_dict(
            {
                **sizes,
                **{name: given[name] for name in _DROPOUTS if name in given},
                "tie_embeddings": "all",
                "scale_embeddings": bool(given.get("scale_embedding")),
                "activation": given["activation_function"],
                "use_bias": True,
                "layer_norm_epsilon": 1e-5,
                **fields,
            }
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def learned_positions(source: Source) -> dict[str, Any]:
    """The fields of positions that were learned, of BART and mBART."""
    longest = source.config.get("max_position_embeddings", 1024)
    if not isinstance(longest, int):
        raise InputError(
            f"{source.folder / 'config.json'}: max_position_embeddings must be a "
            f"number, got {longest!r}; get the file again"
        )
    return {
        "position": "learned",
        "position_offset": 2,  # after the id of padding
        "max_sequence_length": longest + 2,
        "output_bias": True,
    }


def output_bias(config: TransformerConfig, tensors: TensorFile) -> Weight:
    """The bias of the logits; zeros where the file has none."""
    if OUTPUT_BIAS in tensors.tensors:
        return flattened(OUTPUT_BIAS)
    size = config.target_vocabulary_size
    return Weight((), lambda: np.zeros(size, np.float32))
