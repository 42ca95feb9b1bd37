"""Refusals of an export, before it writes anything."""

import importlib.util
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import direction_of
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.kinds import refuse_int8
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import require_attention
from keras_transformer.translator import Translator


def exportable_model(translator: Translator) -> TranslationModel:
    """The model of a translator, one float model.

    Raises:
        InputError: an ensemble, an int8 model or a tokenizer of another class, with
            what to do instead.
    """
    if isinstance(translator.model, Ensemble):
        raise InputError(
            "an ensemble cannot be exported; export its members, each by itself"
        )
    refuse_int8(translator.model, "an export takes")
    for tokenizer in (translator.tokenizer, translator.target_tokenizer):
        if type(tokenizer) is not Tokenizer:
            raise InputError(
                f"an export holds no code of yours, and {type(tokenizer).__name__} is "
                f"a tokenizer of your own; export with Tokenizer(tokenizer.model), and "
                f"prepare the text yourself"
            )
    return translator.model


def decoding_options(
    form: str,
    translator: Translator,
    given: Mapping[str, Any],
    *,
    own_search: bool = True,
) -> DecodingOptions:
    """The options of the search of an export, with ids in place of pieces.

    Args:
        form: the name of the format.
        translator: has its own options.
        given: fields of `DecodingOptions`, in place of some of them.
        own_search: whether the format searches by the rules of this package.

    Raises:
        InputError: where options are not right or do not go together; where a
            multilingual model has not been told its languages, or is given another
            first token than that of its target language; where the format lacks
            an option, with the flags of `keras-transformer export` that turn it off.
    """
    options = translator.decoding.updated(given)
    lacking = options.lacking(own_search=own_search)
    off = list(lacking)
    if options.sampling and options.top_beams > options.beam_size:
        off.append("top_beams")  # so many a search does not find
    if options.long_lines == "split":
        lacking.append("long_lines split")
        off.append("long_lines")
    if lacking:
        flags = " ".join(OPTIONS[name].default_flag for name in off)
        raise InputError(
            f"the format {form} has no {', '.join(lacking)}; give {flags} to export "
            f"without it"
        )
    longest = translator.model.config.longest_sequence
    if options.min_length > longest:
        raise InputError(
            f"min_length {options.min_length} is more than the {longest} tokens that "
            f"the model can write; give a smaller one"
        )
    if options.coverage_penalty:
        require_attention(translator.model, "coverage_penalty needs")
    options = options.with_ids(translator.target_tokenizer.ids_of)
    # Of the target, where it comes first; a forced start of the options is none.
    language = direction_of(translator.languages, translator.model.config).forced_id
    if language is None:
        return options
    if given.get("forced_start") is not None and options.forced_start != language:
        raise InputError(
            "forced_start is given, but a translation of this model begins with the "
            "token of its target language; give target_language instead"
        )
    return options.updated({"forced_start": language})


def require_graph_of_tokenizers(what: str, translator: Translator) -> None:
    """Refuses tokenizers that no operation of TensorFlow computes.

    Args:
        what: see `require_transformer`.
        translator: has the tokenizers.

    Raises:
        InputError: where one is no SentencePiece model.
    """
    sides = translator.tokenizer, translator.target_tokenizer
    if any(tokenizer.listed is not None for tokenizer in sides):
        raise InputError(
            f"{what} holds its tokenizers as a graph, which lists of pieces and merges "
            f"(of BART and FSMT) do not have; export to ctranslate2, onnx or litert"
        )


def require_transformer(what: str, model: Any) -> None:
    """Refuses a model of another kind: the format describes a Transformer's parts.

    Args:
        what: is refused, such as "the export to ONNX".
        model: what is to be exported.

    Raises:
        InputError: with the kind of the model.
    """
    kind = model.config.kind
    if kind != "transformer":
        raise InputError(
            f"{what} takes models of kind transformer, and this one is {kind}; use "
            f"saved_model, which takes every kind"
        )


def check_quantization(
    what: str, quantization: str | None, known: Sequence[str]
) -> None:
    """Refuses a quantization that the format does not have.

    Args:
        what: see `require_transformer`.
        quantization: as it was given; None for none.
        known: those of the format.

    Raises:
        InputError: with those that it has.
    """
    if quantization not in (None, *known):
        raise InputError(
            f"quantization {quantization!r} is unknown to {what}; use "
            f"{', '.join(known)}, or leave it out"
        )


def require_packages(what: str, *packages: str) -> None:
    """Raises where one of the packages is not installed.

    Args:
        what: see `require_transformer`.
        packages: as they are imported.

    Raises:
        InputError: with the name of the first that is missing.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"{what} needs the package {package}, which is not installed; run pip "
                f"install {package.replace('_', '-')}"
            )
