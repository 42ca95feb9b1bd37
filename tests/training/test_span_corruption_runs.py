"""Runs that learn by denoising: text in one language, gaps drawn anew each time."""

from itertools import pairwise

import numpy as np
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
tokenizer: {vocabulary_size: 400}
data:
  objective: span_corruption
  train: [{source: en}, {source: de, weight: 0.5}]
  batch_tokens: 400
  workers: 1
training: {steps: 4, warmup_steps: 2, checkpoint_every: 2, average_last: 1}
decoding: {beam_size: 1, max_length: 8}
"""


def put_together(source, target, first):
    """The row of a source and a target whose ids from `first` on are sentinels."""
    places = [place for place, token in enumerate(target) if token >= first]
    gaps = {target[a]: target[a + 1 : b] for a, b in pairwise(places)}
    row = []
    for token in source:
        row += gaps.get(token, [token])
    return row


@pytest.mark.no_backend
def test_the_pairs_are_the_lines_with_gaps_and_others_in_each_epoch(load, encode):
    config = load("run", "data.span_corruption.mean_length=1.5")
    text, (tokenizer, _) = encode(config)
    assert text.shares == [(20, 1.0), (20, 0.5)]
    rows = text.pairs.source.lists()
    lines = [
        line
        for corpus in config.data.train
        for line in corpus.source[0].read_text(encoding="utf-8").splitlines()
    ]
    assert rows == tokenizer.encode(lines)
    count = config.data.span_corruption.num_sentinels(128)
    sentinels = tokenizer.ids_of([f"<extra_id_{n}>" for n in range(count)])
    # Some order of ids in which sentinels are the last.
    order = {token: 10_000 + n for n, token in enumerate(sentinels)}
    batches = kt.data.TokenBatches(
        text.pairs,
        400,
        span_corruption=text.span_corruption,
        shares=text.shares,
        **tokenizer.special_ids,
    )
    seen = []
    for epoch in range(2):
        found = []
        for index in range(len(batches)):
            inputs, labels, weights = batches[epoch * len(batches) + index]
            shape = inputs["source"].shape, labels.shape
            assert (shape[0][0], shape[0][1], shape[1][1]) in batches.shapes
            assert weights.sum() == pytest.approx(1)
            for source, label in zip(inputs["source"], labels, strict=True):
                row, target = (
                    [order.get(token, token) for token in ids[: list(ids).index(2)]]
                    for ids in (source.tolist(), label.tolist())
                )
                found.append((put_together(row, target, 10_000), row))
        assert all(row in rows for row, _ in found)
        assert 30 <= len(found) <= 38  # each bucket rounds up
        seen.append(sorted(found))
    assert seen[0] != seen[1]
    again = batches[len(batches)]
    assert np.array_equal(batches[len(batches)][1], again[1])


@pytest.mark.no_backend
def test_packed_rows_and_parts_hold_the_same_gaps(load, encode):
    text, (tokenizer, _) = encode(load("run"))
    options = {"span_corruption": text.span_corruption, **tokenizer.special_ids}
    batches = kt.data.PackedBatches(text.pairs, 400, length=128, **options)
    inputs, labels, _ = batches[0]
    assert np.count_nonzero(labels == 2) == np.count_nonzero(inputs["source"] == 2) > 1
    assert 0 < batches.padding < 0.9
    plain = kt.data.TokenBatches(text.pairs, 400, rows_multiple_of=2, **options)
    whole = plain[1]
    parts = [plain.part(index, 2)[1] for index in range(2)]
    for number in (1, 2):
        joined = np.concatenate([part[number] for part in parts])
        assert np.array_equal(joined, whole[number])
    tokens = sum(np.count_nonzero(plain[n][2]) for n in range(len(plain)))
    assert plain.num_tokens == tokens


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.objective=denoising", r"data\.objective: .*'span_corruption'"),
        ("data.objective=translation", "data.train.0: give source and target, or"),
        ("data.span_corruption.rate=1", r"data\.span_corruption\.rate: .*less than 1"),
        ("data.span_corruption.mean_length=0.5", "greater than or equal to 1"),
        ("data.span_corruption={mean_length: 1, rate: 0.9}", "lower rate, or raise"),
        ("data.max_length=2", "max_length must be at least 3"),
        ("data.train=[{source: en, target: de}]", r"train\.0: .*give source alone"),
        ("data.train=[{source: en}, {tsv: en}]", r"train\.1: .*give source alone"),
        ("data.train=[{source: en, tag: <bt>}]", r"train\.0: .*give source alone"),
        ("data.validation={source: en, target: de}", "remove validation"),
        ("data.test={source: en, target: de}", "remove test"),
        ("data={objective: span_corruption, phrasebook: en-de}", "remove phrasebook"),
        ("data.bpe_dropout=0.1", "remove bpe_dropout"),
        ("data.augment.typos=0.1", "remove augment"),
    ],
)
def test_what_does_not_go_with_denoising_is_refused(load, override, message):
    with pytest.raises(InputError, match=message):
        load("run", override)


@pytest.mark.no_backend
def test_settings_of_denoising_need_the_objective(load):
    data = "data={train: [{source: en, target: de}], span_corruption: {rate: 0.3}}"
    with pytest.raises(InputError, match="add objective: span_corruption"):
        load("run", data)


@pytest.mark.no_backend
def test_two_vocabularies_are_refused(load):
    sizes = "tokenizer={source_vocabulary_size: 300, target_vocabulary_size: 300}"
    with pytest.raises(InputError, match="span_corruption needs one vocabulary"):
        load("run", sizes, "model.tie_embeddings=target")


@pytest.mark.no_backend
def test_a_tokenizer_without_sentinels_is_one_clear_error(load, encode, tmp_path):
    kt.data.Tokenizer.train(["low lower"] * 9, 277).save(tmp_path / "own.model")
    tokenizer = f"tokenizer={{path: {tmp_path / 'own.model'}}}"
    with pytest.raises(InputError, match=r"lacks sentinels.*<extra_id_6>; train"):
        encode(load("run", tokenizer))


@pytest.mark.no_backend
def test_lines_of_one_token_are_left_out(load, encode, tmp_path):
    (tmp_path / "en").write_text("a\n\nHello there.\n", encoding="utf-8")
    overrides = ["data.train=[{source: en}]", "tokenizer.vocabulary_size=280"]
    text, _ = encode(load("run", "data.max_length=40", *overrides))
    assert len(text.pairs) == 1
    assert "1 empty" in str(text.report) and "shorter than 2" in str(text.report)


@pytest.mark.one_backend
def test_a_denoising_run_resumes_exactly_and_is_where_another_begins(
    load, tmp_path, monkeypatch
):
    train(load("run"))
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(1))
        with pytest.raises(running.Interrupted):
            train(load("resumed"))
    train(load("resumed"))
    assert_equal_runs(tmp_path / "run", tmp_path / "resumed")
    with pytest.raises(InputError, match=r"span_corruption\.rate: 0.15 -> 0.3"):
        train(load("run", "data.span_corruption.rate=0.3"))
    train(
        load(
            "tuned",
            f"model={{folder: {tmp_path / 'run' / 'averaged'}}}",
            "tokenizer={}",
            "data={train: [{source: en, target: de}], batch_tokens: 400, workers: 1}",
        )
    )
    tuned = kt.Translator.load(tmp_path / "tuned" / "averaged")
    assert isinstance(tuned.translate(["Hello."])[0], str)
