"""Translation with a multilingual model: its folder, codes, and what it is given."""

import json

import pytest

import keras_transformer as kt
from keras_transformer.config.languages import Languages
from keras_transformer.data import Tokenizer
from keras_transformer.errors import InputError

SYMBOLS = ("<de>", "<en>", "<fr>")


@pytest.fixture(scope="module")
def tokenizer():
    lines = ["ein Haus a house une maison"] * 9
    return Tokenizer.train(lines, 280, user_defined_symbols=SYMBOLS)


def languages_of(tokenizer, **fields):
    ids = tokenizer.ids_of(SYMBOLS)
    codes = {symbol[1:-1]: ids[i] for i, symbol in enumerate(SYMBOLS)}
    return Languages(codes=codes, **fields)


@pytest.fixture(scope="module")
def model():
    return kt.Transformer(kt.TransformerConfig.from_preset("tiny", vocabulary_size=280))


@pytest.mark.one_backend
def test_languages_are_kept_in_the_model_folder(model, tokenizer, tmp_path):
    languages = languages_of(tokenizer, source_layout=("target", "text", "end"))
    kt.Translator(model, tokenizer, languages=languages).save(tmp_path / "model")
    written = json.loads((tmp_path / "model" / "config.json").read_text())
    assert written["format_version"] == 2
    read = kt.Translator.load(tmp_path / "model", target_language="fr")
    assert read.languages == languages.with_defaults(None, "fr")
    assert read.info()["target language"] == "fr"
    with pytest.raises(InputError, match="knows 3 languages, not 'fra'; near: fr"):
        kt.Translator.load(tmp_path / "model", target_language="fra")
    kt.Translator(model, tokenizer).save(tmp_path / "plain")
    plain = json.loads((tmp_path / "plain" / "config.json").read_text())
    assert plain["format_version"] == 1
    assert "languages" not in plain
    with pytest.raises(InputError, match="target_language 'fr' is given, but"):
        kt.Translator.load(tmp_path / "plain", target_language="fr")
    with pytest.raises(InputError, match="has other languages than"):
        kt.Translator.load(tmp_path / "model", tmp_path / "plain")


@pytest.mark.one_backend
def test_ids_of_languages_outside_of_the_vocabulary_are_refused(model, tokenizer):
    languages = Languages(codes={"de": 280}, source_layout=("target", "text", "end"))
    with pytest.raises(InputError, match="the source vocabulary has 280 entries"):
        kt.Translator(model, tokenizer, languages=languages)
