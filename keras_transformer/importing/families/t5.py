"""T5, T5 v1.1 and Flan-T5, mT5, byT5, MADLAD-400.

Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683; Xue et al., 2021,
https://arxiv.org/abs/2010.11934 (mT5) and 2022, https://arxiv.org/abs/2105.13626
(byT5); Kudugunta et al., 2023, https://arxiv.org/abs/2309.04662 (MADLAD-400).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.data.foreign_pieces import of_bytes
from keras_transformer.data.foreign_pieces import pieces_of
from keras_transformer.data.foreign_pieces import with_pieces
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.checks import check_declared
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.foreign_model import transposed
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

_MODEL = "spiece.model"
_INPUTS = (
    "shared.weight",
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
)
_OUTPUT = "lm_head.weight"
#: Of old files: cross-attention has no positions.
_IGNORABLE = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
_LANGUAGE = re.compile(r"<2([a-z]{2,3}(?:_\w+)?)>")  # <2de>
_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
}
#: The directions that T5 was trained to translate, which its text names.
_NAMES = {"en": "English", "de": "German", "fr": "French", "ro": "Romanian"}
_NOT_TRAINED = (
    "no language is named in the vocabulary: such a model translates only after it was "
    "fine-tuned to, or where the text in front of a line asks for it"
)
_DEFAULTS: dict[str, Any] = {
    "feed_forward_proj": "relu",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "dropout_rate": 0.1,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What a folder of the model type `t5` or `mt5` holds.

    Raises:
        InputError: where a file is missing or damaged, or files do not belong together.
    """
    # The file says whether the matrix of the output is one of its own: what
    # config.json says of it has changed its meaning.
    tied = _OUTPUT not in tensors.tensors or not tensors.tensors.keys() & {*_INPUTS}
    config = _config(source, tied)
    check_declared(config, tensors)
    weights = dict(_weights(config))
    if tied:
        weights["embedding/embeddings"] = kept(held((*_INPUTS, _OUTPUT), tensors))
    else:
        weights["input_embedding/embeddings"] = kept(held(_INPUTS, tensors))
        weights["output_embedding/embeddings"] = kept(_OUTPUT)
    tokenizer = _tokenizer(source, config)
    languages = _languages(source, config, tokenizer)
    decoding, lost = decoding_of(source, config, languages)
    return ForeignModel(
        family="T5",
        config=config,
        weights=weights,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        decoding=decoding,
        languages=languages,
        left_out=lost if languages else (_NOT_TRAINED, *lost),
        ignorable=_IGNORABLE,
        equal=((*_INPUTS, _OUTPUT) if tied else _INPUTS,),
    )


