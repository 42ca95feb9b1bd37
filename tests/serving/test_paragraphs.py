"""Texts of several sentences: translated one by one, and put together again."""

import sys

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from keras_transformer.serving.limits import Limits

pytestmark = pytest.mark.no_backend

TEXT = "A cat. Two dogs.\n\n It rains."
SPLIT = {"split_sentences": True}


@pytest.fixture(autouse=True)
def _library():
    pytest.importorskip("sentencex", reason="needs sentencex")


def test_sentences_are_translated_one_by_one(server):
    answer = server.post("/translate", {"texts": [TEXT, "", "a"], **SPLIT})
    assert answer == (200, {"translations": [TEXT.upper(), "", "A"]})
    texts = [text for batch, _ in server.engine.batches for text in batch]
    assert sorted(texts[-4:]) == ["A cat.", "It rains.", "Two dogs.", "a"]


def test_a_text_is_whole_unless_asked(server):
    assert server.post("/translate", {"text": TEXT})[1]["translations"] == [
        TEXT.upper()
    ]
    assert server.engine.batches[-1][0] == [TEXT]


def test_libretranslate_splits_unless_told_otherwise(server):
    request = {"q": [TEXT, "b"], "alternatives": 1}
    status, answer = server.post("/translate", request)
    assert (status, answer["translatedText"]) == (200, [TEXT.upper(), "B"])
    assert answer["alternatives"] == [["A CAT.! TWO DOGS.!\n\n IT RAINS.!"], ["B!"]]
    assert TEXT not in server.engine.batches[-1][0]


def test_details_are_those_of_each_sentence(server):
    request = {"texts": [TEXT, " "], "details": True, "n_best": 2, **SPLIT}
    answer = server.post("/translate", request)[1]
    assert answer["sentences"] == [["A cat.", "Two dogs.", "It rains."], []]
    found = [[h["text"] for h in row] for row in answer["details"][0]]
    assert found[1] == ["TWO DOGS.", "TWO DOGS.!"]
    assert answer["details"][1] == []


def test_the_language_decides_where_a_sentence_ends(start_server):
    server = start_server(languages=("de", "en"))
    text = "Er kam am 3. Mai. Ja."
    request = {"text": text, "details": True, **SPLIT}
    assert server.post("/translate", request)[1]["sentences"] == [
        ["Er kam am 3. Mai.", "Ja."]
    ]


def test_limits_are_named_with_the_sentence(start_server):
    server = start_server(limits=Limits(sentences=4, characters=200))
    for texts, message in (
        (["a.", "A cat. " + "a " * 60], "line 2, sentence 2 has 61 tokens"),
        (["a.", "a " * 60], "line 2 has 61 tokens"),
        (["A cat. " * 5], "the text has 5 sentences, more than the 4"),
        (["A cat. " + "a" * 201], "line 1, sentence 2 has 201 characters"),
    ):
        status, answer = server.post("/translate", {"texts": texts, **SPLIT})
        assert (status, message in answer["error"]) == (400, True), answer
    long = "A cat sleeps on a mat. " * 4 + "a" * 120
    assert server.post("/translate", {"text": long, **SPLIT})[0] == 400  # five
    assert (
        server.post("/translate", {"text": "a" * 150 + ". " + "b" * 150, **SPLIT})[0]
        == 200
    )


def test_a_server_without_the_library_says_so(start_server, monkeypatch):
    server = start_server()
    assert server.get("/info")[1]["splits_sentences"] is True
    monkeypatch.setitem(sys.modules, "sentencex", None)
    assert server.get("/info")[1]["splits_sentences"] is False
    for request in ({"text": "a", **SPLIT}, {"q": "a"}):
        status, answer = server.post("/translate", request)
        assert status == 400 and "pip install sentencex" in answer["error"]
    assert server.post("/translate", {"q": "a", "split_sentences": False})[0] == 200
