"""Open Inference Protocol, version 2: what clients of Triton and KServe send.

The tensor `text` holds texts; `translation`, `score` and `finished` answer it. Tensors
are JSON, or binary behind the JSON (Triton's extension, which its client uses).

Reference: https://github.com/kserve/open-inference-protocol, and for binary tensors
https://docs.nvidia.com/deeplearning/triton-inference-server/.
"""

import functools
import json
import math
import struct
from collections.abc import Callable
from typing import Any
from typing import Literal
from typing import NamedTuple

import pydantic
from starlette.responses import Response

from keras_transformer.config.documented import Documented
from keras_transformer.config.faults import validated
from keras_transformer.errors import InputError
from keras_transformer.serving import exchange
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.messages import Language
from keras_transformer.serving.messages import Work
from keras_transformer.serving.messages import check_texts
from keras_transformer.serving.messages import parse_json
from keras_transformer.translation.hypothesis import Hypothesis

#: Header that tells how many bytes of a body are JSON; tensors follow.
JSON_LENGTH = "Inference-Header-Content-Length"
EXTENSIONS = ["binary_tensor_data"]
PLATFORM = "keras_transformer"
_LENGTH = struct.Struct("<I")  # in front of each text of a binary tensor

OutputName = Literal["translation", "score", "finished"]


class InputParameters(Documented):
    """Parameters of an input tensor."""

    binary_data_size: int | None = None
    """Binary size: the bytes of the tensor behind the JSON, instead of `data`."""


class InputTensor(Documented):
    """Tensor of the texts."""

    name: Literal["text"]
    """Name: that of the only input."""
    shape: list[int]
    """Shape: `[N]` or `[N, 1]` for N texts."""
    datatype: Literal["BYTES"]
    """Datatype: texts in UTF-8."""
    parameters: InputParameters | None = None
    """Parameters of the tensor."""
    data: list[Any] | None = None
    """Data: the texts, flat or in lists of one."""


class OutputParameters(Documented):
    """Parameters of an output tensor."""

    binary_data: bool | None = None
    """Binary form: `true` for the tensor behind the JSON."""


class OutputRequest(Documented):
    """Output tensor that is asked for."""

    name: OutputName
    """Name of the tensor."""
    parameters: OutputParameters | None = None
    """Parameters of the tensor."""


class InferParameters(Documented):
    """Parameters of a request."""

    binary_data_output: bool = False
    """Binary form of all tensors whose own parameters do not tell."""
    beam_size: int | None = None
    """Beam size: 1 for greedy search, or the server's, which is the default."""
    source_language: Language | None = None
    """Source language: its code."""
    target_language: Language | None = None
    """Target language: its code."""


class InferRequest(Documented):
    """Body of `POST /v2/models/NAME/infer`."""

    id: str | None = None
    """Identifier of the request, which the answer repeats."""
    parameters: InferParameters | None = None
    """Parameters of the request."""
    inputs: list[InputTensor] = pydantic.Field(min_length=1, max_length=1)
    """Inputs: the texts."""
    outputs: list[OutputRequest] | None = pydantic.Field(None, max_length=3)
    """Outputs that are asked for; all if left out."""


class _Output(NamedTuple):
    """An output tensor: its type, its values, and their bytes."""

    datatype: str
    value: Callable[[Hypothesis], Any]
    pack: Callable[[Any], bytes]


def _packed_text(text: str) -> bytes:
    content = text.encode()
    return _LENGTH.pack(len(content)) + content


_OUTPUTS = {
    "translation": _Output("BYTES", lambda best: best.text, _packed_text),
    "score": _Output("FP32", lambda best: best.score, struct.Struct("<f").pack),
    "finished": _Output("BOOL", lambda best: best.finished, struct.Struct("?").pack),
}


def server_metadata(version: str) -> dict[str, Any]:
    """The answer of `GET /v2`."""
    return {"name": "keras-transformer", "version": version, "extensions": EXTENSIONS}


def model_metadata(name: str, version: str) -> dict[str, Any]:
    """The answer of `GET /v2/models/NAME`."""

    def tensor(name: str, datatype: str) -> dict[str, Any]:
        return {"name": name, "datatype": datatype, "shape": [-1]}

    return {
        "name": name,
        "versions": [version],
        "platform": PLATFORM,
        "inputs": [tensor("text", "BYTES")],
        "outputs": [tensor(name, output.datatype) for name, output in _OUTPUTS.items()],
    }


