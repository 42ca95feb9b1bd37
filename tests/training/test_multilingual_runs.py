"""A multilingual model of one's own: trained, resumed and averaged as any other."""

import json
import re
from pathlib import Path

import pytest
from small_run import assert_equal_runs
from small_run import terminating_at

import keras_transformer as kt
from keras_transformer.data import phrasebook
from keras_transformer.errors import InputError
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
model:
  preset: tiny
  hidden_dim: 16
  intermediate_dim: 16
  num_encoder_layers: 1
  num_decoder_layers: 1
tokenizer: {vocabulary_size: 400}
data:
  train:
  - {source: de, target: en, source_language: de, target_language: en}
  - {source: de, target: en, source_language: de, target_language: en, weight: 0.5}
  - {source: fr, target: de, source_language: fr, target_language: de}
  validation: {source: val.fr, target: val.de, source_language: fr, target_language: de}
  test: {source: val.de, target: val.en, source_language: de, target_language: en}
  temperature: 5
  batch_tokens: 400
  bpe_dropout: 0.1
  workers: 1
training:
  steps: 6
  warmup_steps: 2
  validate_every: 3
  checkpoint_every: 3
  log_every: 3
  average_last: 2
decoding: {beam_size: 1, max_length: 8}
output: OUTPUT
"""


@pytest.fixture
def load(tmp_path):
    counts = {"de": 40, "en": 40, "fr": 12}
    for language, count in counts.items():
        lines, _ = phrasebook.load(
            language, "en" if language != "en" else "de", "train"
        )
        for name, part in ((language, lines[:count]), (f"val.{language}", lines[:4])):
            text = "".join(f"{line}\n" for line in part)
            (tmp_path / name).write_text(text, encoding="utf-8")
    lines = (tmp_path / "de").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "de12").write_text("".join(lines[:12]), encoding="utf-8")
    text = CONFIG.replace("source: fr, target: de,", "source: fr, target: de12,")
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")

    def load_run(name, *overrides):
        output = f"output={tmp_path / name}"
        return load_config(tmp_path / "config.yaml", [output, *overrides])

    return load_run


@pytest.mark.one_backend
def test_a_multilingual_model_of_ones_own_is_trained(load, tmp_path, monkeypatch):
    config = load("run")
    train(config)
    folder = tmp_path / "run" / "averaged"
    translator = kt.Translator.load(folder)
    languages = translator.languages
    assert (languages.sources, languages.targets) == (("de", "fr"), ("en", "de"))
    assert languages.source_layout == ("target", "text", "end")
    tags = translator.tokenizer.ids_of(["<2en>", "<2de>"])
    assert [languages.codes["en"], languages.codes["de"]] == tags
    (found,) = translator.translate(["Bonjour."], target_language="de")
    assert isinstance(found, str)
    with pytest.raises(InputError, match="translates into 2 languages: en, de; give"):
        translator.translate(["Bonjour."])
    with pytest.raises(InputError, match="does not translate from 'en', but from 2"):
        translator.translate(["a"], source_language="en", target_language="de")
    average(tmp_path / "run", 1, tmp_path / "average", say=lambda text: None)
    assert kt.Translator.load(tmp_path / "average").languages == languages
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(2))
        with pytest.raises(running.Interrupted):
            train(load("resumed"))
    train(load("resumed"))
    assert_equal_runs(tmp_path / "run", tmp_path / "resumed")
    with pytest.raises(InputError, match=r"data\.temperature: 5\.0 -> 2"):
        train(load("run", "data.temperature=2"))


@pytest.mark.one_backend
def test_a_multilingual_model_is_fine_tuned_with_its_own_languages(load, tmp_path):
    train(load("run", "data.bpe_dropout=0"))
    folder = tmp_path / "run" / "averaged"
    begun = (f"model={{folder: {folder}}}", "tokenizer=null", "training.steps=3")
    train(load("more", *begun))
    translator = kt.Translator.load(folder)
    tuned = kt.Translator.load(tmp_path / "more" / "averaged")
    assert tuned.languages == translator.languages
    with pytest.raises(InputError, match=r"data.train.0: .*'it'"):
        text = {"source": "de", "target": "en", "source_language": "de"}
        text = json.dumps([{**text, "target_language": "it"}])
        train(load("other", *begun, f"data.train={text}", "data.temperature=null"))


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data.test={source: val.de, target: val.en}"],
            "data.test.source_language is missing, but other corpora have languages",
        ),
        (
            ["data.train=[{source: de, target: en}]"],
            "temperature weighs pairs of languages",
        ),
        (["data.temperature=0.5"], "data.temperature: .*greater than or equal to 1"),
        (
            ["data.test.source_language=a b"],
            "'<2a b>' holds white space",
        ),
    ],
)
def test_languages_that_are_missing_or_wrong_are_named(load, overrides, message):
    with pytest.raises(InputError, match=message):
        load("run", *overrides)


@pytest.mark.no_backend
def test_the_config_of_the_documentation_is_one(tmp_path):
    text = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"```yaml\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "languages.yaml").write_text(config, encoding="utf-8")
    read = load_config(tmp_path / "languages.yaml")
    assert [c.target_language for c in read.data.train] == ["de", "en", "fr"]
    assert read.data.temperature == 5
