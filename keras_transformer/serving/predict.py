"""TF Serving's predict API, for the signatures of `export --format saved_model`.

Clients work unchanged with TF Serving and this server; only the export has `encode`,
`score` and `translate_ids`.

Reference: Olston et al., 2017, https://arxiv.org/abs/1712.06139.
"""

import base64
import binascii
import functools
import typing
from typing import Any
from typing import Literal

from keras_transformer.config.decoding import n_best_size
from keras_transformer.config.documented import Documented
from keras_transformer.errors import InputError
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.messages import Work
from keras_transformer.serving.messages import check_texts
from keras_transformer.translation.hypothesis import Hypothesis

Signature = Literal["serving_default", "translate_greedy", "translate_n_best"]
SIGNATURES: tuple[Signature, ...] = typing.get_args(Signature)


class PredictRequest(Documented):
    """Body of TF Serving's `:predict`; `parse_predict` checks it."""

    signature_name: Signature | Literal[""] = "serving_default"
    """Signature: best translations, greedy ones, or all hypotheses."""
    instances: list[Any] | None = None
    """Instances: texts, or objects `{"text": TEXT}`; a text may be `{"b64": BASE64}`.
    Answered row by row."""
    inputs: list[Any] | dict[Literal["text"], list[Any]] | None = None
    """Inputs: texts in one list, or `{"text": [...]}`. Answered in columns."""


_NO_SCORE = -3.4028234663852886e38  # score where an exported model has no hypothesis
#: Outputs of the signatures and their types.
_ONE = {
    "translation": "DT_STRING",
    "score": "DT_FLOAT",
    "finished": "DT_BOOL",
    "truncated": "DT_BOOL",
}
_MANY = {
    "translations": "DT_STRING",
    "scores": "DT_FLOAT",
    "log_probabilities": "DT_FLOAT",
    "num_tokens": "DT_INT32",
    "finished": "DT_BOOL",
    "truncated": "DT_BOOL",
}


def parse_predict(value: Any, engine: Engine, limits: Limits) -> Work:
    """The checked request of TF Serving's `:predict`, in row or column format.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    if not isinstance(value, dict) or ("instances" in value) == ("inputs" in value):
        raise InputError('the body must be an object with "instances" or "inputs"')
    for key in value.keys() - PredictRequest.model_fields.keys():
        raise InputError(f"unknown key {str(key)[:100]!r}; remove it")
    signature = value.get("signature_name", SIGNATURES[0])
    if signature == "":
        signature = SIGNATURES[0]
    if signature not in SIGNATURES:
        raise InputError(
            f"signature_name {str(signature)[:100]!r} is not served here; use one of "
            f"{', '.join(SIGNATURES)}"
        )
    by_row = "instances" in value
    if by_row:
        rows = value["instances"]
        if not isinstance(rows, list):
            raise InputError('"instances" must be a list')
        texts = [_text(_input(row)) for row in rows]
    else:
        rows = _input(value["inputs"])
        if not isinstance(rows, list):
            raise InputError('"inputs" must be a list of strings, or {"text": [...]}')
        texts = [_text(row) for row in rows]
    check_texts(texts, limits)
    width = {
        "serving_default": engine.beam_size,
        "translate_greedy": 1,
        "translate_n_best": n_best_size(engine.beam_size),
    }[signature]
    n_best = width if signature == "translate_n_best" else 0
    answer = functools.partial(_answer, n_best, by_row)
    return Work(texts, Options(width, n_best or 1), answer)


def signature_definitions(beam_size: int) -> dict[str, Any]:
    """The signatures in `GET /v1/models/NAME/metadata`."""

    def tensors(names: dict[str, str], width: int | None) -> dict[str, Any]:
        def tensor(name: str, dtype: str) -> dict[str, Any]:
            inner = width is not None and name != "truncated"
            sizes = ["-1", str(width)] if inner else ["-1"]
            shape = [{"size": size, "name": ""} for size in sizes]
            shape = {"dim": shape, "unknown_rank": False}
            return {"name": name, "dtype": dtype, "tensor_shape": shape}

        return {name: tensor(name, dtype) for name, dtype in names.items()}

    return {
        signature: {
            "inputs": tensors({"text": "DT_STRING"}, None),
            "outputs": tensors(
                _MANY if signature == "translate_n_best" else _ONE,
                n_best_size(beam_size) if signature == "translate_n_best" else None,
            ),
            "method_name": "tensorflow/serving/predict",
        }
        for signature in SIGNATURES
    }


def _answer(count: int, by_row: bool, found: list[list[Hypothesis]]) -> dict[str, Any]:
    """The answer with `count` hypotheses per row, or with only the best (0)."""
    rows = [_many(row, count) if count else _one(row) for row in found]
    if by_row:
        return {"predictions": rows}
    names = _MANY if count else _ONE
    return {"outputs": {name: [row[name] for row in rows] for name in names}}


def _one(hypotheses: list[Hypothesis]) -> dict[str, Any]:
    best = hypotheses[0]
    return {
        "translation": best.text,
        "score": best.score,
        "finished": best.finished,
        "truncated": False,  # too long texts are refused
    }


def _many(hypotheses: list[Hypothesis], count: int) -> dict[str, Any]:
    missing = count - len(hypotheses)
    return {
        "translations": [h.text for h in hypotheses] + [""] * missing,
        "scores": [h.score for h in hypotheses] + [_NO_SCORE] * missing,
        "log_probabilities": [h.log_probability for h in hypotheses]
        + [_NO_SCORE] * missing,
        "num_tokens": [len(h.ids) for h in hypotheses] + [0] * missing,
        "finished": [h.finished for h in hypotheses] + [False] * missing,
        "truncated": False,
    }


def _input(value: Any) -> Any:
    """The value of the only input, `text`, named or not."""
    if isinstance(value, dict) and "text" in value:
        for key in value.keys() - {"text"}:
            raise InputError(
                f'unknown input {str(key)[:100]!r}; the only one is "text"'
            )
        return value["text"]
    return value


def _text(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True).decode("utf-8")
        except (binascii.Error, TypeError, ValueError):
            raise InputError('"b64" must be text in UTF-8, in base64') from None
    if not isinstance(value, str):
        raise InputError(
            f"each text must be a string, got {type(value).__name__}: "
            f"{str(value)[:100]!r}"
        )
    return value
