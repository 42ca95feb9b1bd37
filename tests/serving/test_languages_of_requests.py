"""Languages of requests: under each of their names, missing, unknown, in one batch."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.config.languages import Languages

pytestmark = pytest.mark.no_backend


class Multilingual(FakeEngine):
    """Writes the target language behind each text."""

    languages = Languages(
        codes={"en": 4, "de": 5, "fr": 6},
        source_layout=("source", "text", "end"),
        source="en",
    )

    def count_tokens(self, texts, codes):
        assert codes[1] in self.languages.codes
        return super().count_tokens(texts)

    def translate(self, texts, options, codes):
        pairs = zip(texts, codes, strict=True)
        named = [f"{text} {'-'.join(map(str, pair))}" for text, pair in pairs]
        return super().translate(named, options)


@pytest.fixture
def multilingual(start_server):
    return start_server(Multilingual())


@pytest.mark.parametrize(
    "codes",
    [
        {"source_language": "de", "target_language": "fr"},
        {"src_lang": "de", "tgt_lang": "fr"},
        {"source": "de", "target": "fr"},
        {"source": "de", "src_lang": "de", "target": "fr"},
    ],
)
def test_languages_have_the_names_that_clients_send(multilingual, codes):
    answer = multilingual.post("/translate", {"text": "a", **codes})
    assert answer == (200, {"translations": ["A DE-FR"]})


def test_a_source_that_nobody_knows_is_the_default(multilingual):
    for codes in ({}, {"source": "auto"}, {"source_language": None}):
        request = {"text": "a", "target": "de", **codes}
        assert multilingual.post("/translate", request)[1]["translations"] in (
            ["A NONE-DE"],
            ["A EN-DE"],
        )


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ({}, "translates into 3 languages: en, de, fr; give target_language"),
        ({"target": "deu"}, "knows 3 languages, not 'deu'; near: de"),
        ({"source": "it", "target": "de"}, "source_language: the model knows 3"),
        ({"target": "de", "tgt_lang": "fr"}, "'fr' and target 'de' are two languages"),
        ({"target": 3}, "target must be the code of a language, as a string, got 3"),
    ],
)
def test_a_language_that_is_missing_or_wrong_is_named(multilingual, codes, message):
    status, answer = multilingual.post("/translate", {"text": "a", **codes})
    assert status == 400
    assert message in answer["error"]


def test_who_asks_a_server_of_one_pair_is_told_that_pair(start_server):
    server = start_server(Multilingual(), languages=("en", "fr"))
    assert server.get("/languages")[1] == [
        {"code": "en", "name": "en", "targets": ["fr"]}
    ]
    info = server.get("/info")[1]
    assert (info["source_language"], info["target_language"]) == ("en", "fr")
    assert server.post("/translate", {"text": "a", "target": "de"})[0] == 400
    assert server.post("/translate", {"text": "a"})[1]["translations"] == ["A EN-FR"]


def test_who_asks_is_told_the_languages(multilingual):
    info = multilingual.get("/info")[1]
    assert info["target_languages"] == ["en", "de", "fr"]
    assert (info["source_language"], info["target_language"]) == ("en", None)


def test_a_model_of_two_languages_takes_the_other_names_too(start_server):
    server = start_server(FakeEngine(), languages=("en", "de"))
    request = {"text": "a", "source": "en", "target": "de"}
    assert server.post("/translate", request) == (200, {"translations": ["A"]})
    status, answer = server.post("/translate", {**request, "target": "fr"})
    assert (status, answer["error"]) == (
        400,
        "tgt_lang 'fr' is not served here; give 'de'",
    )
