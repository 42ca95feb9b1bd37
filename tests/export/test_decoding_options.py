"""Exports search with every option of the model, or refuse it by name."""

import json
import warnings

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.cli.main import application
from keras_transformer.config.languages import Languages
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.export import ctranslate2
from keras_transformer.export import litert
from keras_transformer.export import onnx
from keras_transformer.export import saved_model
from reference.fixture_folder import BLOCKED
from reference.fixture_folder import FOLDER
from reference.weights import scatter

on_tensorflow = pytest.mark.one_backend("tensorflow")
pytestmark = pytest.mark.export

LINES = ["a fox", "", "a dog and a fox", "a dog " * 9]
OPTIONS = {
    "beam_size": 4,
    "top_beams": 3,
    "normalization": "power",
    "length_penalty": 0.9,
    "coverage_penalty": 0.2,
    "patience": 1.5,
    "min_length": 3,
    "max_length": 8,
    "suppressed_tokens": ("a", 261),
    "forced_start": 262,
    "forced_end": True,
    "num_beam_groups": 2,
    "diversity_penalty": 0.4,
    "long_lines": "truncate",
    "max_source_length": 9,
}
#: What a greedy search has instead of some.
PLAIN = {
    "beam_size": 1,
    "top_beams": 1,
    "coverage_penalty": 0.0,
    "patience": None,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
}
REPEATS = {"no_repeat_ngram_size": 2, "repetition_penalty": 1.3}


@pytest.fixture(scope="module")
def translator():
    """A small one, whose translations differ."""
    tokenizer = kt.data.Tokenizer.train(["a fox and a dog"] * 9, 270)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 16}
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=270, max_sequence_length=20, num_heads=2, **sizes
    )
    model = scatter(kt.Transformer(config), 1, 0.4)
    return kt.Translator(model, tokenizer, **OPTIONS)


def said(translator, **options):
    """Texts, scores and whether they are finished, of each line."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "line . has .* only the first 8 ")
        found = translator.translate(LINES, return_details=True, **options)
    return [[(h.text, h.score, h.finished) for h in row] for row in found]


def assert_same(found, expected):
    for row, hypotheses in zip(found, expected, strict=True):
        assert len(row) == len(hypotheses)
        for own, right in zip(row, hypotheses, strict=True):
            assert own[0] == right[0]
            assert own[1] == pytest.approx(right[1], abs=1e-4)
            assert own[2] == right[2]


@on_tensorflow
def test_saved_models_have_them(translator, tmp_path):
    import tensorflow as tf

    expected = said(translator, **REPEATS)
    folder = saved_model.export(translator, tmp_path / "model", **REPEATS)
    loaded = tf.saved_model.load(str(folder)).signatures
    text = tf.constant(LINES)
    answer = {k: v.numpy() for k, v in loaded["translate_n_best"](text=text).items()}
    names = ("translations", "scores", "finished", "num_tokens")
    found = [
        [(t.decode(), s, f) for t, s, f, n in zip(*row, strict=True) if n or not t]
        for row in zip(*(answer[name] for name in names), strict=True)
    ]
    found[1] = found[1][:1]  # an empty line has one translation
    assert_same(found, expected)
    assert answer["truncated"].tolist() == [False, False, True, True]
    best = loaded["serving_default"](text=text)
    assert [t.decode() for t in best["translation"].numpy()] == [
        row[0][0] for row in expected
    ]
    greedy = loaded["translate_greedy"](text=text)["translation"].numpy()
    right = [row[0][0] for row in said(translator, **PLAIN, **REPEATS)]
    assert [text.decode() for text in greedy] == right
    nothing = loaded["serving_default"](text=tf.constant(["", " "]))
    assert nothing["translation"].numpy().tolist() == [b"", b""]
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "with beam size 4, length penalty 0.9, top beams 3, norm" in card
    assert "reached its\nlimit of 8 tokens;" in card
    assert "`truncated`: 3 hypotheses a line" in card


USE = """
import json, sys
sys.path.insert(0, {folder!r})
from translate import Translator

translator = Translator({folder!r}, threads=1)
results = []
for whole in (True, False):
    translator.engine.whole_searches = whole  # LiteRT's
    found = translator.hypotheses({lines!r})
    results.append(translator.translate({lines!r}, beam_size=1))
    results.append([
        [(translator.text(h), h.score, getattr(h, "finished", None)) for h in row]
        for row in found
    ])
