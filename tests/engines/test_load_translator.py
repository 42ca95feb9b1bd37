"""A model folder that CTranslate2 runs: its texts, its cache, and its refusals."""

import importlib
import importlib.util
import json
import operator
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_transformer as kt
from keras_transformer.cli.main import application
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import direction_of
from keras_transformer.engines import EngineName
from keras_transformer.engines import conversion
from keras_transformer.errors import InputError
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

pytest.importorskip("ctranslate2", reason="needs CTranslate2")
pytestmark = pytest.mark.one_backend("jax")  # PyTorch in its process slows it down

SOURCES, GREEDY, BEAM = lines("source"), lines("greedy"), lines("beam")
BACKENDS = ("jax", "keras", "tensorflow", "torch")
CODES = {"source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def keras_translator():
    return kt.Translator.load(FOLDER)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache of its own; conversions happen in this process, and are counted."""
    made = []

    def export(module, folder, output, *, environment, languages, **options):
        made.append(folder)
        translator = kt.Translator.load(folder, **languages)
        return importlib.import_module(module).export(translator, output, **options)

    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setattr(conversion.process, "export_folder", export)
        yield folder, made


@pytest.fixture(scope="module")
def translator(cache):
    return kt.CTranslate2Translator(FOLDER)


def cached():
    return conversion.convert(FOLDER, {}).export


def test_texts_are_those_of_the_model_folder(translator):
    lines = ["", *SOURCES, " "]
    assert translator.translate(lines, beam_size=1) == ["", *GREEDY, ""]
    found = translator.translate(SOURCES, batch_tokens=64)
    assert sum(map(operator.eq, found, BEAM)) >= 15


def test_details_are_those_of_the_translator(translator, keras_translator):
    asked = {"return_token_scores": True, "return_alignments": True}
    first = translator.target_tokenizer.encode(["Das"])[0][0]
    asked |= {"return_details": True, "max_length": 12, "forced_start": first}
    texts = [*SOURCES[:2], ""]
    expected = keras_translator.translate(texts, **asked)
    for row, right in zip(translator.translate(texts, **asked), expected, strict=True):
        assert len(row) == len(right) == 1
        found, right = row[0], right[0]
        for name in ("text", "ids", "tokens", "finished", "alignment"):
            assert getattr(found, name) == getattr(right, name), name
        # What is suppressed leaves its share of probability to the rest.
        np.testing.assert_allclose(found.score, right.score, rtol=0.01)
        np.testing.assert_allclose(found.token_scores, right.token_scores, atol=1e-4)


def test_long_lines_are_split_as_the_translator_splits_them(translator):
    line = " ".join(SOURCES[1:3])
    longest = max(map(len, translator.tokenizer.encode(SOURCES[1:3]))) + 1
    (found,) = translator.translate(
        [line], beam_size=1, long_lines="split", max_source_length=longest
    )
    assert found == " ".join(GREEDY[1:3])
    with pytest.raises(InputError, match="max_source_length is 8"):
        translator.translate([line], max_source_length=8)


def test_sentences_of_a_line_are_translated_one_by_one(translator):
    pytest.importorskip("sentencex", reason="needs sentencex")
    (found,) = translator.translate(
        ["  ".join(SOURCES[:3])], beam_size=1, split_sentences=True
    )
    assert found == "  ".join(GREEDY[:3])


def test_sentences_end_as_in_the_language_that_the_model_tells(tmp_path, cache):
    pytest.importorskip("sentencex", reason="needs sentencex")
    folder = shutil.copytree(FOLDER, tmp_path / "model")
    config = folder / "config.json"
    content = json.loads(config.read_text())
    content["about"] = {**content.get("about", {}), "source_language": "de"}
    config.write_text(json.dumps(content))
    line = "Er kommt am 3. Oktober. Sie kommt auch."
    for kind in (kt.Translator.load, kt.CTranslate2Translator):
        lines = kind(folder)._lines
        directions = [direction_of(None, lines._config)]
        options = DecodingOptions.of({})
        ((first, second),), _ = lines.sentences(
            [line], None, 1, options, directions, split=True
        )
        assert first[0].text == "Er kommt am 3. Oktober."
        assert second[0].text == "Sie kommt auch."


def test_several_hypotheses_are_ranked_by_our_scores(translator):
    ((first, second, third),) = translator.translate(
        SOURCES[1:2], top_beams=3, return_details=True
    )
    assert first.score >= second.score >= third.score
    penalty = ((5 + len(second.ids)) / 6) ** 0.6
    assert second.score == pytest.approx(second.log_probability / penalty)


def test_a_line_of_a_batch_has_its_own_attention(translator):
    """Of which the library swaps that of the first token, in a beam search."""
    asked = {"attention": True, "count": 1, "batch_size": 4}
    search = translator.decoding.with_ids(translator.target_tokenizer.ids_of)
    rows = [
        [*ids, translator._config.end_id]
        for ids in translator.tokenizer.encode(SOURCES[:4])
    ]

    def weights(sources):
        count = len(sources)
        limits, starts = [12] * count, [None] * count
        found = translator._library.search(
            sources, limits, search, starts=starts, **asked
        )
        return [row[0].attention["cross"] for row in found]

    for together, row in zip(weights(rows), rows, strict=True):
        np.testing.assert_allclose(together, weights([row])[0], atol=1e-5)


def test_a_translation_of_no_token_has_no_attention(translator):
    """What a limit of one token leaves where the end takes it."""
    asked = {"max_length": 1, "forced_end": True, "return_details": True}
    for extra in ({"beam_size": 1}, {"top_beams": 2}, {"return_alignments": True}):
        for (found,) in translator.translate(SOURCES[:2], **asked, **extra):
            assert (found.text, found.tokens) == ("", [])
            assert found.ids == [translator._config.end_id]
            assert found.log_probability == 0.0 and found.finished
            assert found.alignment == ([] if "return_alignments" in extra else None)


def test_what_is_forbidden_is_not_written_for_want_of_anything_else(translator):
    size = translator.target_tokenizer.vocabulary_size
    for beam_size in (1, 2):
        with pytest.raises(InputError, match="the options forbid every token before a"):
            translator.translate(
                SOURCES[:1],
                beam_size=beam_size,
                suppressed_tokens=list(range(2, size)),
                max_length=3,
            )


def test_a_conversion_is_kept_and_a_damaged_one_is_made_again(cache):
    export, made = cached(), cache[1]
    assert export.is_relative_to(cache[0] / "keras-transformer" / "ctranslate2")
    count, weights = len(made), (export / "model.bin").read_bytes()
    assert cached() == export and len(made) == count
    (export / "model.bin").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    assert cached() == export and len(made) == count + 1
    assert (export / "model.bin").read_bytes() == weights
    (export / "model.json").unlink()
    (export.parent / "sha256.json").write_text("[")
    assert cached() == export and len(made) == count + 2


def test_of_processes_that_start_together_one_converts(cache):
    export, made = cached(), cache[1]
    (export / "model.bin").unlink()
    count = len(made)
    with ThreadPoolExecutor(3) as pool:
        assert set(pool.map(lambda _: cached(), range(3))) == {export}
    assert len(made) == count + 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set XDG_CACHE_HOME to another folder"):
        cached()


def test_a_key_is_the_weights_the_config_and_the_tokenizer(cache, tmp_path):
    count = len(cache[1])
    shutil.copytree(FOLDER, tmp_path / "same")
    config = json.loads((FOLDER / "config.json").read_text())
    config["decoding"]["beam_size"] = 2
    (tmp_path / "same" / "config.json").write_text(json.dumps(config))
    found = conversion.convert(tmp_path / "same", {})
    assert found.export == cached() and found.decoding.beam_size == 2
    assert len(cache[1]) == count
    weights = tmp_path / "same" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes() + b"x")
    assert conversion.convert(tmp_path / "same", {}).export != cached()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": True}, "has no sampling; give --no-sampling, or use the engine"),
        ({"coverage_penalty": 0.2}, "no coverage_penalty; give --coverage-penalty 0,"),
        ({"mbr": "chrf"}, "has no mbr; give --mbr none, or use the engine keras"),
        ({"prefixes": ["Das"]}, "has no prefixes; leave it out, or use the engine"),
        ({"return_attention_weights": True}, "has no attention; leave it out"),
        ({"target_language": "de"}, "target_language 'de' is given, but the model"),
        ({"beam_size": 0}, "beam_size"),
    ],
    ids=str,
)
def test_what_the_library_lacks_is_named(options, message, translator):
    with pytest.raises(InputError, match=message):
        translator.translate(SOURCES[:1], **options)


def test_models_of_other_kinds_and_ensembles_are_refused(capsys):
    other = FOLDER.parent / "folders" / "recurrent.format-1"
    with pytest.raises(InputError, match="kind transformer, and this one is recurrent"):
        kt.load_translator(other, engine="ctranslate2")
    with pytest.raises(InputError, match="has no ensemble; leave it out"):
        kt.load_translator(FOLDER, FOLDER, engine="ctranslate2")
    with pytest.raises(InputError, match="unknown engine 'c'; use one of keras, ctra"):
        kt.BatchTranslator(FOLDER, engine="c")
    assert capsys.readouterr().err == ""


def test_auto_says_what_it_took_and_why(cache, capsys, monkeypatch):
    found = kt.load_translator(FOLDER, engine="auto", beam_size=1)
    assert found.translate(SOURCES[:1]) == GREEDY[:1]
    right = "engine: ctranslate2, cpu float32 (it is installed, and has all that is "
    assert capsys.readouterr().err.startswith(right)
    found = kt.load_translator(FOLDER, engine="auto", sampling=True)
    assert isinstance(found, kt.Translator) and found.decoding.sampling
    right = "engine: keras (the engine ctranslate2 has no sampling; "
    assert capsys.readouterr().err.startswith(right)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(kt.load_translator(FOLDER, engine="auto"), kt.Translator)
    assert "not installed; run pip install ctranslate2, " in capsys.readouterr().err
    with pytest.raises(InputError, match="run pip install ctranslate2, or use the eng"):
        kt.load_translator(FOLDER, engine="ctranslate2")


def test_many_machines_may_use_it(cache):
    translate = kt.BatchTranslator(FOLDER, engine="ctranslate2", beam_size=1)
    assert translate([*SOURCES[:2], None]) == [*GREEDY[:2], None]


def test_a_server_may_use_it(cache):
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.loading import load_engine

    engine = load_engine(FOLDER, Limits(), engine=EngineName.ctranslate2, beam_size=2)
    assert engine.beam_size == 2
    found = engine.translate(SOURCES[:2], Options(1))
    assert [row[0].text for row in found] == GREEDY[:2]


def test_a_server_forces_the_first_token_of_the_folder(cache, tmp_path):
    """Which is no language: a model without any has one, too."""
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.loading import load_engine

    folder = tmp_path / "forced"
    own = kt.Translator.load(FOLDER)
    first = own.target_tokenizer.vocabulary_size - 1
    (piece,) = own.target_tokenizer.pieces([first])
    options = {"forced_start": first, "coverage_penalty": 0.2}
    own.decoding = own.decoding.updated(options)
    own.save(folder)
    with pytest.raises(InputError, match=r"take them out of decoding in the model fol"):
        load_engine(folder, Limits(), engine=EngineName.ctranslate2)
    engine = load_engine(folder, Limits(), engine=EngineName.ctranslate2, beam_size=1)
    found = engine.translate(SOURCES[:2], Options(1))
    assert [row[0].tokens[0] for row in found] == [piece] * 2
    greedy = own.translate(SOURCES[:2], beam_size=1, coverage_penalty=0.0)
    assert [row[0].text for row in found] == greedy


def test_languages_are_those_of_the_load_and_of_each_line(cache, tmp_path):
    symbols = ("<de>", "<en>", "<fr>")
    text = ["ein Haus a house une maison"] * 9
    tokenizer = kt.data.Tokenizer.train(text, 280, user_defined_symbols=symbols)
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=280, num_encoder_layers=1, num_decoder_layers=1
    )
    codes = dict(zip(("de", "en", "fr"), tokenizer.ids_of(symbols), strict=True))
    languages = Languages(
        codes=codes,
        source_layout=("source", "text", "end"),
        target_layout=("target", "text", "end"),
    )
    options = {"beam_size": 1, "max_length": 6}
    own = kt.Translator(
        kt.Transformer(config), tokenizer, languages=languages, **options
    )
    own.save(tmp_path / "model")
    with pytest.raises(InputError, match="give source_language"):
        kt.CTranslate2Translator(tmp_path / "model")
    other = kt.CTranslate2Translator(tmp_path / "model", **CODES)
    texts = ["a house", "a a"]
    asked = {"return_details": True, "return_alignments": True}
    for code in ("de", ["de", "fr"]):
        expected = own.translate(
            texts, source_language="en", target_language=code, **asked
        )
        found = other.translate(texts, target_language=code, **asked)
        assert [row[0].ids for row in found] == [row[0].ids for row in expected]
        assert [r[0].alignment for r in found] == [r[0].alignment for r in expected]


def test_a_model_in_the_cache_needs_no_backend(cache, run_python, tmp_path):
    cached()
    (tmp_path / "in").write_text("\n".join(SOURCES), encoding="utf-8")
    command = ["-m", "keras_transformer.cli.main", "translate", str(FOLDER)]
    command += ["--engine", "ctranslate2", "--beam-size", "1"]
    command += ["--input", str(tmp_path / "in")]
    found = run_python(command, block=BACKENDS, env={"XDG_CACHE_HOME": str(cache[0])})
    assert found.splitlines() == GREEDY


def test_commands_refuse_what_it_lacks(cache):
    def asked(command, *flags):
        arguments = [command, str(FOLDER), "--engine", "ctranslate2", *flags]
        with pytest.raises(InputError) as caught:
            CliRunner().invoke(application(), arguments, catch_exceptions=False)
        return str(caught.value)

    source = str(FOLDER / "source.txt")
    flags = "--format", "jsonl", "--attention", "--input", source
    assert "ctranslate2 has no attention; " in asked("translate", *flags)
    assert "has no ensemble; " in asked(
        "translate", "--ensemble", str(FOLDER), "--input", source
    )
    files = "--source", source, "--reference", str(FOLDER / "beam.txt")
    assert "no sampling; give --no-sampling" in asked("evaluate", *files, "--sampling")
