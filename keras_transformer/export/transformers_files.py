"""The contents of the JSON files of a folder of Hugging Face `transformers`."""

from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.config.transformers_layout import Layout
from keras_transformer.data.listed_pieces import ListedPieces
from keras_transformer.errors import InputError
from keras_transformer.export.description import suppressed_ids
from keras_transformer.export.tokenizer_json import tokenizer_json
from keras_transformer.translator import Translator

_ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu_sigmoid": "quick_gelu"}
_T5_ACTIVATIONS = _ACTIVATIONS | {"gelu": "gelu_python"}  # its "gelu" is "gelu_new"


# === config.json ===


def model_config(layout: Layout, direction: Direction) -> dict[str, Any]:
    """The fields of the config of their class.

    Args:
        layout: of the model.
        direction: of its translations.
    """
    config = layout.config
    model_class = layout.model_class
    fields = {
        "architectures": [model_class.name],
        "model_type": model_class.model_type,
        "is_encoder_decoder": True,
        "torch_dtype": "float32",
        "vocab_size": config.source_vocabulary_size,
        "d_model": config.hidden_dim,
        "decoder_start_token_id": direction.start_id,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.end_id,
        "tie_word_embeddings": config.tie_embeddings in ("all", "target"),
    }
    if model_class.model_type == "t5":
        return fields | _t5_config(layout)
    return fields | _bart_config(layout)


def _bart_config(layout: Layout) -> dict[str, Any]:
    config, model_type = layout.config, layout.model_class.model_type
    fields = {
        "forced_eos_token_id": None,  # as `generation_config.json` has it
        "activation_function": _ACTIVATIONS.get(config.activation, config.activation),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "max_position_embeddings": config.longest_sequence,
        "scale_embedding": config.scale_embeddings,
    }
    for side in ("encoder", "decoder"):
        sizes = config.sizes(side)
        fields[f"{side}_layers"] = getattr(config, f"num_{side}_layers")
        fields[f"{side}_attention_heads"] = sizes.num_heads
        fields[f"{side}_ffn_dim"] = sizes.intermediate_dim
    if model_type == "marian":
        fields["decoder_vocab_size"] = config.target_vocabulary_size
        fields["share_encoder_decoder_embeddings"] = config.tie_embeddings == "all"
    if model_type == "fsmt":
        fields["src_vocab_size"] = config.source_vocabulary_size
        fields["tgt_vocab_size"] = config.target_vocabulary_size
        fields["vocab_size"] = config.target_vocabulary_size  # another name of the last
        fields["tie_word_embeddings"] = False  # its file holds each matrix
    return fields


def _t5_config(layout: Layout) -> dict[str, Any]:
    config = layout.config
    activation = _T5_ACTIVATIONS.get(config.activation, config.activation)
    gated = "gated-" if config.feed_forward == "gated" else ""
    return {
        "d_kv": config.head_dim,
        "d_ff": config.intermediate_dim,
        "num_heads": config.num_heads,
        "num_layers": config.num_encoder_layers,
        "num_decoder_layers": config.num_decoder_layers,
        "relative_attention_num_buckets": config.num_relative_buckets,
        "relative_attention_max_distance": config.max_relative_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "feed_forward_proj": gated + activation,
        "tie_word_embeddings": config.scale_logits,  # scales them, if they are tied
        # Its cache has as many layers as the encoder.
        "use_cache": config.num_decoder_layers <= config.num_encoder_layers,
    }


# === generation_config.json ===


def generation_config(
    config: TransformerConfig, options: DecodingOptions, direction: Direction
) -> dict[str, Any]:
    """The options of their search.

    Args:
        config: of the model.
        options: of our search, with ids in place of pieces; a target language that
            comes first is its `forced_start`.
        direction: of the translations.
    """
    longest = config.longest_sequence
    fields: dict[str, Any] = {
        "decoder_start_token_id": direction.start_id,
        "pad_token_id": config.pad_id,
        "eos_token_id": config.end_id,
        "forced_eos_token_id": config.end_id if options.forced_end else None,
        "do_sample": False,
        "num_beams": options.beam_size,
        # Theirs counts the start token.
        "max_length": 1 + min(options.max_length or longest, longest),
        "suppress_tokens": suppressed_ids(config, options),
    }
    if config.position == "relative_buckets":
        fields["use_cache"] = config.num_decoder_layers <= config.num_encoder_layers
    if options.forced_start is not None:
        fields["forced_bos_token_id"] = options.forced_start
    if options.min_length > 1:  # theirs counts the start token, and not the end
        fields["min_length"] = options.min_length
    if options.no_repeat_ngram_size:
        fields["no_repeat_ngram_size"] = options.no_repeat_ngram_size
    if options.repetition_penalty != 1.0:
        fields["repetition_penalty"] = options.repetition_penalty
    if options.top_beams > 1:
        fields["num_return_sequences"] = options.top_beams
    if options.beam_size > 1:
        powers = {"average": 1.0, "none": 0.0}
        power = powers.get(options.normalization, options.length_penalty)
        fields["length_penalty"] = power
        fields["early_stopping"] = "never" if options.patience is None else True
    return fields


# === tokenizer_config.json, vocab.json, tokenizer.json ===


def has_marian_tokenizer(languages: Languages | None) -> bool:
    """Whether languages stand where a `MarianTokenizer` has a place for them.

    That is in front of a text, as `>>code<<`.
    """
    if languages is None:
        return True
    layouts = languages.source_layout, languages.target_layout
    return all(
        layout[-2:] == ("text", "end") and len(layout) <= 3 for layout in layouts
    )


