"""LibreTranslate's requests: its keys, its forms, its key, and what it lists."""

import json
import urllib.parse

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine
from test_languages_of_requests import Multilingual

from keras_transformer.serving.limits import Limits

pytestmark = pytest.mark.no_backend

WHOLE = {"split_sentences": False}
FORM = {"Content_Type": "application/x-www-form-urlencoded; charset=utf-8"}


def post_form(server, fields, **headers):
    body = urllib.parse.urlencode(fields, doseq=True).encode()
    return server.post("/translate", body, **FORM, **headers)


def test_one_text_or_a_list(server):
    request = {"q": "a b", "source": "en", "target": "de", "format": "text", **WHOLE}
    assert server.post("/translate", request) == (200, {"translatedText": "A B"})
    request = {**request, "q": ["a", ""], "source": "auto"}
    assert server.post("/translate", request) == (200, {"translatedText": ["A", ""]})


def test_alternatives_are_other_translations(server):
    request = {"q": "a", "alternatives": 2, **WHOLE}
    answer = {"translatedText": "A", "alternatives": ["A!", "A!!"]}
    assert server.post("/translate", request) == (200, answer)
    assert server.engine.batches[-1][1].n_best == 3
    request = {"q": ["a", "b"], "alternatives": 3, **WHOLE}
    answer = server.post("/translate", request)[1]
    assert answer["alternatives"] == [["A!", "A!!"], ["B!", "B!!"]]  # of three found


def test_a_form_is_as_good_as_json(server):
    fields = {"q": "ä & b", "source": "en", "target": "de", "split_sentences": "false"}
    assert post_form(server, fields) == (200, {"translatedText": "Ä & B"})
    fields = {**fields, "q": ["a", "b"], "alternatives": "1"}
    answer = {"translatedText": ["A", "B"], "alternatives": [["A!"], ["B!"]]}
    assert post_form(server, fields) == (200, answer)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"q": 3}, "q: Input should be a valid string or a valid list, got 3"),
        ({"q": "a", "format": "html"}, "translates no html"),
        ({"q": "a", "format": "pdf"}, "format: Input should be 'text' or 'html'"),
        ({"q": "a", "alternatives": 4}, "alternatives 4 must be between 0 and 3"),
        ({"q": "a", "alternatives": -1}, "alternatives -1 must be between 0 and 3"),
        ({"q": "a", "n_best": 2}, "unknown key n_best; use alternatives, api_key, for"),
        ({"q": "a\0", **WHOLE}, "text 1 holds a NUL"),
        ({"q": ["a"] * 129, **WHOLE}, "129 texts are more than the 128"),
    ],
)
def test_a_bad_request_is_named(request_, message, server):
    status, answer = server.post("/translate", request_)
    assert (status, message in answer["error"]) == (400, True), answer


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"q=a&format=text&format=text", "the form has format twice"),
        (b"text=a", "the form has no field q"),
        (b"q=a&alternatives=x", "alternatives: Input should be a valid integer"),
        (b"q=%FF", "the form is not UTF-8"),
        (b"\xff=a", "the form is not UTF-8"),
        (b"q=a&" * 999, "the form has more than 148 fields"),
        (b"", "is not JSON"),
    ],
)
def test_a_bad_form_is_named(body, message, server):
    status, answer = server.post("/translate", body, **FORM)
    assert (status, message in answer["error"]) == (400, True), answer


def test_the_key_may_be_in_the_body(start_server):
    server = start_server(key="ä")
    right = {"q": "a", "api_key": "ä", **WHOLE}
    assert server.post("/translate", right) == (200, {"translatedText": "A"})
    fields = {**right, "split_sentences": "false"}
    assert post_form(server, fields) == (200, {"translatedText": "A"})
    for body in (
        {**right, "api_key": "b"},
        {**right, "api_key": 3},
        {"q": "a"},
        {"text": "a"},
        b"{",
    ):
        assert server.post("/translate", body)[0] == 401
    wrong = {"X_API_Key": "b"}
    assert server.post("/translate", right, **wrong)[0] == 401
    assert server.get("/info")[0] == 401


def test_languages_are_listed_where_they_are_known(server, start_server):
    status, answer = server.get("/languages")
    assert status == 404 and "does not know its languages" in answer["error"]
    pair = start_server(languages=("en", "de"))
    row = {"code": "en", "name": "en", "targets": ["de"]}
    assert pair.get("/languages") == (200, [row])
    status, answer = pair.post("/translate", {"q": "a", "target": "fr", **WHOLE})
    assert (status, answer["error"]) == (
        400,
        "tgt_lang 'fr' is not served here; give 'de'",
    )
    many = start_server(Multilingual())
    rows = {row["code"]: row["targets"] for row in many.get("/languages")[1]}
    assert rows == {"en": ["de", "fr"], "de": ["en", "fr"], "fr": ["en", "de"]}
    request = {"q": "a", "source": "de", "target": "fr", **WHOLE}
    assert many.post("/translate", request) == (200, {"translatedText": "A DE-FR"})


def test_limits_are_those_of_any_request(start_server):
    server = start_server(FakeEngine(), Limits(characters=3))
    status, answer = server.post("/translate", {"q": "aaaa", **WHOLE})
    assert status == 400 and "text 1 has 4 characters" in answer["error"]


def test_a_client_of_libretranslate_is_served(start_server):
    library = pytest.importorskip("libretranslatepy", reason="needs libretranslatepy")
    pytest.importorskip("sentencex", reason="needs sentencex")
    server = start_server(languages=("en", "de"), key="secret")
    address = f"http://{server.host}:{server.port}/"
    client = library.LibreTranslateAPI(address, api_key="secret")
    text = "a b. c & ä!\n\nd?"
    assert client.translate(text, "en", "de") == text.upper()
    assert client.languages()[0]["targets"] == ["de"]
    server.until(lambda: json.dumps(server.engine.batches[-1][0]))
    assert [text for texts, _ in server.engine.batches for text in texts] != [text]
