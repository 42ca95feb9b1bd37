"""An unknown key is answered by what its writer meant, where that is known."""

import re

import pytest

import keras_transformer as kt
from keras_transformer.cli.config_keys import _keys
from keras_transformer.config.synonyms import SYNONYMS
from keras_transformer.errors import InputError
from keras_transformer.training.config import json_schema
from keras_transformer.training.config import load_config

pytestmark = pytest.mark.no_backend

DATA = "data: {train: [{source: a, target: b}]}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "training: {lr: 1.0}",
            "unknown key training.lr; did you mean 'learning_rate'",
        ),
        (
            "training: {epochs: 3}",
            "training.epochs; did you mean 'steps'? It counts bat",
        ),
        ("training: {update-freq: 2}", "did you mean 'micro_batches'?"),
        ("training: {accum_count: 2}", "did you mean 'micro_batches'?"),
        (
            "training: {batch_size: 64}",
            "did you mean data.batch_tokens? It counts tokens, ",
        ),
        ("training: {steps_: 64}", "did you mean 'steps'?"),
        ("training: {lora: {r_: 4}}", "the keys there are rank, alpha, kernels"),
        (
            "model: {d_model: 64}",
            "unknown key model.d_model; did you mean 'hidden_dim'",
        ),
        ("model: {steps: 6}", "belongs elsewhere: did you mean training.steps?"),
        ("model: {vocab_size: 99}", "did you mean tokenizer.vocabulary_size?"),
        ("training: {beam_size: 2}", "elsewhere: did you mean decoding.beam_size?"),
        ("lr: 1.0", "unknown key lr; did you mean training.learning_rate?"),
        (
            "qqq: 1",
            "the keys there are conventions, model, tokenizer, data, trai",
        ),
    ],
)
def test_a_key_of_other_toolkits_or_of_another_section(text, message, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(DATA + text)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load_config(path)
    assert "Value error" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "train: [{tsv: a}]",
            "unknown key train; that key belongs elsewhere: did you ",
        ),
        (
            "data: {source: a, target: b}",
            "unknown key data.source; that key belongs el",
        ),
        ("data: {train: [{src: a, target: b}]}", "0.src; did you mean 'source'?"),
        ("data: {train: [{tsv: a}], validation: {src: a, tgt: b}}", "mean 'source'?"),
    ],
)
def test_a_misplaced_text(text, message, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        load_config(path)


def test_a_config_alone_names_its_own_keys():
    with pytest.raises(InputError, match="did you mean 'hidden_dim'"):
        kt.TransformerConfig.from_dict({"vocabulary_size": 9, "d_model": 32})
    with pytest.raises(InputError, match="did you mean 'vocabulary_size'"):
        kt.TransformerConfig.from_dict({"vocab_size": 9})
    with pytest.raises(InputError, match="unknown key beams; did you mean 'beam_size'"):
        kt.decoding.DecodingOptions.of({"beams": 9})


def test_each_synonym_leads_to_a_key_and_hides_none():
    paths = {path for path, _ in _keys(json_schema())}
    sections = {path.rpartition(".")[0].removesuffix("[]") for path in paths}
    assert {*SYNONYMS.values()} <= paths | sections
    for word, path in SYNONYMS.items():
        own = [known for known in paths if known.split(".")[-1] == word]
        assert not own or path in own or f"{path}[].{word}" in own, word
