"""The words of the phrasebook in what a run leaves, and in fine-tuned models."""

import types

import pytest

import keras_transformer as kt
from keras_transformer.data import phrasebook
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.phrasebook.vocabulary import known_words
from keras_transformer.errors import InputError
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import run_folder
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1}
tokenizer: {vocabulary_size: 400}
data: {phrasebook: de-en, batch_tokens: 256}
training: {steps: 2, warmup_steps: 2, validate_every: 1, checkpoint_every: 1}
decoding: {beam_size: 1, max_length: 3}
output: run
"""
COUNTS = {"train": 40, "validation": 2, "test": 2}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the config of a run on a few sentences of the phrasebook."""
    load = phrasebook.load

    def some(*languages_and_split):
        count = COUNTS[languages_and_split[-1]]
        return tuple(side[:count] for side in load(*languages_and_split))

    monkeypatch.setattr(phrasebook, "load", some)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def test_models_of_the_phrasebook_hold_its_words(project, capsys):
    words = known_words("de")
    train(load_config("config.yaml"))
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == f"the model knows {words.summary}"
    average("run", 2, "mean")
    for folder in ("run/averaged", "run/best", "mean"):
        translator = kt.Translator.load(folder)
        assert translator.known_words == words
        about = translator.about
        assert (about.name, about.training_text) == (
            "run",
            "the embedded phrasebook, de-en",
        )
        assert (about.source_language, about.target_language) == ("de", "en")
    card = (project / "run" / "averaged" / "README.md").read_text()
    assert f"* knows: {words.summary}" in card
    assert "\nIt translates from de to en.\n" in card
    # A run goes on with what it was begun with, whatever the package knows now.
    other = KnownWords(description="words", words={"dog"})
    (project / "run" / KNOWN_WORDS).write_text(other.to_json())
    train(load_config("config.yaml", ["training.steps=3"]))
    assert kt.Translator.load("run/averaged").known_words == other
    (project / "run" / KNOWN_WORDS).write_text("{")
    with pytest.raises(InputError, match=r"known_words\.json is damaged"):
        train(load_config("config.yaml", ["training.steps=4"]))
    # Of a run of an earlier version nothing is known.
    (project / "run" / KNOWN_WORDS).unlink()
    average("run", 2, "mean")
    assert kt.Translator.load("mean").known_words is None


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("now", [True, False])
def test_fine_tuning_keeps_words_where_all_texts_were_closed(before, now, project):
    """Else the model may have learned others, or have forgotten these."""
    words = KnownWords(description="words", words={"dog"})
    tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    model = kt.Transformer(
        kt.TransformerConfig.from_preset(
            "tiny", vocabulary_size=270, num_encoder_layers=1, num_decoder_layers=1
        )
    )
    kt.Translator(model, tokenizer, known_words=words if before else None).save("base")
    text = CONFIG.split("\n", 4)[-1]
    (project / "config.yaml").write_text(f"model: {{folder: base}}\n{text}")
    config = load_config("config.yaml", ["output=tuned"])
    (project / "tuned").mkdir()
    corpora = types.SimpleNamespace(known_words=lambda: words if now else None)
    found = run_folder.keep_known_words(config, corpora)
    assert found == (words if before and now else None)
    assert run_folder.known_words(project / "tuned") == found
