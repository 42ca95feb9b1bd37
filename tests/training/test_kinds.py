"""Every kind of model is trained, searched, saved and read with the same code."""

import importlib
import json

import digit_text
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train
from reference import models
from reference.weights import read

LINES = ["12 3", "", "4", "98765"]
CONFIG = """
model: {kind: KIND, preset: tiny, hidden_dim: 16, num_encoder_layers: 1,
        num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 270, split_digits: true}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 64}
training: {steps: 4, warmup_steps: 2, checkpoint_every: 2}
output: run
"""


@pytest.fixture(scope="module")
def tokenizer():
    lines = [line for pair in digit_text.pairs(99) for line in pair]
    return kt.data.Tokenizer.train(lines, 270, split_digits=True)


def translator_of(name, tokenizer):
    fields = {"vocabulary_size": 270, "tie_embeddings": "all"}
    for side in ("source", "target"):
        fields[f"{side}_vocabulary_size"] = 270
    return kt.Translator(models.build(name, **fields), tokenizer, beam_size=3)


@pytest.fixture(
    scope="module",
    params=[
        "recurrent",
        pytest.param("convolutional, dilated", marks=pytest.mark.one_backend),
    ],
)
def translator(request, tokenizer):
    return translator_of(request.param, tokenizer)


@pytest.mark.one_backend
def test_a_search_gives_what_the_model_scores(translator):
    """In a batch, a translation has the probability that it has alone.

    With it comes what attention there is.
    """
    config = translator.model.config
    beam_size, layers = (3, 1) if config.kind == "recurrent" else (1, 2)
    found = translator.translate(
        LINES, beam_size=beam_size, return_details=True, return_attention_weights=True
    )
    assert found[1][0].text == ""
    compared = 0
    for line, (best, *_) in zip(LINES, found, strict=True):
        if not best.ids:
            continue
        (source,) = translator.tokenizer.encode([line])
        inputs = {
            "source": np.array([[*source, config.end_id]]),
            "target": np.array([[config.start_id, *best.ids[:-1]]]),
        }
        logits = models.logits_of(translator.model, **inputs)[0].astype("float64")
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        expected = logits[np.arange(len(best.ids)), best.ids].sum()
        np.testing.assert_allclose(best.log_probability, expected, rtol=1e-4)
        assert best.attention.keys() == {"cross"}
        shape = (layers, 1, len(best.ids), len(best.source_tokens))
        assert best.attention["cross"].shape == shape
        compared += 1
    assert compared == 3


@pytest.mark.one_backend
def test_a_model_folder_keeps_the_kind(translator, tmp_path):
    translator.save(tmp_path / "model")
    written = json.loads((tmp_path / "model" / "config.json").read_text())
    kind = translator.model.config.kind
    assert (written["kind"], written["format_version"]) == (kind, 1)
    loaded = kt.Translator.load(tmp_path / "model")
    assert loaded.model.config == translator.model.config
    assert loaded.info() == translator.info()
    assert loaded.info()["kind"] == kind
    before, after = read(translator.model), read(loaded.model)
    assert before.keys() == after.keys()
    for path, value in before.items():
        np.testing.assert_array_equal(after[path], value, err_msg=path)


@pytest.mark.one_backend
def test_a_folder_that_names_no_kind_is_a_transformer(tokenizer, tmp_path):
    translator_of("paper", tokenizer).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    written = json.loads(path.read_text())
    assert written.pop("kind") == "transformer"
    path.write_text(json.dumps(written))
    assert kt.Translator.load(tmp_path / "model").info()["kind"] == "transformer"
    path.write_text(json.dumps({**written, "kind": "recurrent"}))
    with pytest.raises(InputError, match=r"unknown key model\.\w+; the keys"):
        kt.Translator.load(tmp_path / "model")


@pytest.mark.one_backend
def test_a_model_without_attention_has_scores_and_no_alignments(tokenizer):
    translator = translator_of("recurrent, no attention", tokenizer)
    assert not translator.attends
    for option, message in (
        ({"return_alignments": True}, "weights and alignments need"),
        ({"return_attention_weights": True}, "weights and alignments need"),
        ({"coverage_penalty": 0.1, "beam_size": 2}, "coverage_penalty needs"),
    ):
        message += " attention to the source, but this recurrent model has none"
        with pytest.raises(InputError, match=message):
            translator.translate(LINES, return_details=True, **option)
    ((best,),) = translator.translate(
        LINES[:1],
        beam_size=1,
        max_length=3,
        return_details=True,
        return_token_scores=True,
    )
    total = pytest.approx(best.log_probability, abs=1e-4)
    assert (sum(best.token_scores), best.alignment) == (total, None)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["ctranslate2", "litert", "onnx"])
def test_a_format_that_describes_a_transformer_refuses_others(
    translator, name, tmp_path
):
    module = importlib.import_module(f"keras_transformer.export.{name}")
    kind = translator.model.config.kind
    message = f"takes models of kind transformer, and this one is {kind}; use saved_mo"
    with pytest.raises(InputError, match=message):
        module.export(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.one_backend
@pytest.mark.slow
def test_a_run_trains_another_kind(tmp_path, monkeypatch):
    """From a config file; and another run goes on from its model."""
    kind = "recurrent"
    monkeypatch.chdir(tmp_path)
    digit_text.write_files(tmp_path, "train", 60)
    (tmp_path / "small.yaml").write_text(CONFIG.replace("KIND", kind))
    train(load_config(tmp_path / "small.yaml"))
    folder = next(tmp_path.glob("run/**/config.json")).parent
    assert kt.Translator.load(folder).info()["kind"] == kind
    text = f"model: {{folder: {folder}}}\ndata: {{train: [{{tsv: x}}]}}"
    (tmp_path / "more.yaml").write_text(text)
    assert load_config(tmp_path / "more.yaml").model["kind"] == kind
    with pytest.raises(InputError, match=r"model\.kind 'transformer' is not that of"):
        load_config(tmp_path / "more.yaml", ["model.kind=transformer"])
