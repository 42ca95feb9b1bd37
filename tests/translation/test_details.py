"""What comes with a translation, against one sentence's forward pass, by hand."""

import json
import math

import numpy as np
import pytest
import sacrebleu
from keras import ops

import keras_transformer as kt
from keras_transformer.translation.alignment import word_numbers
from reference.attention import attention_weights
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

pytestmark = pytest.mark.one_backend
SOURCES = sorted(lines("source"), key=len)[:3]
EXPECTED = json.loads(FOLDER.with_name("en-de.options.json").read_text("utf-8"))
BEAMS = EXPECTED["beams"]["options"]


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


def forward(translator, source, ids):
    """Log-probabilities (T, V), and the weights of each kind, of one sentence alone."""
    model = translator.model
    (source_ids,) = translator.tokenizer.encode([source])
    rows = [*source_ids, model.config.end_id], [model.config.start_id, *ids[:-1]]
    source_ids, target = (ops.convert_to_tensor([row], "int32") for row in rows)
    logits = model({"source": source_ids, "target": target}, training=False)
    logits = ops.convert_to_numpy(logits)[0].astype("float64")
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return logits, attention_weights(model, *rows)


# `test_search_with_transformer.py` does so on each
def test_token_scores_are_those_of_the_forward_pass(translator):
    rows = translator.translate(
        SOURCES, return_details=True, return_token_scores=True, **BEAMS
    )
    for source, row in zip(SOURCES, rows, strict=True):
        for hypothesis in row:
            logs, _ = forward(translator, source, hypothesis.ids)
            expected = [
                log[token] for log, token in zip(logs, hypothesis.ids, strict=True)
            ]
            np.testing.assert_allclose(hypothesis.token_scores, expected, atol=1e-4)


def test_scores_of_a_given_translation_are_those_of_the_forward_pass(translator):
    targets = ["Der Vertrag gilt 9 Jahre.", "", "Zug"]
    end = translator.model.config.end_id
    scores = translator.score(SOURCES, targets)
    rows = translator.tokenizer.encode(targets)
    for source, ids, score in zip(SOURCES, rows, scores, strict=True):
        labels = [*ids, end]
        logs, _ = forward(translator, source, labels)
        expected = [log[token] for log, token in zip(logs, labels, strict=True)]
        np.testing.assert_allclose(score.token_scores, expected, atol=1e-4)


def test_a_word_is_aligned_with_what_its_pieces_attend_to(translator):
    rows = translator.translate(
        SOURCES, return_details=True, return_alignments=True, **BEAMS
    )
    for source, row in zip(SOURCES, rows, strict=True):
        pieces = translator.tokenizer.pieces(translator.tokenizer.encode([source])[0])
        for hypothesis in row:
            _, weights = forward(translator, source, hypothesis.ids)
            layers = weights["cross"]  # (N, H, T, S)
            mean = layers[max(len(layers) - 2, 0)].mean(axis=0)
            expected, close = set(), set()
            for position, word in enumerate(word_numbers(hypothesis.tokens)):
                seen = {
                    mean[position, column]: number
                    for column, number in enumerate(word_numbers(pieces))
                    if number is not None
                }
                if word is None:
                    continue
                best, second = sorted(seen, reverse=True)[:2]
                expected.add((seen[best], word))
                if best - second < 1e-5:
                    close |= {(seen[best], word), (seen[second], word)}
            assert set(hypothesis.alignment) ^ expected <= close


def test_attention_is_that_of_the_forward_pass(translator):
    rows = translator.translate(
        SOURCES, return_details=True, return_attention_weights=True
    )
    for source, (best,) in zip(SOURCES, rows, strict=True):
        _, expected = forward(translator, source, best.ids)
        assert best.attention.keys() == expected.keys()
        for kind, weights in expected.items():
            np.testing.assert_allclose(best.attention[kind], weights, atol=1e-5)


def test_mbr_weighs_an_n_best_list_by_its_probabilities(translator):
    options = {"beam_size": 4, "top_beams": 4, "return_details": True}
    found = translator.translate(SOURCES, **options)
    chosen = translator.translate(SOURCES, mbr="chrf", **options)
    metric = sacrebleu.CHRF()
    for candidates, row in zip(found, chosen, strict=True):
        weights = [math.exp(h.log_probability) for h in candidates]
        expected = {}
        for h in candidates:
            likeness = [
                metric.sentence_score(h.text, [o.text]).score for o in candidates
            ]
            expected[h.text] = np.average(likeness, weights=weights)
        utilities = [h.utility for h in row]
        assert utilities == sorted(utilities, reverse=True)
        assert utilities == pytest.approx([expected[h.text] for h in row], rel=1e-4)


def test_a_prefix_begins_a_line_that_is_split_and_no_other_part(translator):
    line = " ".join(SOURCES[:2])
    sizes = [len(ids) + 1 for ids in translator.tokenizer.encode(SOURCES[:2])]
    options = {"long_lines": "split", "max_source_length": max(sizes)}
    (whole,) = translator.translate([line], prefixes=["Wir haben"], **options)
    first, _ = translator.translate(SOURCES[:2], prefixes=["Wir haben", ""])
    _, second = translator.translate(SOURCES[:2])
    assert whole == f"{first} {second}"


@pytest.mark.each_backend
@pytest.mark.parametrize(
    "options",
    [
        {"sampling": True},
        pytest.param({"top_beams": 3}, marks=pytest.mark.one_backend),
        pytest.param({"beam_size": 1}, marks=pytest.mark.one_backend),
    ],
)
def test_what_a_prefix_costs_is_told_apart_from_what_follows(translator, options):
    prefixes = ["Wir haben", "", "zzz"]
    rows = translator.translate(
        SOURCES,
        prefixes=prefixes,
        return_details=True,
        return_token_scores=True,
        **options,
    )
    starts = translator.tokenizer.encode(prefixes)
    for start, row in zip(starts, rows, strict=True):
        for hypothesis in row:
            assert hypothesis.ids[: len(start)] == start
            forced = sum(hypothesis.token_scores[: len(start)])
            free = sum(hypothesis.token_scores[len(start) :])
            expected = pytest.approx(forced, abs=1e-3) if start else None
            assert hypothesis.prefix_log_probability == expected
            assert hypothesis.log_probability == pytest.approx(free, abs=1e-3)
            score = free / ((5 + len(hypothesis.ids)) / 6) ** 0.6
            assert hypothesis.score == pytest.approx(score, abs=1e-3)
    assert rows[2][0].prefix_log_probability < -5


def test_like_parts_of_a_line_are_sampled_each_for_itself(translator):
    line = " ".join(["Hello!"] * 4)
    size = len(translator.tokenizer.encode(["Hello!"])[0]) + 1
    (found,) = translator.translate(
        [line],
        long_lines="split",
        max_source_length=size,
        return_details=True,
        **EXPECTED["sampling"]["options"] | {"top_beams": 1},
    )
    (alone,) = translator.translate(
        ["Hello!"],
        return_details=True,
        **EXPECTED["sampling"]["options"] | {"top_beams": 1},
    )
    assert found[0].text != " ".join([alone[0].text] * 4)
