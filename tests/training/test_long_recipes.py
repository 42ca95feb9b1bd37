"""The recipes that are too long for a test start, on synthetic text."""

import gzip
import json
import random
import shutil
import string
from pathlib import Path

import pytest

from keras_transformer.training.config import load_config

FOLDER = Path(__file__).parents[2] / "tutorials" / "configs"
LONG = (
    "wmt14_en_de_base",
    "wmt14_en_de_big",
    "wmt14_en_fr_base",
    "wmt14_en_fr_big",
    "iwslt14_de_en",
    "tatoeba_en_de_base",
)

#: Narrow and short, so that 20 steps take seconds; all else is the recipe's.
NARROW = {
    "model.hidden_dim": 16,
    "model.intermediate_dim": 32,
    "model.num_heads": 2,
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "tokenizer.vocabulary_size": 4 + 256 + 27 + 26,  # ids, bytes, letters, words
    "data.batch_tokens": 256,
    "training.steps": 20,
    "training.validate_every": 20,
    "training.checkpoint_every": 4,
}


def synthetic_text(num_lines):
    """Lines of six words, each of which becomes one piece: one shape to compile."""
    words = random.Random(1).choices(string.ascii_lowercase, k=6 * num_lines)
    lines = (" ".join(words[i : i + 6]) for i in range(0, len(words), 6))
    return "".join(f"{line}\n" for line in lines).encode()


def files(config):
    data = config.data
    for corpus in (*data.train, data.validation, data.test):
        yield from (*corpus.source, *corpus.target)


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_recipe_starts(name, tmp_path, monkeypatch, capsys):
    from keras_transformer.training import train
    from keras_transformer.translator import Translator

    recipe = shutil.copy(FOLDER / f"{name}.yaml", tmp_path)
    config = load_config(recipe, [f"{key}={value}" for key, value in NARROW.items()])
    for path in files(config):
        path.parent.mkdir(parents=True, exist_ok=True)
        data = synthetic_text(80 if path.suffix == ".gz" else 4)
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    monkeypatch.chdir(tmp_path)
    scores = train(config)
    folder = tmp_path / config.output
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps == [4, 8, 12, 16, 20]
    kept = sorted(path.name for path in (folder / "checkpoints").glob("step-*"))
    assert len(kept) == 5
    tokenize = config.evaluation.tokenize
    assert f"|tok:{tokenize}|" in scores[0].signature
    translator = Translator.load(folder / "averaged")
    assert translator.beam_size == config.decoding.beam_size
    assert len((folder / "test.hypotheses.txt").read_text().splitlines()) == 4
