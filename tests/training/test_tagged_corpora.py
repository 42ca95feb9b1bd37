"""Corpora with a tag: a reserved symbol in front of each source, in training alone."""

import pytest
from small_run import assert_equal_runs
from small_run import terminating_at

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import run as running
from keras_transformer.training import train

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 16, num_encoder_layers: 1,
        num_decoder_layers: 1}
tokenizer: {vocabulary_size: 340}
data:
  train:
  - {source: en, target: de}
  - {source: en, target: de, tag: <bt>, weight: 0.5}
  batch_tokens: 400
  workers: 1
training: {steps: 4, warmup_steps: 2, checkpoint_every: 2, average_last: 1}
decoding: {beam_size: 1, max_length: 8}
"""
TAGGED = "data.train=[{source: en, target: de}, {source: en, target: de, tag: <bt>}]"


@pytest.mark.no_backend
def test_the_tag_stands_in_front_of_the_sources_of_its_corpus(load, encode):
    text, (tokenizer, _) = encode(load("run"))
    (tag,) = tokenizer.ids_of(["<bt>"])
    sources, targets = text.pairs.source.lists(), text.pairs.target.lists()
    plain, marked = sources[:20], sources[20:]
    assert [[tag, *row] for row in plain] == marked
    assert targets[:20] == targets[20:]
    assert {(row[0], row[-1]) for row in targets} == {(1, 2)}
    assert plain == [[*row, 2] for row in tokenizer.encode(lines(load("run")))]
    assert text.shares == [(20, 1.0), (20, 0.5)]
    ends = encode(load("run"), source_end=False)[0].pairs.source.lists()
    assert ends == [row[:-1] for row in sources]


def lines(config):
    return config.data.train[0].source[0].read_text(encoding="utf-8").splitlines()


@pytest.mark.no_backend
def test_a_cache_is_that_of_its_tags(load, encode, tmp_path):
    tagged, (tokenizer, _) = encode(load("run"))
    plain, _ = encode(load("run", "data.train=[{source: en, target: de}]"))
    other, _ = encode(load("run", TAGGED.replace("tag: <bt>", "tag: <bt>, weight: 3")))
    assert not plain.pairs.is_whole
    assert plain.pairs.source.lists() == tokenizer.encode(lines(load("run")))
    assert tagged.digest == other.digest != plain.digest
    assert len(list((tmp_path / "cache").glob("*/manifest.json"))) == 2


@pytest.mark.no_backend
def test_filters_count_the_tag_under_the_maximum_length_alone(load, encode):
    text, (tokenizer, _) = encode(load("run"))
    ids = tokenizer.encode(lines(load("run")))
    shortest = min(*map(len, ids), *(len(row) - 2 for row in text.pairs.target.lists()))
    kept, _ = encode(load("run", f"data.filters.min_length={shortest + 1}"))
    half = len(kept.pairs) // 2
    assert kept.shares == [(half, 1.0), (half, 0.5)]
    assert 0 < half < 20
    longest = max(len(row) for row in text.pairs.source.lists())
    rows = encode(load("run", f"data.max_length={longest - 1}"))[0].pairs
    assert max(len(row) for row in rows.source.lists()) == longest - 1


@pytest.mark.no_backend
@pytest.mark.parametrize("tag", ["bt", "<b t>", "<>", "<<bt>", "</s>", "<0x41>", ""])
def test_a_tag_that_is_no_symbol_is_refused(load, tag):
    with pytest.raises(InputError, match=r"data\.train\.1\.tag: .*tag|special piece"):
        load("run", TAGGED.replace("<bt>", f"'{tag}'"))


@pytest.mark.no_backend
def test_a_tag_belongs_to_the_training_text(load):
    with pytest.raises(InputError, match=r"data\.validation.*tag"):
        load("run", "data.validation={source: en, target: de, tag: <bt>}")


@pytest.mark.no_backend
def test_a_tokenizer_without_the_symbol_is_one_clear_error(load, encode, tmp_path):
    kt.data.Tokenizer.train(lines(load("run")), 330).save(tmp_path / "own.model")
    tokenizer = f"tokenizer={{path: {tmp_path / 'own.model'}}}"
    with pytest.raises(InputError, match=r"data\.train\.1: .*no piece '<bt>'"):
        encode(load("run", tokenizer))


@pytest.mark.one_backend
def test_a_run_with_a_tag_resumes_exactly_and_translates_without_it(
    load, tmp_path, monkeypatch
):
    options = ["data.bpe_dropout=0.1", "data.packing=130", "data.max_length=120"]
    train(load("run", *options))
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(1))
        with pytest.raises(running.Interrupted):
            train(load("resumed", *options))
    train(load("resumed", *options))
    assert_equal_runs(tmp_path / "run", tmp_path / "resumed")
    translator = kt.Translator.load(tmp_path / "run" / "averaged")
    assert translator.languages is None
    (tag,) = translator.tokenizer.ids_of(["<bt>"])
    assert tag not in translator.tokenizer.encode(["<bt> Hello."])[0]
    assert isinstance(translator.translate(["Hello."])[0], str)
    with pytest.raises(InputError, match=r"data\.train\.1\.tag: <bt> -> <other>"):
        train(load("run", *options, TAGGED.replace("<bt>", "<other>, weight: 0.5")))
