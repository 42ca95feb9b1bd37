"""Translation with a multilingual model: its folder, codes, and what it is given."""

import functools
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import keras_transformer as kt
from keras_transformer.cli.main import application
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
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=280, num_encoder_layers=1, num_decoder_layers=1
    )
    return kt.Transformer(config)


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


LANGUAGE_FIRST = {
    "source_layout": ("source", "text", "end"),
    "target_layout": ("target", "text", "end"),
}
CODES = {"source_language": "en", "target_language": "de"}


@pytest.fixture(scope="module")
def translator(model, tokenizer):
    return kt.Translator(
        model, tokenizer, languages=languages_of(tokenizer, **LANGUAGE_FIRST)
    )


def first_ids(translator, **options):
    found = translator.translate(
        ["a house", "a"], return_details=True, max_length=9, **options
    )
    return [row[0].ids[0] for row in found]


@pytest.mark.one_backend
def test_the_language_of_the_target_is_the_first_token_and_not_scored(translator):
    ids = translator.languages.codes
    assert first_ids(translator, beam_size=2, **CODES) == [ids["de"]] * 2
    # A code for each line, in one call.
    codes = {**CODES, "target_language": ["fr", "de"]}
    assert first_ids(translator, beam_size=1, **codes) == [ids["fr"], ids["de"]]
    ((hypothesis,),) = translator.translate(
        ["a house"],
        return_details=True,
        return_token_scores=True,
        max_length=9,
        **CODES,
    )
    written = sum(hypothesis.token_scores[1:])
    assert hypothesis.log_probability == pytest.approx(written, abs=1e-4)
    (score,) = translator.score(["a house"], ["ein Haus"], **CODES)
    assert score.tokens[0] != "<de>" and score.num_tokens == len(score.tokens)
    other = {**CODES, "target_language": "fr"}
    (of_other,) = translator.score(["a house"], ["ein Haus"], **other)
    assert of_other.tokens == score.tokens
    assert of_other.log_probability != pytest.approx(score.log_probability, abs=1e-6)


@pytest.mark.one_backend
def test_a_missing_or_unknown_language_is_one_error(translator):
    for call in (
        lambda **codes: translator.translate(["a house"], **codes),
        lambda **codes: translator.score(["a house"], ["ein Haus"], **codes),
        lambda **codes: translator.count_tokens(["a house"], **codes),
        lambda **codes: kt.visualization.attention_maps(translator, "a", **codes),
    ):
        with pytest.raises(InputError, match="translates into 3 languages: de, en, fr"):
            call(source_language="en")
        with pytest.raises(InputError, match="knows 3 languages, not 'ger'; near: de"):
            call(source_language="en", target_language="ger")
    with pytest.raises(InputError, match="1 lines do not pair with 2 codes of target"):
        translator.translate(["a"], source_language="en", target_language=["de", "fr"])


@pytest.mark.one_backend
def test_words_are_aligned_without_what_stands_around_them(model, tokenizer):
    languages = languages_of(
        tokenizer,
        source_layout=("source", "text", "end", "target"),
        target_layout=("target", "text", "end"),
        prefixes={"*": {"de": "to German: "}},
    )
    translator = kt.Translator(model, tokenizer, languages=languages, **CODES)
    ((hypothesis,),) = translator.translate(
        ["a house"],
        return_details=True,
        return_alignments=True,
        return_attention_weights=True,
        prefixes=["ein Haus"],
        max_length=20,
        beam_size=1,
    )
    assert {source for source, _ in hypothesis.alignment} <= {0, 1}
    assert hypothesis.source_tokens[0] == "<en>"
    assert hypothesis.source_tokens[-2:] == ["</s>", "<de>"]
    assert hypothesis.ids[0] == languages.codes["de"]
    assert hypothesis.text.startswith("ein Haus")
    width = len(hypothesis.source_tokens)
    assert translator.count_tokens(["a house"]) == [width]
    assert hypothesis.attention["cross"].shape[-1] == width


@pytest.mark.one_backend
def test_the_language_may_be_the_first_input_of_the_decoder(model, tokenizer):
    """As in mBART-25: the same as a model whose start token it is."""
    languages = languages_of(
        tokenizer,
        source_layout=("text", "end", "source"),
        target_layout=("text", "end", "target"),
        decoder_start="target",
    )
    translator = kt.Translator(model, tokenizer, languages=languages, **CODES)
    source = [*tokenizer.encode(["a house"])[0], 2, languages.codes["en"]]
    labels = [*tokenizer.encode(["ein Haus"])[0], 2]
    (score,) = translator.score(["a house"], ["ein Haus"])
    inputs = {"source": [source], "target": [[languages.codes["de"], *labels[:-1]]]}
    logits = model.predict_on_batch(
        {k: np.array(v, "int32") for k, v in inputs.items()}
    )
    logs = logits[0] - np.log(np.exp(logits[0]).sum(-1, keepdims=True))
    expected = logs[np.arange(len(labels)), labels]
    assert score.token_scores == pytest.approx(expected.tolist(), abs=1e-4)
    for beam_size in (1, 3):
        ((found,),) = translator.translate(
            ["a house"],
            return_details=True,
            return_token_scores=True,
            beam_size=beam_size,
            max_length=9,
        )
        assert sum(found.token_scores) == pytest.approx(found.log_probability, abs=1e-4)


@pytest.mark.one_backend
def test_a_server_translates_lines_of_several_languages_together(translator):
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.translator_engine import TranslatorEngine

    engine = TranslatorEngine(translator, Limits(batch_size=2), beam_size=2)
    codes = [("en", "de"), ("en", "fr")]
    found = engine.translate(["a house"] * 2, Options(2), codes)
    ids = translator.languages.codes
    assert [row[0].ids[0] for row in found] == [ids["de"], ids["fr"]]
    assert engine.count_tokens(["a"], ("en", "de")) == translator.count_tokens(
        ["a"], **CODES
    )
    with pytest.raises(InputError, match="translates from 3 languages"):
        engine.count_tokens(["a"])
    assert list(engine.warm_up(8))


@pytest.mark.one_backend
def test_the_command_line_takes_languages(translator, tmp_path):
    translator.save(tmp_path / "model")
    (tmp_path / "lines").write_text("a house\n", encoding="utf-8")
    arguments = ["--input", tmp_path / "lines", "--max-length", 5]
    command = [*map(str, ["translate", tmp_path / "model", *arguments])]
    codes = ["--source-language", "en", "--target-language", "de"]
    run = functools.partial(CliRunner().invoke, application(), catch_exceptions=False)
    (line,) = translator.translate(["a house"], max_length=5, **CODES)
    assert run([*command, *codes]).stdout == f"{line}\n"
    with pytest.raises(InputError, match="translates from 3 languages"):
        run(command)
