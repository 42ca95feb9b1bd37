"""Engines give what `Translator` gives, whatever the batches."""

from pathlib import Path

import keras
import numpy as np
import pytest

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.models import RecurrentModel
from keras_transformer.models import Transformer
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.loading import is_ctranslate2
from keras_transformer.serving.loading import load_engine
from keras_transformer.serving.translator_engine import TranslatorEngine
from keras_transformer.translator import Translator

pytestmark = [
    pytest.mark.one_backend("jax"),  # which compiles sooner than PyTorch traces
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="once is enough"),
]

FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
SMALLEST = {"hidden_dim": 4, "num_encoder_layers": 1, "num_decoder_layers": 1}
LINES = (FOLDER / "source.txt").read_text(encoding="utf-8").splitlines()[:5]


@pytest.fixture(scope="module")
def translator():
    return Translator.load(FOLDER)


@pytest.fixture(scope="module")
def engine():
    return load_engine(FOLDER, Limits(batch_size=8))


def test_translations_are_those_of_the_translator(engine, translator):
    expected = translator.translate(LINES, return_details=True)
    for found, right in zip(engine.translate(LINES, Options(4)), expected, strict=True):
        assert found[0].text == right[0].text
        assert found[0].score == pytest.approx(right[0].score, abs=1e-5)
    greedy = [h[0].text for h in engine.translate(LINES, Options(1))]
    assert greedy == translator.translate(LINES, beam_size=1)


def test_several_hypotheses_have_the_translators_attention(engine, translator):
    found = engine.translate(LINES[:2], Options(4, 3, attention=True))
    expected = translator.translate(LINES[:2], top_beams=4, return_details=True)
    for hypotheses, right in zip(found, expected, strict=True):
        assert [h.text for h in hypotheses] == [h.text for h in right[:3]]
    # Of one line: outside of a compiled program each operation takes long.
    ((right,),) = translator.translate(
        LINES[:1], return_details=True, return_attention_weights=True
    )
    assert found[0][0].source_tokens == right.source_tokens
    np.testing.assert_allclose(
        found[0][0].attention["cross"][0, 0],
        right.attention["cross"][-2].mean(0),
        atol=1e-5,
    )
    for hypothesis in (h for hypotheses in found for h in hypotheses):
        weights = hypothesis.attention["cross"][0, 0]
        assert weights.shape == (len(hypothesis.ids), len(hypothesis.source_tokens))
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_a_batch_has_one_of_few_sizes(engine, monkeypatch):
    sizes = []
    translate = engine._translator.translate

    def counted(lines, batch_size, fill_batches, **options):
        assert fill_batches
        sizes.append(batch_size)
        return translate(
            lines, batch_size=batch_size, fill_batches=fill_batches, **options
        )

    monkeypatch.setattr(engine._translator, "translate", counted)
    for count in (1, 2, 5):
        assert len(engine.translate(LINES[:count], Options(4))) == count
    assert sizes == [1, 8, 8]


def test_a_model_that_computes_no_numbers_is_at_fault():
    fields = {"vocabulary_size": 261, "intermediate_dim": 4, "num_heads": 1}
    model = Transformer({**fields, **SMALLEST})
    for weight in model.weights:
        weight.assign(np.full(weight.shape, np.nan))
    translator = Translator(model, Tokenizer.train(["a"] * 9, 261), beam_size=1)
    engine = TranslatorEngine(translator, Limits(batch_size=1))
    with pytest.raises(ModelError, match="the model cannot translate: "):
        engine.translate(["a"], Options(1))


def test_a_beam_that_no_search_has_is_refused_at_once(translator):
    for beam_size in (-1, 10**9):
        with pytest.raises(InputError, match="beam_size: Input should be"):
            TranslatorEngine(translator, Limits(), beam_size=beam_size)


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1000},
        {"beam_size": 129},
        {"beam_size": 4, "max_length": 5000},
        {"beam_size": 4, "min_length": 60_000},
        {"beam_size": 200, "mbr": "chrf"},
    ],
    ids=str,
)
def test_options_of_a_model_that_take_minutes_a_line_are_refused(translator, options):
    decoding = translator.decoding.updated(options)
    costly = Translator(translator.model, translator.tokenizer, **decoding.model_dump())
    with pytest.raises(InputError, match="which may take minutes per line; lower"):
        TranslatorEngine(costly, Limits())