def parse_infer(
    body: bytes,
    json_length: str | None,
    engine: Engine,
    limits: Limits,
    model: tuple[str, str],
) -> Work:
    """The checked request of `POST /v2/models/NAME/infer`.

    Args:
        body: JSON, and binary tensors behind it.
        json_length: the value of the header `JSON_LENGTH`, where there is one.
        engine: the engine.
        limits: the limits of the server.
        model: the name and the version that the answer has.

    Raises:
        InputError: where keys, types or values are wrong.
    """
    end = len(body)
    if json_length is not None:
        is_number = json_length.isascii() and json_length.isdigit()
        if not is_number or len(json_length) > 9 or int(json_length) > end:
            raise InputError(
                f"{JSON_LENGTH} {json_length[:40]!r} must be the bytes of the JSON, at "
                f"most those of the body, {end}"
            )
        end = int(json_length)
    value, binary = parse_json(body[:end], limits), body[end:]
    request = validated(InferRequest, value)
    (tensor,) = request.inputs
    texts = _texts(tensor, binary, limits)
    check_texts(texts, limits)
    parameters = request.parameters or InferParameters()
    width = engine.beam_size if parameters.beam_size is None else parameters.beam_size
    if width not in (1, engine.beam_size):
        raise InputError(
            f"beam_size {width} is not available on this server; give 1 for greedy "
            f"search, or {engine.beam_size}"
        )
    languages = parameters.source_language, parameters.target_language
    answer = functools.partial(_answer, request, model)
    return Work(texts, Options(width), answer, languages)


def _texts(tensor: InputTensor, binary: bytes, limits: Limits) -> list[str]:
    """The texts of a tensor."""
    shape = tensor.shape
    if len(shape) not in (1, 2) or min(shape) < 0 or shape[1:] not in ([], [1]):
        raise InputError(
            f"inputs.0.shape {str(shape)[:100]} must be [N], or [N, 1], for N texts"
        )
    size = tensor.parameters and tensor.parameters.binary_data_size
    if (size is None) == (tensor.data is None):
        raise InputError(
            "inputs.0 needs its texts in data, or behind the JSON with "
            "parameters.binary_data_size; give one of them"
        )
    if (size is not None and size != len(binary)) or (size is None and binary):
        raise InputError(
            f"the body has {len(binary)} bytes behind its JSON, but the tensors have "
            f"{size or 0}; send both with {JSON_LENGTH}"
        )
    if tensor.data is not None:
        texts = [text for row in tensor.data for text in _row(row)]
    else:
        texts = _unpacked(binary, limits.sentences)
    if len(texts) != math.prod(shape):
        raise InputError(
            f"inputs.0 has {len(texts)} texts, unlike its shape {shape}; give as many"
        )
    return texts


def _row(row: Any) -> list[str]:
    items = row if isinstance(row, list) else [row]
    for item in items:
        if not isinstance(item, str):
            raise InputError(
                f"inputs.0.data must hold strings, got {type(item).__name__}: "
                f"{str(item)[:100]!r}"
            )
    return items


def _unpacked(content: bytes, most: int) -> list[str]:
    """The texts of a binary tensor: each one behind its length, of four bytes."""
    texts: list[str] = []
    start = 0
    while start < len(content):
        if len(texts) == most:
            raise InputError(
                f"the tensor has more than the {most} texts of one request; send "
                f"several requests"
            )
        begin = start + _LENGTH.size
        if begin > len(content):
            raise InputError("the binary tensor is truncated; send all of it")
        (size,) = _LENGTH.unpack_from(content, start)
        start = begin + size
        if start > len(content):
            raise InputError("the binary tensor is truncated; send all of it")
        try:
            texts.append(content[begin:start].decode("utf-8"))
        except UnicodeDecodeError:
            raise InputError(
                f"text {len(texts) + 1} is not UTF-8; send text in UTF-8"
            ) from None
    return texts


def _answer(
    request: InferRequest, model: tuple[str, str], found: list[list[Hypothesis]]
) -> Response:
    parameters = request.parameters or InferParameters()
    wanted = request.outputs or [OutputRequest(name=name) for name in _names()]
    tensors, tail = [], []
    for one in wanted:
        output = _OUTPUTS[one.name]
        values = [output.value(row[0]) for row in found]
        tensor: dict[str, Any] = {
            "name": one.name,
            "datatype": output.datatype,
            "shape": request.inputs[0].shape,
        }
        is_binary = one.parameters and one.parameters.binary_data
        if is_binary is None:
            is_binary = parameters.binary_data_output
        if is_binary:
            content = b"".join(map(output.pack, values))
            tensor["parameters"] = {"binary_data_size": len(content)}
            tail.append(content)
        else:
            tensor["data"] = values
        tensors.append(tensor)
    name, version = model
    answer = {"model_name": name, "model_version": version, "outputs": tensors}
    if request.id is not None:
        answer["id"] = request.id
    if not tail:
        return exchange.as_json(answer)
    head = json.dumps(answer, ensure_ascii=False).encode()
    return Response(
        b"".join([head, *tail]),
        headers={JSON_LENGTH: str(len(head))},
        media_type="application/octet-stream",
    )


def _names() -> tuple[OutputName, ...]:
    return ("translation", "score", "finished")
