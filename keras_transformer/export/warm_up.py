"""Warm-up requests of TF Serving: a file of logged requests, replayed before traffic.

`assets.extra/tf_serving_warmup_requests` is a TFRecord file of serialized
`tensorflow.serving.PredictionLog`. Of that message a request needs five fields, all of
them length-delimited: they are encoded here, so that no export depends on
`tensorflow-serving-api`, which pins TensorFlow (the tests read the file with it).
"""

from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

PATH = Path("assets.extra") / "tf_serving_warmup_requests"

# Field numbers of the messages of tensorflow_serving/apis.
_PREDICT_LOG = 6  # PredictionLog.predict_log
_REQUEST = 1  # PredictLog.request
_MODEL_SPEC, _INPUTS = 1, 2  # PredictRequest
_SIGNATURE_NAME = 3  # ModelSpec.signature_name
_KEY, _VALUE = 1, 2  # an entry of the map PredictRequest.inputs


def write(requests: Iterable[tuple[str, Mapping[str, Any]]], folder: Path) -> None:
    """Writes the warm-up file of a SavedModel.

    Args:
        requests: name of a signature, and its inputs as nested lists or arrays.
        folder: of the SavedModel.
    """
    path = folder / PATH
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in requests:
            file.write(prediction_log(signature, inputs))


def prediction_log(signature: str, inputs: Mapping[str, Any]) -> bytes:
    """A request as a serialized `PredictionLog`.

    Reference: TF Serving, "SavedModel Warmup",
    https://www.tensorflow.org/tfx/serving/saved_model_warmup.
    """
    request = _field(_MODEL_SPEC, _field(_SIGNATURE_NAME, signature.encode()))
    for name, value in inputs.items():
        tensor = tf.make_tensor_proto(value).SerializeToString()
        entry = _field(_KEY, name.encode()) + _field(_VALUE, tensor)
        request += _field(_INPUTS, entry)
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited field of a protocol buffer (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