def test_a_beam_that_who_runs_the_server_asks_for_is_taken(translator):
    assert TranslatorEngine(translator, Limits(), beam_size=150).beam_size == 150
    decoding = translator.decoding.updated({"max_length": 1000, "beam_size": 8})
    usual = Translator(translator.model, translator.tokenizer, **decoding.model_dump())
    assert TranslatorEngine(usual, Limits()).beam_size == 8


def test_what_is_too_long_is_named(engine):
    assert engine.count_tokens(LINES)[0] > 1
    right = r"line 2 has \d+ tokens, but the model takes at most 1024; split it into "
    with pytest.raises(InputError, match=f"^{right}sentences$"):  # no more can be done
        engine.count_tokens([LINES[0], "a " * 3000])


def test_lines_are_never_cut_unseen():
    fields = {"vocabulary_size": 261, "intermediate_dim": 4, "num_heads": 1}
    tokenizer = Tokenizer.train(["a"] * 9, 261)
    for long_lines in ("truncate", "split"):
        translator = Translator(
            Transformer({**fields, **SMALLEST}),
            tokenizer,
            beam_size=1,
            max_source_length=8,
            long_lines=long_lines,
        )
        engine = TranslatorEngine(translator, Limits(batch_size=1))
        with pytest.raises(InputError, match="line 1 has 10 tokens, but the model"):
            engine.translate(["a" * 9], Options(1))
        search = engine._search(Options(1))
        with pytest.raises(InputError, match="line 1 has 10 tokens"):
            translator.translate(["a" * 9], **search)


def test_after_the_warm_up_nothing_is_compiled(translator, monkeypatch):
    from keras_transformer import backends

    programs = []
    compile = backends.compile

    def counted(function, model, **how):
        run = compile(function, model, **how)

        def counting(*arguments, **options):
            shapes = tuple(tuple(argument.shape) for argument in arguments)
            programs.append((function, shapes, tuple(options.items())))
            return run(*arguments, **options)

        return counting

    monkeypatch.setattr(backends, "compile", counted)
    engine = load_engine(FOLDER, Limits(batch_size=2))
    assert len(list(engine.warm_up(8))) == 3  # 1 and 2 rows, attention
    warm = {key[1:] for key in programs}
    engine.translate(["a", "a b"], Options(4))
    engine.translate(["a"], Options(4))
    engine.translate(["b"], Options(4, 4, attention=True))
    lengths = {shapes[0][1] for _, shapes, _ in programs}
    assert {key[1:] for key in programs if key[1][0][1] == 8} <= warm, lengths


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"position": "learned", "max_sequence_length": 20}, {}),
        ({}, {"max_source_length": 20}),
    ],
    ids=["positions", "option"],
)
def test_a_model_of_short_sentences_is_warmed_up(fields, options):
    sizes = {**SMALLEST, "intermediate_dim": 4, "num_heads": 1, **fields}
    model = Transformer({"vocabulary_size": 261, **sizes})
    tokenizer = Tokenizer.train(["a"] * 9, 261)
    translator = Translator(model, tokenizer, beam_size=1, **options)
    engine = TranslatorEngine(translator, Limits(batch_size=1))
    steps = list(engine.warm_up(32))
    assert [step for step in steps if step.startswith("1 ")] == [
        f"1 sentence of up to {length} tokens" for length in (8, 16, 24)
    ]
    assert engine.count_tokens(["a" * 19]) == [20]
    with pytest.raises(InputError, match="21 tokens, but the model takes at most 20"):
        engine.count_tokens(["a" * 20])


def test_a_model_without_attention_is_served_without():
    keras.utils.set_random_seed(0)  # four hypotheses end, as of nearly every model
    tokenizer = Tokenizer.train(["a"] * 9, 261)
    model = RecurrentModel({"vocabulary_size": 261, "attention": "none", **SMALLEST})
    translator = Translator(model, tokenizer, beam_size=1)
    engine = TranslatorEngine(translator, Limits(batch_size=1))
    assert list(engine.warm_up(8)) == [
        "1 sentence of up to 8 tokens",
        "several hypotheses of up to 8 tokens",
    ]
    assert engine.info()["attention"] is False
    assert len(engine.translate(["a"], Options(4, 4))[0]) == 4  # of a greedy model
    with pytest.raises(InputError, match="this recurrent model has none"):
        engine.translate(["a"], Options(1, attention=True))


def small(**options):
    keras.utils.set_random_seed(0)
    fields = {"vocabulary_size": 261, "intermediate_dim": 4, "num_heads": 1}
    tokenizer = Tokenizer.train(["a"] * 9, 261)
    return Translator(
        Transformer({**fields, **SMALLEST}), tokenizer, max_length=5, **options
    )


