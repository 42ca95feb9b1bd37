"""Messages of `/translate`: JSON to sentences, hypotheses to JSON.

T target positions, S source positions.
"""

import functools
import json
from collections.abc import Callable
from typing import Annotated
from typing import Any
from typing import NamedTuple

import numpy as np
import pydantic

from keras_transformer.config.faults import first_fault
from keras_transformer.data import line_faults
from keras_transformer.errors import InputError
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import Hypothesis

_OTHER_STRINGS = 100  # of a body, besides its texts
_MOST_OUTSIDE = 2**16  # bytes of a body outside of its strings

_Strict = pydantic.ConfigDict(strict=True, extra="forbid", frozen=True)
_Language = Annotated[str, pydantic.StringConstraints(max_length=35)]


#: Keys of a body for the languages: as this package spells them, and as other servers.
LANGUAGE_KEYS = {
    "src_lang": ("source_language", "source"),
    "tgt_lang": ("target_language", "target"),
}
_DETECTED = "auto"  # a source language, of clients that let a server find it


class TranslateRequest(pydantic.BaseModel):
    """The body of `POST /translate`.

    Args:
        text: one sentence, or
        texts: several.
        beam_size: 1 for greedy search; default: the server's.
        n_best: the number of translations of each sentence.
        details: also return hypotheses with scores and tokens, and the unknown words of
            each sentence, where the model's words are known.
        alignments: in the details, pairs of source and target token.
        attention: in the details, the weights behind the alignments.
        source_language: the client's languages, with `target_language`; checked where
            the server knows the model's languages. See `LANGUAGE_KEYS`.
        target_language: see `source_language`.
    """

    model_config = _Strict

    text: str | None = None
    texts: list[str] | None = pydantic.Field(None, fail_fast=True)
    beam_size: int | None = None
    n_best: int = 1
    details: bool = False
    alignments: bool = False
    attention: bool = False
    source_language: _Language | None = pydantic.Field(None, alias="src_lang")
    target_language: _Language | None = pydantic.Field(None, alias="tgt_lang")

    @property
    def wants_details(self) -> bool:
        """Whether more than the best translations is requested."""
        return self.details or self.n_best > 1 or self.alignments or self.attention


class Work(NamedTuple):
    """The checked content of a request."""

    texts: list[str]
    options: Options
    answer: Callable[[list[list[Hypothesis]]], dict[str, Any]]  # its JSON object
    languages: tuple[str | None, str | None] = (None, None)  # asked for


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


def parse_translate(value: Any, engine: Engine, limits: Limits) -> Work:
    """The checked request of `POST /translate`.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    if not isinstance(value, dict):
        raise InputError('the body must be an object such as {"text": "A man sleeps."}')
    try:
        value = _with_languages(value, engine)
        request = TranslateRequest.model_validate(_few_unknown(value))
    except pydantic.ValidationError as error:
        raise InputError(first_fault(error, TranslateRequest, "")) from None
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
    check_texts(texts, limits)
    attention = request.alignments or request.attention
    options = Options(width, request.n_best, attention)
    languages = request.source_language, request.target_language
    answer = functools.partial(_answer, request, texts, engine)
    return Work(texts, options, answer, languages)


def _with_languages(value: dict[str, Any], engine: Engine) -> dict[str, Any]:
    """The value with each language under one of its keys."""
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
    if engine.languages is not None and value.get("src_lang") == _DETECTED:
        del value["src_lang"]  # the default, or refused where there is none
    return value


def _few_unknown(value: dict[str, Any]) -> dict[str, Any]:
    """The value with only its first unknown key: pydantic reports each one."""
    fields = TranslateRequest.model_fields.items()
    kept = {field.alias or name for name, field in fields}
    unknown = [key for key in value if key not in kept]
    kept.update(unknown[:1])
    return {key: item for key, item in value.items() if key in kept}


def check_texts(texts: list[str], limits: Limits) -> None:
    """Refuses texts that a model must not get.

    Raises:
        InputError: where texts are too many or too long, or hold invalid characters.
    """
    if len(texts) > limits.sentences:
        raise InputError(
            f"{len(texts)} texts are more than the {limits.sentences} of one request; "
            f"send several requests"
        )
    for number, text in enumerate(texts, 1):
        if len(text) > limits.characters:
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
    found: list[list[Hypothesis]],
) -> dict[str, Any]:
    answer: dict[str, Any] = {"translations": [h[0].text for h in found]}
    if request.wants_details:
        answer["details"] = [
            [_details(hypothesis, request, engine.source_end) for hypothesis in row]
            for row in found
        ]
        if engine.known_words is not None:
            answer["unknown_words"] = list(map(engine.known_words.unknown_in, texts))
    return answer


def _details(
    hypothesis: Hypothesis, request: TranslateRequest, source_end: bool
) -> dict[str, Any]:
    keys = ("text", "score", "log_probability", "tokens", "finished")
    details = {key: getattr(hypothesis, key) for key in keys}
    if not (request.alignments or request.attention):
        return details
    source = hypothesis.source_tokens or []
    weights: Any = [] if hypothesis.attention is None else hypothesis.mean_attention
    details["source_tokens"] = source
    if request.alignments:
        # The end token is not aligned.
        columns = len(source) - (source_end and len(source) > 1)
        details["alignments"] = [
            [int(weights[t, :columns].argmax()), t]
            for t in range(min(len(hypothesis.tokens), len(weights)))
        ]
    if request.attention:
        # As float64, a rounded number has few digits in JSON.
        details["attention"] = np.asarray(weights, np.float64).round(4).tolist()
    return details


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