print(json.dumps(results))
"""


@on_tensorflow
@pytest.mark.parametrize("form", [onnx, litert])
def test_programs_have_them(translator, form, tmp_path, run_python):
    """Of LiteRT both with the loop in the file and with the loop around its step."""
    pytest.importorskip("onnxruntime" if form is onnx else "ai_edge_litert")
    folder = form.export(translator, tmp_path / "model")
    described = json.loads((folder / "model.json").read_text("utf-8"))
    options = translator.decoding.model_dump()
    ids = translator.tokenizer.ids_of(options["suppressed_tokens"])
    assert described["search"].items() <= options.items()
    assert described["search"].keys() == {*OPTIONS, *REPEATS} - {"suppressed_tokens"}
    assert described["ids"]["suppressed"] == sorted({0, 1, *ids})
    code = USE.format(folder=str(folder), lines=LINES)
    results = json.loads(run_python(code, block=BLOCKED).splitlines()[-1])
    expected = said(translator)
    expected[1] = []  # of an empty line the program has no hypothesis
    greedy = [row[0][0] for row in said(translator, **PLAIN)]
    for found in results[::2]:
        assert found == greedy
    for found in results[1::2]:
        assert_same(found, expected)


@on_tensorflow
def test_a_step_of_a_broken_model_gives_nan(translator):
    """Whatever a runtime's sort does with it: where one logit is NaN, the best is."""
    from keras_transformer.export.decoding_graph import DecodingGraph

    logits = np.zeros((1, 2, 270), "float32")
    logits[0, 1, 200] = np.nan

    class Broken:
        config = translator.model.config

        def decode_step(self, tokens, position, constants, cache, **options):
            return kt.models.StepOutput(logits, cache)

    step, _ = DecodingGraph(Broken()).step()
    state = np.zeros((4, 1, 2, 2, 3, 8), "float32")
    zeros = np.zeros((1, 2), "int32")
    found = step(zeros, 0, zeros, 2, np.zeros((1, 1, 1, 3), "float32"), *state)
    best = found["best_log_probabilities"].numpy()
    assert np.isfinite(best[0, 0]).all() and np.isnan(best[0, 1]).all()


@on_tensorflow
def test_litert_has_no_loop_inside_where_it_has_no_operation_for_it():
    for name, value in REPEATS.items():
        assert litert._searches(DecodingOptions(**{name: value})) == {}
    searches = litert._searches(DecodingOptions(beam_size=1, min_length=3))
    assert searches == {"greedy": DecodingOptions(beam_size=1, min_length=3)}


@pytest.mark.one_backend
def test_ctranslate2_has_what_its_library_has(translator, tmp_path, run_python):
    pytest.importorskip("ctranslate2")
    options = PLAIN | REPEATS | {"forced_end": False}
    folder = ctranslate2.export(translator, tmp_path / "model", **options)
    code = USE.format(folder=str(folder), lines=LINES)
    greedy, found, *_ = json.loads(run_python(code, block=BLOCKED).splitlines()[-1])
    expected = said(translator, **options)
    assert greedy == [row[0][0] for row in expected]
    # A forced first token costs nothing there, too, and counts in the length. The
    # rest is a little more probable: what is suppressed leaves its share to it.
    scores = [row[0][1] for row in found if row]
    right = [row[0][1] for row, line in zip(expected, LINES, strict=True) if line]
    np.testing.assert_allclose(scores, right, atol=0.1)


@pytest.mark.one_backend
def test_a_server_of_ctranslate2_has_them_too(translator, tmp_path):
    pytest.importorskip("ctranslate2")
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits

    options = {"patience": 2.0, "num_beam_groups": 1, "diversity_penalty": 0.0}
    options |= {"coverage_penalty": 0.0, **REPEATS}
    folder = ctranslate2.export(translator, tmp_path / "model", **options)
    engine = CTranslate2Engine(folder, Limits())
    some = [LINES[0], "fox"]
    found = engine.translate(some, Options(1))
    expected = translator.translate(some, return_details=True, **PLAIN | REPEATS)
    assert [row[0].text for row in found] == [row[0].text for row in expected]
    (several, _) = engine.translate(some, Options(4, 3))
    assert len(several) == 3
    assert all(3 <= len(h.ids) <= 8 for h in several)
    with pytest.raises(InputError, match="at most 9"):
        engine.count_tokens(LINES)


