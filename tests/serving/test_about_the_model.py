"""What a folder tells of its model: the server's name and languages, and their uses."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine
from test_languages_of_requests import Multilingual

from keras_transformer.config.about import About

pytestmark = pytest.mark.no_backend

ABOUT = About(source_language="en", target_language="de", training_text="our manuals")


def engine_with(about, kind=FakeEngine):
    engine = kind()
    engine.about = about
    return engine


def test_its_languages_are_those_of_the_server(start_server):
    server = start_server(engine_with(ABOUT))
    info = server.get("/info")[1]
    assert (info["source_language"], info["target_language"]) == ("en", "de")
    assert info["training_text"] == "our manuals"
    status, answer = server.post("/translate", {"text": "a", "tgt_lang": "fr"})
    assert status == 400
    assert answer["error"] == "tgt_lang 'fr' is not served here; give 'de'"
    request = {"text": "a", "src_lang": "auto", "tgt_lang": "de"}
    assert server.post("/translate", request)[0] == 200


def test_the_servers_own_come_first(start_server):
    server = start_server(engine_with(ABOUT), languages=("fr", "it"))
    assert server.get("/languages")[1][0]["targets"] == ["it"]
    several = start_server(engine_with(ABOUT, Multilingual))
    assert several.post("/translate", {"text": "a", "tgt_lang": "fr"})[0] == 200


def test_who_does_not_know_says_so(server):
    info = server.get("/info")[1]
    assert (info["source_language"], info["target_language"]) == (None, None)
    assert info["training_text"] is None
    assert "does not know its languages" in server.get("/languages")[1]["error"]


def test_every_model_is_the_default_too(start_server):
    server = start_server(name="en-de")
    for name in ("en-de", "default"):
        assert server.get(f"/v1/models/{name}")[0] == 200
        path = f"/v1/models/{name}:predict"
        assert server.post(path, {"instances": ["a"]})[0] == 200
        assert server.get(f"/v2/models/{name}")[1]["name"] == "en-de"
    assert server.get("/v1/models/other")[0] == 404
