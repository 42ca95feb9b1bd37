"""The Open Inference Protocol: its forms, its answers, and what it refuses."""

import json
import struct

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine
from test_languages_of_requests import Multilingual

pytestmark = pytest.mark.no_backend

MODEL = "/v2/models/default"
INFER = f"{MODEL}/infer"


def tensor(texts, **keys):
    shape = [len(texts)]
    return {"name": "text", "shape": shape, "datatype": "BYTES", "data": texts, **keys}


def packed(*texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def post_binary(server, head, tail, length=None):
    head = json.dumps(head).encode()
    length = str(len(head) if length is None else length)
    name = "Inference_Header_Content_Length"
    return server.send("POST", INFER, head + tail, **{name: length})


def binary(texts, tail, **keys):
    inputs = {**tensor(texts), "parameters": {"binary_data_size": len(tail)}}
    del inputs["data"]
    return {"inputs": [{**inputs, **keys}]}


def test_texts_in_json(server):
    status, answer = server.post(INFER, {"id": "7", "inputs": [tensor(["a", "b c"])]})
    assert status == 200
    assert answer == {
        "id": "7",
        "model_name": "default",
        "model_version": "1",
        "outputs": [
            {
                "name": "translation",
                "datatype": "BYTES",
                "shape": [2],
                "data": ["A", "B C"],
            },
            {"name": "score", "datatype": "FP32", "shape": [2], "data": [-1.0, -1.0]},
            {"name": "finished", "datatype": "BOOL", "shape": [2], "data": [True] * 2},
        ],
    }
    body = {
        "inputs": [tensor([["a"], ["b"]], shape=[2, 1])],
        "outputs": [{"name": "translation"}],
        "parameters": {"beam_size": 1},
    }
    (output,) = server.post(f"{MODEL}/versions/1/infer", body)[1]["outputs"]
    assert (output["shape"], output["data"]) == ([2, 1], ["A", "B"])
    assert server.engine.batches[-1][1].beam_size == 1


def test_texts_behind_the_json(server):
    tail = packed("ä".encode(), b"")
    request = binary(["ä", ""], tail)
    request["parameters"] = {"binary_data_output": True}
    request["outputs"] = [
        {"name": "finished", "parameters": {"binary_data": False}},
        {"name": "translation"},
        {"name": "score"},
    ]
    status, headers, body = post_binary(server, request, tail)
    assert (status, headers.get_content_type()) == (200, "application/octet-stream")
    end = int(headers["Inference-Header-Content-Length"])
    finished, translation, score = json.loads(body[:end])["outputs"]
    assert finished["data"] == [True, True]
    assert translation["parameters"] == {"binary_data_size": 10}
    assert score["parameters"] == {"binary_data_size": 8}
    assert body[end:] == packed("Ä".encode(), b"") + struct.pack("<ff", -1.0, 0.0)


def test_the_server_and_its_model_are_described(server, start_server):
    assert server.get("/v2")[1]["extensions"] == ["binary_tensor_data"]
    assert server.get("/v2/health/live") == (200, {"live": True})
    assert server.get("/v2/health/ready") == (200, {"ready": True})
    assert server.get(f"{MODEL}/ready") == (200, {"name": "default", "ready": True})
    answer = server.get(f"{MODEL}/versions/1")[1]
    assert answer == server.get(MODEL)[1]
    assert [tensor["name"] for tensor in answer["outputs"]] == [
        "translation",
        "score",
        "finished",
    ]
    for path in ("/v2/models/x", "/v2/models/x/ready", f"{MODEL}/versions/2/ready"):
        assert server.get(path)[0] == 404
    assert server.post("/v2/models/x/infer", {})[0] == 404
    engine = FakeEngine()
    engine.prepared.clear()
    waiting = start_server(engine, wait=False, key="k")
    for path in ("/v2/health/ready", f"{MODEL}/ready"):
        assert waiting.get(path)[0] == 503
    assert waiting.get("/v2/health/live")[0] == 200
    assert waiting.get(MODEL)[0] == 401 and waiting.post(INFER, {})[0] == 401


def test_languages_are_parameters(start_server):
    server = start_server(Multilingual())
    parameters = {"source_language": "de", "target_language": "fr"}
    request = {"inputs": [tensor(["a"])], "parameters": parameters}
    outputs = server.post(INFER, request)[1]["outputs"]
    assert outputs[0]["data"] == ["A DE-FR"]
    status, answer = server.post(INFER, {"inputs": [tensor(["a"])]})
    assert status == 400 and "give target_language" in answer["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "expected keys with values, got []"),
        ({}, "inputs is missing"),
        ({"inputs": []}, "inputs: List should have at least 1 item"),
        ({"inputs": [tensor(["a"])] * 2}, "inputs: List should have at most 1 item"),
        (
            {"inputs": [tensor(["a"], name="x")]},
            "inputs.0.name: Input should be 'text'",
        ),
        ({"inputs": [tensor(["a"], datatype="FP32")]}, "datatype: Input should be 'BY"),
        ({"inputs": [tensor(["a"], shape=[2])]}, "has 1 texts, unlike its shape [2]"),
        ({"inputs": [tensor(["a"], shape=[1, 2])]}, "must be [N], or [N, 1]"),
        ({"inputs": [tensor(["a"], shape=[-1])]}, "must be [N], or [N, 1]"),
        ({"inputs": [tensor(["a"], shape=[])]}, "must be [N], or [N, 1]"),
        ({"inputs": [tensor([3])]}, "data must hold strings, got int: '3'"),
        ({"inputs": [tensor(["a\0"])]}, "text 1 holds a NUL"),
        ({"inputs": [tensor(["a"])], "outputs": [{"name": "x"}]}, "outputs.0.name: In"),
        (
            {"inputs": [tensor(["a"])], "parameters": {"beam_size": 3}},
            "beam_size 3 is not available",
        ),
        ({"inputs": [tensor(["a"])], "parameters": {"top": 3}}, "key parameters.top"),
        ({"inputs": [tensor(["a"])], "more": 1}, "unknown key more"),
    ],
)
def test_a_bad_request_is_named(body, message, server):
    status, answer = server.post(INFER, body)
    assert (status, message in answer["error"]) == (400, True), answer


