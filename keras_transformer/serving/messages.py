"""Messages of `/translate`: JSON to sentences, hypotheses to JSON.

T target positions, S source positions.
"""

import difflib
import functools
import json
from collections.abc import Callable
from typing import Annotated
from typing import Any
from typing import NamedTuple
from typing import TypeVar

import numpy as np
import pydantic

from keras_transformer.config import faults
from keras_transformer.config.documented import Documented
from keras_transformer.data import line_faults
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.paragraphs import Paragraphs
from keras_transformer.translation.hypothesis import Hypothesis

_OTHER_STRINGS = 100  # of a body, besides its texts
_MOST_OUTSIDE = 2**16  # bytes of a body outside of its strings
_LONGEST_KEY = 100  # characters of a key, in a message

Request = TypeVar("Request", bound=pydantic.BaseModel)

Language = Annotated[str, pydantic.StringConstraints(max_length=35)]

#: Keys of a body for the languages: as this package spells them, and as other servers.
LANGUAGE_KEYS = {
    "src_lang": ("source_language", "source"),
    "tgt_lang": ("target_language", "target"),
}
_DETECTED = "auto"  # a source language, of clients that let a server find it


class TranslateRequest(Documented):
    """Body of `POST /translate`."""

    text: str | None = None
    """Text: one sentence; or `texts`."""
    texts: list[str] | None = pydantic.Field(None, fail_fast=True)
    """Texts: several sentences."""
    split_sentences: bool = False
    """Splitting: a text may have several sentences, which are translated one by one.
    Line breaks and the spaces between sentences are kept."""
    beam_size: int | None = None
    """Beam size: 1 for greedy search, or the server's, which is the default."""
    n_best: int = 1
    """Number of translations of each sentence, best first, in `details`."""
    details: bool = False
    """Details: also return hypotheses with scores and tokens, and the unknown words of
    each text, where the model's words are known. With `split_sentences`, those of each
    sentence, and the `sentences`."""
    alignments: bool = False
    """Alignments: in the details, pairs of source and target token."""
    attention: bool = False
    """Attention: in the details, the weights behind the alignments."""
    source_language: Language | None = pydantic.Field(None, alias="src_lang")
    """Source language: its code; `source_language` and `source` are the same key."""
    target_language: Language | None = pydantic.Field(None, alias="tgt_lang")
    """Target language: its code; `target_language` and `target` are the same key."""

    @property
    def wants_details(self) -> bool:
        """Whether more than the best translations is requested."""
        return self.details or self.n_best > 1 or self.alignments or self.attention


class Work(NamedTuple):
    """The checked content of a request."""

    texts: list[str]
    options: Options
    answer: Callable[[list[list[Hypothesis]]], Any]  # a JSON object, or a response
    languages: tuple[str | None, str | None] = (None, None)  # asked for
    paragraphs: Paragraphs | None = None  # whose sentences the texts are


def parse_json(body: bytes, limits: Limits) -> Any:
    """The JSON value of a body.

    Raises:
        InputError: where it is not UTF-8 or not JSON, or has far more parts than a
            request within the limits: parsing JSON blocks all other requests.
    """
    # Only the quotes around strings are left.
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    most = 4 * limits.sentences + _OTHER_STRINGS
    if plain.count(b'"') > 2 * most:
        raise InputError(
            f"the body has more than {most} strings; split it into several requests"
        )
    if sum(map(len, plain.split(b'"')[::2])) > _MOST_OUTSIDE:
        raise InputError(
            f"the body has more than {_MOST_OUTSIDE} bytes outside of strings; send "
            "only texts"
        )
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InputError(
            f"the body is not UTF-8 (byte {error.start}); send JSON in UTF-8"
        ) from None
    except RecursionError:
        raise InputError("the body is nested too deeply; send flat JSON") from None
    except ValueError as error:
        raise InputError(f"the body is not JSON: {error}") from None