def languages_by_tags(tokenizer: Tokenizer) -> Languages | None:
    """The target languages that a vocabulary has as `<2de>`; None without any."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    matches = enumerate(map(_LANGUAGE.fullmatch, pieces))
    tags = {match[1]: number for number, match in matches if match}
    if not tags:
        return None
    prefixes = {"*": {code: f"<2{code}> " for code in tags}}
    return Languages.of({"codes": dict.fromkeys(tags), "prefixes": prefixes})


def _config(source: Source, tied: bool) -> TransformerConfig:
    given = {**_DEFAULTS, **source.config}
    path = source.folder / "config.json"
    gate, _, activation = str(given["feed_forward_proj"]).rpartition("-")
    if gate and activation == "gelu":
        activation = "gelu_new"  # so says T5 v1.1
    if gate not in ("", "gated") or activation not in _ACTIVATIONS:
        raise InputError(
            f"{path}: feed_forward_proj {str(given['feed_forward_proj'])[:100]!r} is "
            f"not known; known are {', '.join(_ACTIVATIONS)}, and gated- in front"
        )
    try:
        fields = {
            "vocabulary_size": given["vocab_size"],
            "hidden_dim": given["d_model"],
            "intermediate_dim": given["d_ff"],
            "num_heads": given["num_heads"],
            "head_dim": given["d_kv"],
            "value_dim": given["d_kv"],
            "num_encoder_layers": given["num_layers"],
            "num_decoder_layers": given.get("num_decoder_layers")
            or given["num_layers"],
        }
    except KeyError as error:
        raise InputError(f"{path} lacks {error}; get the file again") from None
    # T5 1.0 has one matrix and scales the logits; the later ones neither.
    scaled = given.get("scale_decoder_outputs", given.get("tie_word_embeddings", True))
    try:
        return TransformerConfig.from_dict(
            {
                **fields,
                "feed_forward": "gated" if gate else "plain",
                "feed_forward_bias": False,
                "activation": _ACTIVATIONS[activation],
                "normalize_first": True,
                "normalization_layer": "rms",
                "layer_norm_epsilon": given["layer_norm_epsilon"],
                "attention_scoring": "dot_product",
                "position": "relative_buckets",
                "num_relative_buckets": given["relative_attention_num_buckets"],
                "max_relative_distance": given["relative_attention_max_distance"],
                "scale_embeddings": False,
                "scale_logits": tied and bool(scaled),
                "tie_embeddings": "all" if tied else "inputs",
                "dropout": given["dropout_rate"],
                "attention_dropout": given["dropout_rate"],
                "activation_dropout": given["dropout_rate"],
                "pad_id": given["pad_token_id"],
                "start_id": given.get("decoder_start_token_id", given["pad_token_id"]),
                "end_id": given["eos_token_id"],
            }
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _weights(config: TransformerConfig) -> Iterator[tuple[str, Weight]]:
    gated = config.feed_forward == "gated"
    feed_forward = {
        "inner": "wi_1" if gated else "wi",
        **({"gate": "wi_0"} if gated else {}),
        "outer": "wo",
    }
    sides = {
        "encoder": (config.num_encoder_layers, {"self_attention": "SelfAttention"}),
        "decoder": (
            config.num_decoder_layers,
            {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"},
        ),
    }
    for side, (count, attentions) in sides.items():
        position = "source_position" if side == "encoder" else "target_position"
        name = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield f"{position}/embeddings", kept(name)
        for index in range(count):
            ours = f"{side}_{index}"
            for place, (attention, foreign) in enumerate(attentions.items()):
                layer = f"{side}.block.{index}.layer.{place}"
                for part in ("query", "key", "value", "output"):
                    yield (
                        f"{ours}/{attention}/{part}_kernel",
                        transposed(f"{layer}.{foreign}.{part[0]}.weight"),
                    )
                yield (
                    f"{ours}/{attention}_residual/norm/scale",
                    kept(f"{layer}.layer_norm.weight"),
                )
            layer = f"{side}.block.{index}.layer.{len(attentions)}"
            for part, foreign in feed_forward.items():
                yield (
                    f"{ours}/feed_forward/{part}_kernel",
                    transposed(f"{layer}.DenseReluDense.{foreign}.weight"),
                )
            yield (
                f"{ours}/feed_forward_residual/norm/scale",
                kept(f"{layer}.layer_norm.weight"),
            )
        yield f"{side}_norm/scale", kept(f"{side}.final_layer_norm.weight")


def _tokenizer(source: Source, config: TransformerConfig) -> Tokenizer:
    size = config.source_vocabulary_size
    if source.first(_MODEL) is None and _is_of_bytes(source):
        return Tokenizer(of_bytes(size))
    model = source.bytes(_MODEL)
    try:
        pieces = pieces_of(model)
        if len(pieces) > size:
            raise InputError(
                f"the tokenizer has {len(pieces)} pieces, but the matrix of "
                f"config.json has {size} rows; use the files that belong together"
            )
        # T5's sentinels stand behind the pieces, the first one last.
        count = min(_num_sentinels(source), size - len(pieces))
        sentinels = [f"<extra_id_{number}>" for number in reversed(range(count))]
        sentinels = [piece for piece in sentinels if piece not in pieces]
        used = [*pieces, *sentinels]
        fillers = [f"<unused {number}>" for number in range(len(used), size)]
        return Tokenizer(
            with_pieces(
                model,
                [*used, *fillers],
                start=pieces[config.start_id],
                control=[*sentinels, *fillers],
            )
        )
    except (InputError, IndexError) as error:
        raise InputError(f"{source.folder / _MODEL}: {error}") from None


def _num_sentinels(source: Source) -> int:
    given = source.tokenizer_config
    count = given.get("extra_ids", 100)
    return count if isinstance(count, int) and 0 <= count <= 10_000 else 100


def _is_of_bytes(source: Source) -> bool:
    given = source.tokenizer_config
    return (given.get("tokenizer_class") or source.config.get("tokenizer_class")) in (
        "ByT5Tokenizer",
        "ByT5TokenizerFast",
    )


def _languages(
    source: Source, config: TransformerConfig, tokenizer: Tokenizer
) -> Languages | None:
    """By tags such as `<2de>`, or of T5 1.0 by the text in front of a line."""
    if tagged := languages_by_tags(tokenizer):
        return tagged
    if not config.scale_logits or source.config.get("model_type") != "t5":
        return None
    return Languages.of(
        {
            "codes": dict.fromkeys(_NAMES),
            "source": "en",
            "sources": ("en",),
            "targets": tuple(code for code in _NAMES if code != "en"),
            "prefixes": {
                "en": {
                    code: f"translate English to {name}: "
                    for code, name in _NAMES.items()
                    if code != "en"
                }
            },
        }
    )