@pytest.mark.one_backend
def test_a_given_forced_start_takes_the_place_of_the_models_own(translator):
    """`None` means that the first token is free."""
    for given, expected in ({}, 262), ({"forced_start": 265}, 265):
        options = checks.decoding_options("onnx", translator, given)
        assert options.forced_start == expected
    options = checks.decoding_options("onnx", translator, {"forced_start": None})
    assert options.forced_start is None


@pytest.mark.one_backend
def test_a_forced_start_that_is_not_the_target_language_is_refused(translator):
    codes = {"codes": {"de": 265}, "target_layout": ("target", "text", "end")}
    multilingual = kt.Translator(
        translator.model, translator.tokenizer, languages=Languages(**codes)
    )
    options = checks.decoding_options("onnx", multilingual, {})
    assert options.forced_start == 265
    with pytest.raises(InputError, match="give target_language instead"):
        checks.decoding_options("onnx", multilingual, {"forced_start": 262})


# === What a format does not have ===


@pytest.fixture(scope="module")
def loaded():
    return kt.Translator.load(FOLDER)


@pytest.fixture
def own(loaded, monkeypatch):
    """A translator whose options may be set."""
    monkeypatch.setattr(loaded, "decoding", DecodingOptions())
    return loaded


def flags_of(message):
    return message.partition("; give ")[2].partition(" to export")[0].split()


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("options", "lacking", "flags"),
    [
        ({"sampling": True, "seed": 3}, "sampling", "--no-sampling"),
        (
            {"sampling": True, "temperature": 0.7, "top_k": 9, "top_p": 0.9},
            "sampling, temperature, top_k, top_p",
            "--no-sampling --temperature 1 --top-k 0 --top-p 1",
        ),
        (
            {"sampling": True, "top_beams": 9},
            "sampling",
            "--no-sampling --top-beams 1",
        ),
        ({"mbr": "chrf"}, "mbr", "--mbr none"),
        (
            {"mbr": "bleu", "mbr_candidates": 3},
            "mbr, mbr_candidates",
            "--mbr none --mbr-candidates none",
        ),
        ({"long_lines": "split"}, "long_lines split", "--long-lines error"),
    ],
)
@pytest.mark.parametrize("form", [saved_model, onnx, litert, ctranslate2])
def test_what_no_format_has_is_refused_with_the_flags_that_turn_it_off(
    form, options, lacking, flags, own, tmp_path
):
    own.decoding = DecodingOptions(**options)
    name = form.__name__.rpartition(".")[2]
    with pytest.raises(InputError) as error:
        form.export(own, tmp_path / "model")
    assert str(error.value) == (
        f"the format {name} has no {lacking}; give {flags} to export without it"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.one_backend
def test_the_flags_that_a_refusal_names_are_enough(own, tmp_path, monkeypatch):
    """With them the command line exports."""
    fields = {"sampling": True, "temperature": 0.5, "top_beams": 9, "mbr": "chrf"}
    own.decoding = DecodingOptions(**fields, long_lines="split")
    own.save(tmp_path / "model")
    with pytest.raises(InputError) as error:
        checks.decoding_options("onnx", own, {})
    given = []
    monkeypatch.setattr(
        onnx,
        "export",
        lambda *arguments, quantization, card, **options: given.append(options),
    )
    command = ["export", str(tmp_path / "model"), "--format", "onnx"]
    command += ["--output", "out", *flags_of(str(error.value))]
    application()(command, standalone_mode=False)
    options = checks.decoding_options("onnx", own, given[0])
    assert options == DecodingOptions()


@pytest.mark.one_backend
def test_what_one_format_lacks_is_refused(own, tmp_path):
    own.decoding = DecodingOptions(
        coverage_penalty=0.2, num_beam_groups=2, diversity_penalty=0.5
    )
    flags = "--coverage-penalty 0 --num-beam-groups 1 --diversity-penalty 0"
    with pytest.raises(InputError, match=f"the format ctranslate2 has no .*{flags} to"):
        ctranslate2.export(own, tmp_path / "model")
    own.decoding = DecodingOptions(min_length=5000)
    with pytest.raises(InputError, match="min_length 5000 is more than the"):
        onnx.export(own, tmp_path / "model")
    own.decoding = DecodingOptions()
    with pytest.raises(InputError, match="unknown key beamsize; did you mean"):
        onnx.export(own, tmp_path / "model", beamsize=2)
    with pytest.raises(InputError, match="the tokenizer has no piece"):
        litert.export(own, tmp_path / "model", suppressed_tokens=["no such piece"])
    assert not list(tmp_path.iterdir())