def ids(found):
    return [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]


def test_mbr_gives_as_many_hypotheses_as_it_has_candidates():
    translator = small(beam_size=8, mbr="chrf", mbr_candidates=4)
    engine = TranslatorEngine(translator, Limits(batch_size=1))
    assert list(engine.warm_up(8)) == [
        "1 sentence of up to 8 tokens",
        "several hypotheses of up to 8 tokens",
    ]
    expected = translator.translate(["a"], top_beams=4, return_details=True)
    assert ids(engine.translate(["a"], Options(8, 8))) == ids(expected)
    assert ids(engine.translate(["a"], Options(8))) == [ids(expected)[0][:1]]


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 8, "num_beam_groups": 8, "diversity_penalty": 0.5},
        {"beam_size": 8, "mbr": "chrf", "mbr_candidates": 8},
    ],
    ids=["groups", "mbr"],
)
def test_a_greedy_server_has_a_plain_search_beside(options):
    translator = small(**options)
    engine = TranslatorEngine(translator, Limits(batch_size=1), beam_size=1)
    assert list(engine.warm_up(8)) == [
        "1 sentence of up to 8 tokens",
        "several hypotheses of up to 8 tokens",
    ]
    expected = small().translate(["a"], top_beams=4, return_details=True)
    assert ids(engine.translate(["a"], Options(4, 4))) == ids(expected)


def test_a_model_that_draws_samples_is_served_by_a_search():
    options = {"sampling": True, "top_k": 3, "mbr": "chrf", "mbr_candidates": 16}
    engine = TranslatorEngine(small(**options), Limits(batch_size=2))
    assert len(list(engine.warm_up(8))) == 3
    expected = small().translate(["a", "b"], top_beams=4, return_details=True)
    assert ids(engine.translate(["a", "b"], Options(4, 4))) == ids(expected)
    assert ids(engine.translate(["b"], Options(4, 4))) == ids(expected[1:])  # alone


def test_a_folder_that_is_no_model_is_named(tmp_path):
    with pytest.raises(InputError, match="is not a model folder"):
        load_engine(tmp_path, Limits())
    (tmp_path / "model.bin").write_bytes(b"x")
    assert is_ctranslate2(tmp_path)
    pytest.importorskip("ctranslate2", reason="needs CTranslate2")
    with pytest.raises(InputError, match="is not a complete export"):
        load_engine(tmp_path, Limits())
    for text in ("{", "[]", "7", "[" * 99999, '{"format": "onnx"}'):
        (tmp_path / "model.json").write_text(text)
        message = r"is not JSON|is not a file of the export"
        with pytest.raises(InputError, match=message):
            load_engine(tmp_path, Limits())


@pytest.mark.export
def test_an_export_to_ctranslate2_translates_the_same(translator, tmp_path):
    pytest.importorskip("ctranslate2", reason="needs CTranslate2")
    from keras_transformer.export import ctranslate2

    ctranslate2.export(translator, tmp_path / "model")
    engine = load_engine(tmp_path / "model", Limits())
    expected = translator.translate(LINES, beam_size=1, return_details=True)
    found = engine.translate(LINES, Options(1, attention=True))
    assert engine.count_tokens(LINES) == [len(h[0].source_tokens) for h in found]
    for (hypothesis,), (right,) in zip(found, expected, strict=True):
        assert hypothesis.text == right.text
        assert hypothesis.ids == right.ids
        assert hypothesis.log_probability == pytest.approx(
            right.log_probability, rel=5e-3
        )
        weights = hypothesis.attention["cross"]
        assert weights.shape[-1] == len(hypothesis.source_tokens)
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-4)
    # Of one line: outside of a compiled program each operation takes long.
    ((right,),) = translator.translate(
        LINES[:1], beam_size=1, return_details=True, return_attention_weights=True
    )
    np.testing.assert_allclose(
        found[0][0].attention["cross"][0, 0],  # of the end, the library has none
        right.attention["cross"][-2].mean(0)[: len(right.tokens)],
        atol=1e-5,
    )
    (several,) = engine.translate(LINES[:1], Options(4, 3))
    assert len(several) == 3
    everything = tuple(range(2, translator.target_tokenizer.vocabulary_size))
    engine._search = engine._search.updated({"suppressed_tokens": everything})
    with pytest.raises(InputError, match="the options forbid every token before a tr"):
        engine.translate(LINES[:1], Options(1))
