"""OpenAPI document of the server: its routes, and the types of requests and answers.

Requests are described by the types that check them. Answers have types of their own
here; a test holds them against what the server sends.
"""

import functools
import re
from typing import Any
from typing import Literal
from typing import NamedTuple

import pydantic
from pydantic.json_schema import models_json_schema

from keras_transformer import __version__
from keras_transformer.config.documented import Documented
from keras_transformer.serving import page
from keras_transformer.serving.inference_protocol import InferRequest
from keras_transformer.serving.inference_protocol import OutputName
from keras_transformer.serving.libretranslate import LibreTranslateRequest
from keras_transformer.serving.messages import LANGUAGE_KEYS
from keras_transformer.serving.messages import TranslateRequest
from keras_transformer.serving.predict import PredictRequest

PATH = "/openapi.json"
_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"
_FORM = "application/x-www-form-urlencoded"
_TEXT = "text/plain; version=0.0.4"


class ErrorAnswer(Documented):
    """Error, with any other status."""

    error: str
    """Error: what is wrong, and how to mend it."""


class HypothesisAnswer(Documented):
    """Hypothesis of a sentence."""

    text: str
    """Text of the translation."""
    score: float
    """Score that ranks hypotheses: the log-probability, normalized for length."""
    log_probability: float
    """Log-probability: its natural logarithm."""
    tokens: list[str]
    """Tokens: the subwords of the translation."""
    finished: bool
    """End: false where the length limit cut it off."""
    source_tokens: list[str] | None = None
    """Source tokens, with `alignments` or `attention`."""
    alignments: list[tuple[int, int]] | None = None
    """Alignments: the numbers of a source token and of its target token."""
    attention: list[list[float]] | None = None
    """Attention: a row for each target token, a column for each source token."""


class TranslateAnswer(Documented):
    """Answer of `POST /translate`."""

    translations: list[str]
    """Translations: one of each text."""
    details: list[list[HypothesisAnswer] | list[list[HypothesisAnswer]]] | None = None
    """Hypotheses of each text, best first; with `split_sentences`, of each sentence of
    each text."""
    sentences: list[list[str]] | None = None
    """Sentences of each text, with `split_sentences` and details."""
    unknown_words: list[list[str]] | None = None
    """Unknown words of each text, where the model's words are known."""


class LibreTranslateAnswer(Documented):
    """Answer of `POST /translate` to the keys of LibreTranslate."""

    translatedText: str | list[str]
    """Translation: of one text, or of each."""
    alternatives: list[str] | list[list[str]] | None = None
    """Alternatives: other translations of the text, or of each."""


class LanguageAnswer(Documented):
    """Source language."""

    code: str
    """Code of the language."""
    name: str
    """Name: the code again."""
    targets: list[str]
    """Targets: the codes of the languages it is translated into."""


class PredictAnswer(Documented):
    """Answer of TF Serving's `:predict`."""

    predictions: list[dict[str, Any]] | None = None
    """Predictions: one of each instance."""
    outputs: dict[str, list[Any]] | None = None
    """Outputs: a column each, for `inputs`."""


class TensorAnswer(Documented):
    """Output tensor of the Open Inference Protocol."""

    name: OutputName
    """Name of the tensor."""
    datatype: Literal["BYTES", "FP32", "BOOL"]
    """Datatype of its values."""
    shape: list[int]
    """Shape: that of the input."""
    data: list[Any] | None = None
    """Data: its values, where they are not binary."""
    parameters: dict[str, int] | None = None
    """Parameters: `binary_data_size`, the bytes of the tensor behind the JSON."""


class InferAnswer(Documented):
    """Answer of `POST /v2/models/NAME/infer`."""

    model_name: str
    """Name of the model."""
    model_version: str
    """Version of the model."""
    id: str | None = None
    """Identifier of the request."""
    outputs: list[TensorAnswer]
    """Outputs: a tensor each."""


class InfoAnswer(pydantic.BaseModel):
    """Facts about the server; a model may tell more than these."""

    name: str
    ready: bool
    engine: str
    beam_size: int
    source_language: str | None
    target_language: str | None
    training_text: str | None
    limits: dict[str, int]


class _Operation(NamedTuple):
    """What one method of a path takes and answers."""

    summary: str
    answers: tuple[type[pydantic.BaseModel], ...] = ()  # any object, where empty
    requests: tuple[type[pydantic.BaseModel], ...] = ()
    form: type[pydantic.BaseModel] | None = None
    is_closed: bool = False  # where the server has a key
    media_type: str = _JSON

    @property
    def method(self) -> str:
        return "post" if self.requests else "get"