@pytest.mark.parametrize(
    ("tail", "keys", "length", "message"),
    [
        (packed(b"a")[:-1], {}, None, "the binary tensor is truncated"),
        (packed(b"a") + b"\1", {}, None, "the binary tensor is truncated"),
        (packed(b"\xff"), {}, None, "text 1 is not UTF-8"),
        (packed(b"a", b"b"), {}, None, "has 2 texts, unlike its shape [1]"),
        (packed(*[b""] * 129), {}, None, "more than the 128 texts"),
        (packed(b"a"), {"parameters": {"binary_data_size": 4}}, None, "has 5 bytes be"),
        (packed(b"a"), {"parameters": None}, None, "needs its texts in data, or be"),
        (packed(b"a"), {"data": ["a"]}, None, "needs its texts in data, or behind"),
        (packed(b"a"), {}, 10**6, "must be the bytes of the JSON, at most those of"),
        (packed(b"a"), {}, "-1", "must be the bytes of the JSON"),
        (packed(b"a"), {}, 3, "the body is not JSON"),
    ],
)
def test_a_bad_binary_tensor_is_named(tail, keys, length, message, server):
    status, _, body = post_binary(server, binary(["a"], tail, **keys), tail, length)
    answer = json.loads(body)
    assert (status, message in answer["error"]) == (400, True), answer


@pytest.mark.parametrize("is_binary", [True, False])
def test_a_client_of_triton_is_served(is_binary, server):
    triton = pytest.importorskip("tritonclient.http", reason="needs tritonclient")
    texts = np.array(["a ä", "", "b"], dtype=np.object_)
    given = triton.InferInput("text", [3], "BYTES")
    given.set_data_from_numpy(texts, binary_data=is_binary)
    names = ("translation", "score")
    outputs = [triton.InferRequestedOutput(n, binary_data=is_binary) for n in names]
    client = triton.InferenceServerClient(f"{server.host}:{server.port}")
    try:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("default")
        assert client.get_server_metadata()["name"] == "keras-transformer"
        assert client.get_model_metadata("default")["inputs"][0]["name"] == "text"
        for wanted in (outputs, None):
            answer = client.infer("default", [given], outputs=wanted, request_id="r")
            found = answer.as_numpy("translation").tolist()
            right = ["A Ä", "", "B"]
            assert [f.decode() if isinstance(f, bytes) else f for f in found] == right
            assert answer.as_numpy("score").tolist() == [-1.0, 0.0, -1.0]
            assert answer.get_response()["id"] == "r"
        with pytest.raises(triton.InferenceServerException, match="no such model"):
            client.infer("other", [given])
    finally:
        client.close()