def tokenizer_files(
    translator: Translator, options: DecodingOptions, direction: Direction
) -> dict[str, Any]:
    """Vocabularies and config of a tokenizer of theirs, by file name; text, or JSON.

    Args:
        translator: what is exported.
        options: of its search.
        direction: of the translations.

    Raises:
        InputError: where a tokenizer is a list of pieces, and the other one or the
            languages do not go with their tokenizers of that kind.
    """
    config, tokenizer = translator.model.config, translator.tokenizer
    if listed := lists_of(translator):
        return _listed_files(*listed, config, options, direction)
    source = tokenizer.pieces(range(tokenizer.vocabulary_size))
    codes = language_pieces(translator.languages)
    is_marian = has_marian_tokenizer(translator.languages)
    if is_marian:
        for code, token in codes.items():
            source[token] = code
    fields = {
        "source_lang": direction.source_language,
        "target_lang": direction.target_language,
        "pad_token": source[config.pad_id],
        "bos_token": source[config.start_id],
        "eos_token": source[config.end_id],
        "unk_token": source[tokenizer.unknown_id],
        "additional_special_tokens": [
            source[token] for token in sorted(codes.values())
        ],
        "model_max_length": options.max_source_length or config.longest_sequence,
        "clean_up_tokenization_spaces": False,
    }
    if is_marian:
        return _marian_files(translator, fields, source)
    fields["tokenizer_class"] = "PreTrainedTokenizerFast"
    fields["model_input_names"] = ["input_ids", "attention_mask"]
    around = direction.source_before, direction.source_after
    return {
        "tokenizer_config.json": fields,
        "tokenizer.json": tokenizer_json(tokenizer, *around),
    }


def _marian_files(
    translator: Translator, fields: dict[str, Any], source: list[str]
) -> dict[str, Any]:
    """Of a `MarianTokenizer`, which looks up SentencePiece's pieces by their spelling.

    A `>>code<<` in front of a text is one piece: the language that stands there in a
    source.
    """
    own = translator.target_tokenizer
    is_separate = translator.tokenizer.model != own.model
    fields |= {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": is_separate,
        "split_special_tokens": True,  # a text that spells one is text
        "sp_model_kwargs": {},
    }
    files = {"tokenizer_config.json": fields, "vocab.json": _vocabulary(source)}
    if is_separate:
        target = own.pieces(range(own.vocabulary_size))
        files["target_vocab.json"] = _vocabulary(target)
    return files


def lists_of(translator: Translator) -> tuple[ListedPieces, ListedPieces] | None:
    """The tokenizers of source and target where they are lists of pieces.

    Raises:
        InputError: where only one is, or they are of two kinds.
    """
    source, target = translator.tokenizer.listed, translator.target_tokenizer.listed
    if source is None and target is None:
        return None
    if source is None or target is None or source.rules.kind != target.rules.kind:
        raise InputError(
            "transformers has no tokenizer whose sides are of different kinds, such as "
            "SentencePiece and a list of pieces; export to onnx, litert or ctranslate2"
        )
    return source, target


def _listed_files(
    source: ListedPieces,
    target: ListedPieces,
    config: TransformerConfig,
    options: DecodingOptions,
    direction: Direction,
) -> dict[str, Any]:
    """The files of a `BartTokenizer` or an `FSMTTokenizer`."""
    before, after = direction.source_before, direction.source_after
    is_moses = source.rules.kind == "moses"
    is_placed = len(before) == (0 if is_moses else 1) and after == (config.end_id,)
    if not is_placed or direction.prefix or (source.pieces != target.pieces) > is_moses:
        raise InputError(
            "transformers has no tokenizer for this list of pieces with what the "
            "model has around its texts; export to onnx, litert or ctranslate2"
        )
    first = source.pieces[before[0] if before else config.start_id]
    fields = {
        "pad_token": source.pieces[config.pad_id],
        "bos_token": first,
        "cls_token": first,
        "eos_token": source.pieces[config.end_id],
        "sep_token": source.pieces[config.end_id],
        "unk_token": source.pieces[source.rules.unknown],
        "model_max_length": options.max_source_length or config.longest_sequence,
        "split_special_tokens": True,  # a text that spells one is text
        "clean_up_tokenization_spaces": False,
    }
    merges = [" ".join(pair) for pair in source.merges]
    if not is_moses:
        fields["tokenizer_class"] = "BartTokenizer"
        fields["add_prefix_space"] = source.rules.prefix_space
        return {
            "tokenizer_config.json": fields,
            "vocab.json": _vocabulary(source.pieces),
            "merges.txt": "\n".join(["#version: 0.2", *merges]),
        }
    fields["tokenizer_class"] = "FSMTTokenizer"
    fields["langs"] = [source.rules.language, target.rules.language]
    fields["do_lower_case"] = source.rules.lowercase
    return {
        "tokenizer_config.json": fields,
        "vocab-src.json": _vocabulary(source.pieces),
        "vocab-tgt.json": _vocabulary(target.pieces),
        "merges.txt": "\n".join(f"{merge} 1" for merge in merges),
    }


def language_pieces(languages: Languages | None) -> dict[str, int]:
    """The ids of the languages by the spelling that a `MarianTokenizer` splits off."""
    if languages is None:
        return {}
    return {
        f">>{code}<<": token
        for code, token in languages.codes.items()
        if token is not None
    }


def _vocabulary(pieces: list[str]) -> dict[str, int]:
    return {piece: token for token, piece in enumerate(pieces)}
