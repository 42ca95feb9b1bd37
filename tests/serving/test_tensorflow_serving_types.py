"""Answers to clients of TF Serving, read by TF Serving's own types."""

import json

import keras
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

pytestmark = [
    pytest.mark.one_backend("tensorflow"),
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="needs TensorFlow, which these types import",
    ),
]


def test_status_and_signatures_are_of_their_types(start_server):
    pytest.importorskip("tensorflow_serving", reason="needs tensorflow-serving-api")
    from google.protobuf import json_format
    from tensorflow.core.framework import types_pb2
    from tensorflow_serving.apis import get_model_metadata_pb2
    from tensorflow_serving.apis import get_model_status_pb2
    from tensorflow_serving.apis import model_pb2

    server = start_server(name="en-de")
    body = server.send("GET", "/v1/models/en-de")[2]
    found = json_format.Parse(body, get_model_status_pb2.GetModelStatusResponse())
    (status,) = found.model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (status.version, status.state) == (1, available)
    answer = json.loads(server.send("GET", "/v1/models/en-de/metadata")[2])
    spec = json_format.ParseDict(answer["model_spec"], model_pb2.ModelSpec())
    assert (spec.name, spec.version.value) == ("en-de", 1)
    signatures = json_format.ParseDict(
        answer["metadata"]["signature_def"], get_model_metadata_pb2.SignatureDefMap()
    ).signature_def
    assert signatures["serving_default"].inputs["text"].dtype == types_pb2.DT_STRING
    scores = signatures["translate_n_best"].outputs["scores"]
    assert scores.dtype == types_pb2.DT_FLOAT
    assert [dimension.size for dimension in scores.tensor_shape.dim] == [-1, 4]
