"""TF Serving's predict API: its forms, its signatures, and what it refuses."""

import base64

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.serving.engine import Options

pytestmark = pytest.mark.no_backend

PREDICT = "/v1/models/default:predict"


def test_predict_by_row_and_by_column(server):
    row = {"translation": "A", "score": -1.0, "finished": True, "truncated": False}
    encoded = {"b64": base64.b64encode(b"a").decode()}
    for instances in (["a"], [{"text": "a"}], [encoded], [{"text": encoded}]):
        body = {"instances": instances}
        assert server.post(PREDICT, body) == (200, {"predictions": [row]})
    body = {"signature_name": "", "instances": ["a"]}  # of some clients: the default
    assert server.post(PREDICT, body) == (200, {"predictions": [row]})
    columns = {name: [value, value] for name, value in row.items()}
    for inputs in (["a", "a"], {"text": ["a", "a"]}):
        body = {"signature_name": "serving_default", "inputs": inputs}
        assert server.post(PREDICT, body) == (200, {"outputs": columns})
    assert server.post(PREDICT, {"instances": []}) == (200, {"predictions": []})
    columns = {name: [] for name in row}
    assert server.post(PREDICT, {"inputs": []}) == (200, {"outputs": columns})


def test_predict_with_the_other_signatures(server):
    body = {"signature_name": "translate_greedy", "instances": ["a"]}
    assert server.post(PREDICT, body)[1]["predictions"][0]["translation"] == "A"
    assert server.engine.batches[-1][1].beam_size == 1
    body = {"signature_name": "translate_n_best", "instances": ["a", ""]}
    first, empty = server.post(PREDICT, body)[1]["predictions"]
    assert first["translations"] == ["A", "A!", "A!!", ""]
    assert first["num_tokens"] == [2, 2, 2, 0]
    assert first["scores"][3] < -3e38
    assert empty["translations"] == [""] * 4
    body = {"signature_name": "translate_n_best", "inputs": ["a", "b"]}
    outputs = server.post(PREDICT, body)[1]["outputs"]
    assert [row[1] for row in outputs["translations"]] == ["A!", "B!"]
    body = {"signature_name": "encode", "instances": ["a"]}
    status, answer = server.post(PREDICT, body)
    assert status == 400 and "translate_n_best" in answer["error"]


def test_a_greedy_model_has_several_hypotheses_as_its_saved_model(start_server):
    engine = FakeEngine()
    engine.beam_size = 1
    server = start_server(engine)
    body = {"signature_name": "translate_n_best", "instances": ["a"]}
    (answer,) = server.post(PREDICT, body)[1]["predictions"]
    assert answer["translations"] == ["A", "A!", "A!!", ""]
    assert server.engine.batches[-1][1] == Options(4, 4)
    assert server.post(PREDICT, {"instances": ["a"]})[0] == 200
    assert server.engine.batches[-1][1] == Options(1)
    _, answer = server.get("/v1/models/default/metadata")
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    shape = signatures["translate_n_best"]["outputs"]["scores"]["tensor_shape"]
    assert [size["size"] for size in shape["dim"]] == ["-1", "4"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'an object with "instances" or "inputs"'),
        ({"instances": ["a"], "inputs": ["a"]}, 'an object with "instances" or'),
        ({"instances": "a"}, '"instances" must be a list'),
        ({"inputs": "a"}, '"inputs" must be a list'),
        ({"instances": [1]}, "each text must be a string, got int"),
        ({"instances": [{"txt": "a"}]}, "each text must be a string, got dict"),
        ({"instances": [{"text": "a", "b": 1}]}, "unknown input 'b'"),
        ({"instances": [{"b64": "%"}]}, "in base64"),
        ({"instances": [{"b64": "/w=="}]}, "in base64"),
        ({"instances": ["a"], "n_best": 2}, "unknown key 'n_best'"),
        ({"instances": ["a"], "signature_name": ["x"]}, "is not served here"),
        ({"instances": ["a\0"]}, "NUL"),
        ({"instances": ["\ud800"]}, "surrogate"),
    ],
)
def test_a_bad_prediction_is_named(body, message, server):
    status, answer = server.post(PREDICT, body)
    assert (status, message in answer["error"]) == (400, True), answer