def parse_translate(
    value: Any, engine: Engine, limits: Limits, source_language: str | None = None
) -> Work:
    """The checked request of `POST /translate`.

    Args:
        value: the JSON value of its body.
        engine: the engine.
        limits: the limits of the server.
        source_language: that of texts whose language the request does not tell.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    if not isinstance(value, dict):
        raise InputError('the body must be an object such as {"text": "A man sleeps."}')
    value = with_languages(value, engine)
    request = validated(TranslateRequest, value)
    texts = request.texts
    if request.text is not None:
        texts = [request.text] if texts is None else None
    if texts is None:
        raise InputError('give either "text", a string, or "texts", a list of strings')
    if request.beam_size not in (None, 1, engine.beam_size):
        raise InputError(
            f"beam_size {request.beam_size} is not available on this server; give 1 "
            f"for greedy search, or {engine.beam_size}"
        )
    width = engine.beam_size if request.beam_size is None else request.beam_size
    if not 1 <= request.n_best <= width:
        raise InputError(
            f"n_best {request.n_best} must be between 1 and beam_size {width}"
        )
    check_texts(texts, limits, split=request.split_sentences)
    attention = request.alignments or request.attention
    options = Options(width, request.n_best, attention)
    languages = request.source_language, request.target_language
    paragraphs = None
    if request.split_sentences:
        paragraphs = Paragraphs(texts, languages[0] or source_language, limits)
    answer = functools.partial(_answer, request, texts, engine, paragraphs)
    sentences = paragraphs.sentences if paragraphs else texts
    return Work(sentences, options, answer, languages, paragraphs)


def with_languages(value: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """The value with each language under one of its keys.

    Raises:
        InputError: where one is no string, or is given twice, differently.
    """
    value = dict(value)
    for key, others in LANGUAGE_KEYS.items():
        given = [name for name in (key, *others) if value.get(name) is not None]
        codes = [value.pop(name) for name in given]
        for other in others:
            value.pop(other, None)
        for name, code in zip(given, codes, strict=True):
            if not isinstance(code, str):
                raise InputError(
                    f"{name} must be the code of a language, as a string, got "
                    f"{str(code)[:40]}"
                )
        if any(code != codes[0] for code in codes):
            raise InputError(
                f"{given[0]} {codes[0]!r} and {given[1]} {codes[1]!r} are two "
                f"languages for one text; give one of them"
            )
        if codes:
            value[key] = codes[0]
    if value.get("src_lang") == _DETECTED:
        del value["src_lang"]  # the default, or refused where there is none
    return value


def validated(model: type[Request], value: dict[str, Any]) -> Request:
    """The request of a body.

    Args:
        model: its type.
        value: its keys; languages have one, see `with_languages`.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    fields = model.model_fields.items()
    known = {field.alias or name for name, field in fields}
    for key in value:
        if key not in known:
            raise InputError(_unknown(key, known))
    return faults.validated(model, value)


def _unknown(key: str, known: set[str]) -> str:
    """The fault of an unknown key: what was meant, or what there is."""
    shown = key[:_LONGEST_KEY]
    if key in OPTIONS:
        return (
            f"{shown} is an option of the model, which is the same for all requests; "
            f"remove it"
        )
    near = difflib.get_close_matches(shown, sorted(known), n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"use {', '.join(sorted(known))}"
    return f"unknown key {shown}; {advice}"


def check_texts(texts: list[str], limits: Limits, *, split: bool = False) -> None:
    """Refuses texts that a model must not get.

    Args:
        texts: sentences.
        limits: the limits of the server.
        split: whether they are texts of several sentences, see `Paragraphs`.

    Raises:
        InputError: where texts are too many or too long, or hold invalid characters.
    """
    if len(texts) > limits.sentences:
        raise InputError(
            f"{len(texts)} texts are more than the {limits.sentences} of one request; "
            f"send several requests"
        )
    for number, text in enumerate(texts, 1):
        if len(text) > limits.characters and not split:
            raise InputError(
                f"text {number} has {len(text)} characters, more than the "
                f"{limits.characters} of one sentence; split it"
            )
        try:
            line_faults.check_text(text)
        except line_faults.LineFault as fault:
            raise InputError(f"text {number} {fault}") from None
    total = sum(map(len, texts))
    if total > limits.request_characters:
        raise InputError(
            f"{len(texts)} texts have {total} characters, more than the "
            f"{limits.request_characters} of one request; send several requests"
        )


def _answer(
    request: TranslateRequest,
    texts: list[str],
    engine: Engine,
    paragraphs: Paragraphs | None,
    found: list[list[Hypothesis]],
) -> dict[str, Any]:
    translations = (
        paragraphs.joined(found) if paragraphs else [h[0].text for h in found]
    )
    answer: dict[str, Any] = {"translations": translations}
    if request.wants_details:
        details = [
            [_details(hypothesis, request, engine.source_around) for hypothesis in row]
            for row in found
        ]
        answer["details"] = paragraphs.of_texts(details) if paragraphs else details
        if paragraphs:
            answer["sentences"] = paragraphs.of_texts(paragraphs.sentences)
        if engine.known_words is not None:
            answer["unknown_words"] = list(map(engine.known_words.unknown_in, texts))
    return answer


def _details(
    hypothesis: Hypothesis, request: TranslateRequest, around: tuple[int, int]
) -> dict[str, Any]:
    keys = ("text", "score", "log_probability", "tokens", "finished")
    details = {key: getattr(hypothesis, key) for key in keys}
    if not (request.alignments or request.attention):
        return details
    source = hypothesis.source_tokens or []
    weights: Any = [] if hypothesis.attention is None else hypothesis.mean_attention
    details["source_tokens"] = source
    if request.alignments:
        before, after = around if len(source) > sum(around) else (0, 0)
        text = slice(before, len(source) - after)
        details["alignments"] = [
            [before + int(weights[t, text].argmax()), t]
            for t in range(min(len(hypothesis.tokens), len(weights)))
        ]
    if request.attention:
        # As float64, a rounded number has few digits in JSON.
        details["attention"] = np.asarray(weights, np.float64).round(4).tolist()
    return details


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
