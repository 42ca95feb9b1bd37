"""Search defaults of `transformers`: `generation_config.json`, else `config.json`."""

from __future__ import annotations

from typing import Any

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.importing.source import Source

_FILE = "generation_config.json"


def decoding_of(
    source: Source, pad_id: int, longest: int | None = None
) -> DecodingOptions:
    """The search that a folder of `transformers` asks for.

    Scores are divided by the length, as `transformers` does by default. The end that
    is forced where a translation reaches its limit is left out: a translation that is
    cut off shall be seen.

    Args:
        source: the folder.
        pad_id: an id that is never written anyway.
        longest: the most tokens that the model takes. A `max_length` that says no more
            than this is left out: a search makes room for all of it, however short its
            line.

    Raises:
        InputError: where an option is not of the kind that it should be.
    """
    config = source.search_config
    given = {name: value for name, value in config.items() if value is not None}
    try:
        return DecodingOptions.of(_options(given, pad_id, longest))
    except InputError as error:
        raise InputError(f"{source.folder}, its search: {error}") from None
    except (IndexError, TypeError, ValueError):
        raise InputError(
            f"{source.folder}: its search defaults are damaged; get {_FILE} again"
        ) from None


def _options(given: dict[str, Any], pad_id: int, longest: int | None) -> dict[str, Any]:
    beams = given.get("num_beams", 1)
    options: dict[str, Any] = {"beam_size": beams, **_normalization(given)}
    length = given.get("max_length")  # which counts the start token
    if isinstance(length, int) and (longest is None or length < longest):
        options["max_length"] = length - 1
    if beams > 1 and given.get("early_stopping") is True:
        options["patience"] = 1.0
    for name in ("no_repeat_ngram_size", "repetition_penalty"):
        if name in given:
            options[name] = type(getattr(DecodingOptions(), name))(given[name])
    forbidden = given.get("bad_words_ids", [])
    ids = {row[0] for row in forbidden if len(row) == 1} - {pad_id}
    if ids:
        options["suppressed_tokens"] = tuple(sorted(ids))
    return options


def _normalization(given: dict[str, Any]) -> dict[str, Any]:
    alpha = float(given.get("length_penalty", 1.0))
    if alpha == 1.0:
        return {"normalization": "average"}
    if alpha == 0.0:
        return {"normalization": "none"}
    return {"normalization": "power", "length_penalty": alpha}