def _operations() -> dict[str, _Operation]:
    """The operation of each path."""
    status = _Operation("Status of the model, as TF Serving tells it")
    predict = _Operation(
        "Predict API of TF Serving", (PredictAnswer,), (PredictRequest,), is_closed=True
    )
    signatures = _Operation("Signatures, as TF Serving tells them", is_closed=True)
    tensors = _Operation("Tensors of the Open Inference Protocol", is_closed=True)
    model_ready = _Operation("Readiness of the model, in the Open Inference Protocol")
    infer = _Operation(
        "Inference in the Open Inference Protocol",
        (InferAnswer,),
        (InferRequest,),
        is_closed=True,
    )
    operations = {
        "/translate": _Operation(
            "Translation of texts",
            (TranslateAnswer, LibreTranslateAnswer),
            (TranslateRequest, LibreTranslateRequest),
            form=LibreTranslateRequest,
            is_closed=True,
        ),
        "/languages": _Operation("Languages, as LibreTranslate lists them"),
        "/health": _Operation("Life of the process"),
        "/ready": _Operation("Readiness: 200 once the model translates"),
        "/info": _Operation("Facts about the model", (InfoAnswer,), is_closed=True),
        "/metrics": _Operation(
            "Metrics for Prometheus", is_closed=True, media_type=_TEXT
        ),
        PATH: _Operation("Description of the routes: this document"),
        "/v2": _Operation("Server, in the Open Inference Protocol"),
        "/v2/health/live": _Operation("Life, in the Open Inference Protocol"),
        "/v2/health/ready": _Operation("Readiness, in the Open Inference Protocol"),
    }
    for version in ("", "/versions/{version}"):
        first, second = f"/v1/models/{{name}}{version}", f"/v2/models/{{name}}{version}"
        operations |= {
            first: status,
            f"{first}:predict": predict,
            f"{first}/metadata": signatures,
            second: tensors,
            f"{second}/ready": model_ready,
            f"{second}/infer": infer,
        }
    for path, (name, media_type) in page.FILES.items():
        operations[path] = _Operation(f"Page: {name}", media_type=media_type)
    return operations


@functools.cache
def document() -> dict[str, Any]:
    """The document, of OpenAPI 3.1."""
    operations = _operations()
    models: set[type[pydantic.BaseModel]] = {ErrorAnswer, LanguageAnswer}
    for operation in operations.values():
        models.update(operation.answers, operation.requests)
    _, schemas = models_json_schema(
        [(model, "validation") for model in models], ref_template=_REFERENCE
    )
    definitions = schemas["$defs"]
    for name in ("TranslateRequest", "LibreTranslateRequest"):
        properties = definitions[name]["properties"]
        for key, others in LANGUAGE_KEYS.items():
            properties |= {other: properties[key] for other in others}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "keras-transformer serve",
            "version": __version__,
            "summary": "Translation over HTTP",
        },
        "paths": {
            path: _path(path, operation) for path, operation in operations.items()
        },
        "components": {
            "schemas": dict(sorted(definitions.items())),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _path(path: str, operation: _Operation) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "summary": operation.summary,
        "responses": {
            "200": {
                "description": "The answer",
                "content": _content(path, operation),
            },
            "default": {
                "description": "An error",
                "content": {_JSON: {"schema": _one_of((ErrorAnswer,))}},
            },
        },
    }
    if operation.requests:
        content = {_JSON: {"schema": _one_of(operation.requests)}}
        if operation.form:
            content[_FORM] = {"schema": _one_of((operation.form,))}
        entry["requestBody"] = {"required": True, "content": content}
    if operation.is_closed:  # without a key, where the server has none
        entry["security"] = [{"bearer": []}, {"header": []}, {}]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    if parameters:
        entry["parameters"] = parameters
    return {operation.method: entry}


def _content(path: str, operation: _Operation) -> dict[str, Any]:
    if operation.media_type != _JSON:
        return {operation.media_type: {"schema": {"type": "string"}}}
    schema: dict[str, Any] = {"type": "object"}
    if operation.answers:
        schema = _one_of(operation.answers)
    elif path == "/languages":
        schema = {"type": "array", "items": _one_of((LanguageAnswer,))}
    return {_JSON: {"schema": schema}}


def _one_of(models: tuple[type[pydantic.BaseModel], ...]) -> dict[str, Any]:
    found = [{"$ref": _REFERENCE.format(model=model.__name__)} for model in models]
    return found[0] if len(found) == 1 else {"anyOf": found}
