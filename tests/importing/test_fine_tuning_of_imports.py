"""Fine-tuning of an imported model of many languages."""

import itertools
import random

import multilingual_folders
import pytest

import keras_transformer as kt
from keras_transformer.training import load_config
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

WORDS = {
    "the": "die",
    "cat": "Katze",
    "sleeps": "schläft",
    "under": "unter",
    "old": "alten",
    "table": "Tisch",
    "train": "Zug",
}
CONFIG = """
model: {folder: model}
data:
  train:
  - {source: en, target: de, source_language: eng_Latn, target_language: deu_Latn}
  - {source: de, target: en, source_language: deu_Latn, target_language: eng_Latn}
  batch_tokens: 1024
training:
  steps: 250
  warmup_steps: 20
  learning_rate: 0.03
  schedule: constant
  label_smoothing: 0.0
  average_last: 1
output: tuned
"""


def test_translations_of_200_pairs_improve_in_both_languages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sentences = list(itertools.product(WORDS, repeat=3))
    sentences = random.Random(1).sample(sentences, 100)
    text = {
        "eng_Latn": [" ".join(sentence) for sentence in sentences],
        "deu_Latn": [" ".join(map(WORDS.get, sentence)) for sentence in sentences],
    }
    for name, lines in zip(("en", "de"), text.values(), strict=True):
        lines = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    (tmp_path / "tune.yaml").write_text(CONFIG, encoding="utf-8")
    foreign = multilingual_folders.write(tmp_path / "foreign", "NLLB", layers=1)
    kt.importing.convert(foreign, "model")

    def right(folder):
        """How many lines are translated word for word, by target language."""
        translator = kt.Translator.load(folder)
        counts = {}
        for source, target in itertools.permutations(text):
            found = translator.translate(
                text[source],
                source_language=source,
                target_language=target,
                beam_size=1,
                max_length=24,
            )
            pairs = zip(found, text[target], strict=True)
            counts[target] = sum(one == other for one, other in pairs)
        return counts

    assert right("model") == {"deu_Latn": 0, "eng_Latn": 0}
    train(load_config("tune.yaml"))
    assert min(right("tuned/averaged").values()) >= 15
