"""LibreTranslate's requests: its keys in `POST /translate`, as JSON or as a form.

Reference: https://docs.libretranslate.com/api/operations/translate/.
"""

import functools
import re
import urllib.parse
from collections.abc import Sequence
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.config.documented import Documented
from keras_transformer.errors import InputError
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.messages import Language
from keras_transformer.serving.messages import Work
from keras_transformer.serving.messages import check_texts
from keras_transformer.serving.messages import validated
from keras_transformer.serving.messages import with_languages
from keras_transformer.serving.paragraphs import Paragraphs
from keras_transformer.translation.hypothesis import Hypothesis

_OTHER_FIELDS = 20  # of a form, besides its texts
#: Values of a form that stand for numbers and truth values of JSON.
_LITERALS = re.compile(r"true|false|[0-9]{1,9}")


class LibreTranslateRequest(Documented):
    """Body of `POST /translate` with the keys of LibreTranslate."""

    q: str | list[str]
    """Text: one, or a list of several; a text may have several sentences."""
    source_language: Language | None = pydantic.Field(None, alias="src_lang")
    """Source language: its code; `auto` for the model's."""
    target_language: Language | None = pydantic.Field(None, alias="tgt_lang")
    """Target language: its code."""
    format: Literal["text", "html"] = "text"
    """Format: only `text` is translated."""
    alternatives: int = 0
    """Alternatives: the number of other translations of each text."""
    api_key: str | None = None
    """API key: that of the server, instead of a header."""
    split_sentences: bool = True
    """Splitting: `false` for texts of one sentence each."""


def is_form(kind: str, body: bytes) -> bool:
    """Whether a body is an URL-encoded form.

    JSON is none whatever its type is: `curl -d` sends it as a form.

    Args:
        kind: its Content-Type.
        body: its content.
    """
    is_declared = kind.lower().startswith("application/x-www-form-urlencoded")
    return is_declared and body.lstrip()[:1] not in (b"{", b"[", b'"', b"")


def sent_key(value: Any) -> bytes | None:
    """The API key in a body; None where there is none."""
    key = value.get("api_key") if isinstance(value, dict) else None
    return key.encode("utf-8", "replace") if isinstance(key, str) else None


def parse_form(body: bytes, limits: Limits) -> dict[str, Any]:
    """The fields of an URL-encoded form; `q` is a list where it is given repeatedly.

    Raises:
        InputError: where it is no such form, has too many fields, or a field but `q`
            twice.
    """
    most = limits.sentences + _OTHER_FIELDS
    try:
        pairs = urllib.parse.parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=most,
        )
    except UnicodeDecodeError:
        raise InputError("the form is not UTF-8; send it in UTF-8") from None
    except ValueError:
        raise InputError(
            f"the form has more than {most} fields; split it into several requests"
        ) from None
    fields: dict[str, Any] = {}
    texts = [value for key, value in pairs if key == "q"]
    for key, value in pairs:
        if key in fields and key != "q":
            raise InputError(f"the form has {key[:100]} twice; give it once")
        is_literal = key in ("alternatives", "split_sentences")
        if is_literal and _LITERALS.fullmatch(value):
            fields[key] = value == "true" if value[0] in "tf" else int(value)
        else:
            fields[key] = value
    if not texts:
        raise InputError("the form has no field q, the text; give it, or send JSON")
    return {**fields, "q": texts[0] if len(texts) == 1 else texts}


def parse_libretranslate(
    value: dict[str, Any],
    engine: Engine,
    limits: Limits,
    source_language: str | None = None,
) -> Work:
    """The checked request of a client of LibreTranslate.

    Args:
        value: its keys, `q` among them.
        engine: the engine.
        limits: the limits of the server.
        source_language: that of texts whose language the request does not tell.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    request = validated(LibreTranslateRequest, with_languages(value, engine))
    if request.format != "text":
        raise InputError("the model translates no html; send text, and format text")
    most = engine.beam_size - 1
    if not 0 <= request.alternatives <= most:
        raise InputError(
            f"alternatives {request.alternatives} must be between 0 and {most}: this "
            f"server keeps {most + 1} hypotheses"
        )
    texts = [request.q] if isinstance(request.q, str) else request.q
    check_texts(texts, limits, split=request.split_sentences)
    languages = request.source_language, request.target_language
    options = Options(engine.beam_size, 1 + request.alternatives)
    paragraphs = None
    if request.split_sentences:
        paragraphs = Paragraphs(texts, languages[0] or source_language, limits)
    answer = functools.partial(_answer, request, paragraphs)
    sentences = paragraphs.sentences if paragraphs else texts
    return Work(sentences, options, answer, languages, paragraphs)


def _answer(
    request: LibreTranslateRequest,
    paragraphs: Paragraphs | None,
    found: list[list[Hypothesis]],
) -> dict[str, Any]:
    def translations(rank: int) -> list[str]:
        if paragraphs:
            return paragraphs.joined(found, rank)
        return [row[min(rank, len(row) - 1)].text for row in found]

    best = translations(0)
    others = [translations(rank) for rank in range(1, request.alternatives + 1)]
    rows = [
        _distinct(text, [row[place] for row in others])
        for place, text in enumerate(best)
    ]
    is_one = isinstance(request.q, str)
    answer: dict[str, Any] = {"translatedText": best[0] if is_one else best}
    if request.alternatives:
        answer["alternatives"] = rows[0] if is_one else rows
    return answer


def _distinct(best: str, others: Sequence[str]) -> list[str]:
    """The texts that differ from the best one and from each other."""
    return [text for text in dict.fromkeys(others) if text != best]
