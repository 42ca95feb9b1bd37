"""Exports take white space and invisible characters as the tokenizer does."""

import subprocess
import sys
from pathlib import Path

import keras
import pytest

import keras_transformer as kt
from keras_transformer.export import ctranslate2
from reference.fixture_folder import ON_TENSORFLOW

pytestmark = ON_TENSORFLOW

PRETRAINED = Path(__file__).parents[2] / "tutorials" / "pretrained" / "en-de"
NOTHING = ["\u200b", "\ufeff", "\xad", "\u200e \u2060", "\u200d", "\u200b\0", " \xa0"]
SAME = ["a fox", " a fox", "a\xa0fox", "a  f\xadox\u200b", "\ufeffa\tfox "]


@pytest.fixture(scope="module", params=["whitespace", "identity"])
def translator(request):
    keras.utils.set_random_seed(1)
    tokenizer = kt.data.Tokenizer.train(
        ["a fox and a dog"] * 9, 270, normalization=request.param
    )
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=270, max_sequence_length=20, **sizes
    )
    return kt.Translator(kt.Transformer(config), tokenizer, beam_size=2)


@pytest.fixture(scope="module")
def expected(translator):
    """What the model says; of the default rule what that must be."""
    found = translator.translate(NOTHING + SAME)
    if not translator.tokenizer.normalize("\u200b"):
        assert found[: len(NOTHING)] == [""] * len(NOTHING)
        assert len(set(found[len(NOTHING) :])) == 1
    return found


def test_saved_model(translator, expected):
    import tensorflow as tf

    from keras_transformer.export.signatures import Signatures

    functions = Signatures(translator, translator.decoding).functions()
    answer = functions["serving_default"](text=tf.constant(NOTHING + SAME))
    assert [text.decode() for text in answer["translation"].numpy()] == expected
    assert not answer["truncated"].numpy().any()


def test_saved_model_of_a_tokenizer_without_bytes(tmp_path):
    """Whose unknown letters come back as a mark, as those of most imported models."""
    import tensorflow as tf

    from keras_transformer.export.signatures import Signatures

    kt.importing.convert(PRETRAINED, tmp_path / "model")
    translator = kt.Translator.load(tmp_path / "model")
    lines = ["\u200d", "\0", " \u200c", "a\u200d", ""]
    functions = Signatures(translator, translator.decoding).functions()
    answer = functions["serving_default"](text=tf.constant(lines))
    found = [text.decode() for text in answer["translation"].numpy()]
    assert found == translator.translate(lines)
    assert found[:3] == ["", "", ""]


def test_program_of_an_export(translator, expected, tmp_path):
    pytest.importorskip("ctranslate2")
    folder = ctranslate2.export(translator, tmp_path / "model")
    lines = "".join(f"{line}\n" for line in NOTHING + SAME)
    done = subprocess.run(
        [sys.executable, folder / "translate.py"],
        input=lines.encode(),
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().removesuffix("\n").split("\n") == expected
