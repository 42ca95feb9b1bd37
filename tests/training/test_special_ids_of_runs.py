"""A run learns with the special ids of its tokenizer, and goes on with a folder's."""

import json

import digit_text
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train

OPTIONS = ["training.steps=2", "data.test=", "data.validation="]


def write_model(path, **options):
    """SentencePiece's own model, with its own defaults."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for pair in digit_text.pairs(60) for line in pair),
        model_prefix=str(path.with_suffix("")),
        vocab_size=280,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
        **options,
    )
    return path


def ids_of(folder):
    model = json.loads((folder / "config.json").read_text())["model"]
    return [model[name] for name in ("vocabulary_size", "pad_id", "start_id", "end_id")]


@pytest.mark.one_backend
def test_a_run_has_the_ids_of_its_tokenizer_and_a_second_one_those_of_the_folder(
    config_file, tmp_path
):
    path = write_model(tmp_path / "theirs.model")
    tokenizer = [f"tokenizer={{path: {path}}}"]
    train(load_config(config_file, [*OPTIONS, *tokenizer, "output=first"]))
    first = tmp_path / "first" / "averaged"
    assert ids_of(first) == [281, 280, 1, 2]
    text = config_file.read_text().splitlines()
    end = next(i for i, line in enumerate(text) if line.startswith("data"))
    text = [f"model: {{folder: {first}}}", *text[end:]]
    config_file.write_text("\n".join(text))
    train(load_config(config_file, [*OPTIONS, "output=second"]))
    second = tmp_path / "second" / "averaged"
    assert ids_of(second) == [281, 280, 1, 2]
    assert len(kt.Translator.load(second).translate(["123", ""])) == 2


@pytest.mark.one_backend
def test_two_tokenizers_of_unlike_ids_are_refused(config_file, tmp_path):
    source = write_model(tmp_path / "source.model")
    target = write_model(tmp_path / "target.model", pad_id=3)
    paths = f"tokenizer={{source_path: {source}, target_path: {target}}}"
    options = [*OPTIONS, paths, "model.tie_embeddings=none", "output=run"]
    with pytest.raises(
        InputError, match=r"source tokenizer has pad_id 280 and the target tokenizer 3"
    ):
        train(load_config(config_file, options))
