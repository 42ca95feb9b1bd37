"""Exports of a multilingual model: of one pair of languages, with the same text."""

import json
import subprocess
import sys

import pytest

import keras_transformer as kt
from keras_transformer.config.about import About
from keras_transformer.config.languages import Languages
from keras_transformer.errors import InputError
from keras_transformer.export import ctranslate2

TAGS = ("<de>", "<en>", "<fr>")
LINES = ["a house", "house a a house", "", "une maison a house ein Haus"]
LAYOUTS = {
    "language first": {
        "source_layout": ("source", "text", "end"),
        "target_layout": ("target", "text", "end"),
    },
    "language at the end": {
        "source_layout": ("text", "end", "source"),
        "target_layout": ("text", "end", "target"),
        "decoder_start": "target",
    },
    "prefix": {"prefixes": {"en": {"de": "to German: "}}},
}
OPTIONS = {"beam_size": 1, "max_length": 9}


@pytest.fixture(scope="module")
def make():
    lines = ["ein Haus a house une maison to German"] * 9
    tokenizer = kt.data.Tokenizer.train(lines, 290, reserved_symbols=TAGS)
    ids = dict(zip(("de", "en", "fr"), tokenizer.ids_of(TAGS), strict=True))
    sizes = {"hidden_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=290, **sizes)
    model = kt.Transformer(config)

    def translator(layout, **options):
        languages = Languages(codes=ids, **LAYOUTS[layout])
        return kt.Translator(
            model, tokenizer, languages=languages, **OPTIONS, **options
        )

    return translator


CODES = {"source_language": "en", "target_language": "de"}


@pytest.mark.one_backend
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_program_beside_an_export_tells_the_model_its_languages(
    make, tmp_path, layout
):
    pytest.importorskip("ctranslate2")
    with pytest.raises(InputError, match="translates from 3 languages: de, en, fr"):
        ctranslate2.export(make(layout), tmp_path / "export")
    assert not (tmp_path / "export").exists()
    translator = make(layout, **CODES)
    folder = ctranslate2.export(translator, tmp_path / "export")
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert description["format_version"] == 2
    assert description["languages"]["target"] == "de"
    done = subprocess.run(
        [sys.executable, str(folder / "translate.py")],
        input="".join(f"{line}\n" for line in LINES),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.split("\n")[:-1] == translator.translate(LINES)


@pytest.mark.one_backend
def test_a_server_of_an_export_tells_the_model_its_languages(make, tmp_path):
    pytest.importorskip("ctranslate2")
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.loading import load_engine

    translator = make("language at the end", **CODES)
    translator.about = About(name="mine")
    folder = ctranslate2.export(translator, tmp_path / "export")
    engine = load_engine(folder, Limits())
    assert engine.about == About(name="mine", **CODES)
    lines = [line for line in LINES if line]
    found = [row[0].text for row in engine.translate(lines, Options(1))]
    assert found == translator.translate(lines)
    assert engine.count_tokens(lines) == translator.count_tokens(lines)
    with pytest.raises(InputError, match="target_language 'fr' is given, but"):
        load_engine(folder, Limits(), target_language="fr")


@pytest.mark.one_backend("tensorflow")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_graph_of_a_saved_model_has_its_languages(make, layout):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    from keras_transformer.export import checks
    from keras_transformer.export.signatures import Signatures

    translator = make(layout, **CODES)
    options = checks.decoding_options("saved_model", translator, {})
    signatures = Signatures(translator, options).functions()
    answer = signatures["serving_default"](text=tf.constant(LINES))
    texts = [text.decode() for text in answer["translation"].numpy()]
    assert texts == translator.translate(LINES)
    pairs = ["a house", "house"], ["ein Haus", "Haus"]
    answer = signatures["score"](source=tf.constant(pairs[0]), target=pairs[1])
    expected = [score.log_probability for score in translator.score(*pairs)]
    assert answer["log_probability"].numpy() == pytest.approx(expected, abs=1e-4)
