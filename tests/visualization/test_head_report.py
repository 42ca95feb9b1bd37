"""What heads do: against loops over positions, and by hand."""

import math
import unicodedata

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.visualization.head_report import MEASURES
from keras_transformer.visualization.head_report import SHARES
from keras_transformer.visualization.head_report import HeadReport
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

pytestmark = pytest.mark.one_backend

PICKED = (5, 11, 14, 19)
SOURCES = [*(lines("source")[row] for row in PICKED), "The the THE, (the)."]
TARGETS = [*(lines("beam")[row] for row in PICKED), "Die the."]


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


@pytest.fixture(scope="module")
def report(translator):
    return kt.visualization.head_report(translator, SOURCES, TARGETS, batch_size=3)


def bare(word):
    """Lower-cased, without punctuation at its ends."""
    marks = "".join(c for c in word if unicodedata.category(c).startswith("P"))
    return (word.strip(marks) or word).casefold()


def rare_words(texts):
    """The rarest: as many whole counts as fit into a tenth, or those seen once."""
    words = [bare(word) for text in texts for word in text.split()]
    for limit in range(max(map(words.count, words)), 1, -1):
        rare = {word for word in words if words.count(word) <= limit}
        if sum(word in rare for word in words) <= 0.1 * len(words):
            return rare
    return {word for word in words if words.count(word) == 1}


def described(tokens, rare):
    """Of each token: its word or None, whether a delimiter, whether rare."""
    found = []
    for number, label in zip(tokens.numbers, tokens.labels, strict=True):
        delimiter = number is None or all(
            unicodedata.category(c).startswith("P") for c in label
        )
        word = None if delimiter else bare(tokens.words[number])
        found.append((word, delimiter, word in rare))
    return found


def measured(weights, rows, columns, within):
    """Means over positions of one head's weights (T, S), by loops: all measures."""
    sums = dict.fromkeys(MEASURES, 0.0)
    for t, (row_word, _, _) in enumerate(rows):
        for s, (word, delimiter, rare) in enumerate(columns):
            weight = float(weights[t, s])
            sums["previous"] += weight * (s == t - 1)
            sums["next"] += weight * (s == t + 1)
            sums["itself"] += weight * (s == t)
            same = word is not None and word == row_word
            sums["same word"] += weight * (same and not (within and s == t))
            sums["delimiters"] += weight * delimiter
            sums["rare words"] += weight * rare
            sums["distance"] += weight * abs(s - t)
            sums["entropy"] -= weight * math.log2(weight) if weight else 0.0
    return np.array([sums[name] for name in MEASURES])


def test_the_measures_are_those_of_loops_over_single_sentences(translator, report):
    rare = rare_words(SOURCES), rare_words(TARGETS)
    sums, even, positions = {}, {}, {}
    for source, target in zip(SOURCES, TARGETS, strict=True):
        maps = kt.visualization.attention_maps(translator, source, target)
        for kind, weights in maps.weights.items():
            rows, columns = maps.tokens(kind)
            if kind == "decoder":
                rows = columns  # the token that was read
            sides = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[kind]
            rows, columns = (
                described(tokens, rare[side])
                for tokens, side in zip((rows, columns), sides, strict=True)
            )
            heads = weights.reshape(-1, *weights.shape[2:])
            within = kind != "cross"
            found = [measured(head, rows, columns, within) for head in heads]
            sums[kind] = sums.get(kind, 0) + np.array(found)
            seen = np.tril(np.ones_like(heads[0])) if kind == "decoder" else 1.0
            alike = seen * np.ones_like(heads[0])
            alike /= alike.sum(axis=1, keepdims=True)
            even[kind] = even.get(kind, 0) + measured(alike, rows, columns, within)
            positions[kind] = positions.get(kind, 0) + len(rows)
    absent = {
        "encoder": set(),
        "decoder": {"next"},
        "cross": {"previous", "next", "itself"},
    }
    assert report.heads.keys() == sums.keys()
    for kind, values in report.heads.items():
        there = [name not in absent[kind] for name in MEASURES]
        assert np.isnan(values[..., np.logical_not(there)]).all()
        expected = sums[kind] / positions[kind]
        np.testing.assert_allclose(
            values.reshape(expected.shape)[:, there], expected[:, there], atol=2e-5
        )
        np.testing.assert_allclose(
            report.even[kind][there], (even[kind] / positions[kind])[there], atol=2e-5
        )


def test_neither_batches_nor_padding_nor_empty_lines_matter(translator, report):
    sources, targets = ["", *SOURCES[::-1], "a"], ["x", *TARGETS[::-1], " "]
    other = kt.visualization.head_report(translator, sources, targets, batch_size=1)
    assert other.num_pairs == report.num_pairs == len(SOURCES)
    for kind, values in report.heads.items():
        np.testing.assert_allclose(other.heads[kind], values, atol=1e-5)


def test_without_targets_the_model_translates(translator):
    sources = [SOURCES[1]]
    found = kt.visualization.head_report(translator, sources)
    given = kt.visualization.head_report(
        translator, sources, translator.translate(sources)
    )
    for kind, values in given.heads.items():
        np.testing.assert_allclose(found.heads[kind], values, atol=1e-5)


def test_what_cannot_be_reported_on_is_refused(translator):
    with pytest.raises(InputError, match="2 sources do not pair with 1 targets"):
        kt.visualization.head_report(translator, ["a", "b"], ["c"])
    with pytest.raises(InputError, match="there is no sentence with a translation"):
        kt.visualization.head_report(translator, ["", "b"], ["c", " "])
    with pytest.raises(InputError, match=r"line 2 has \d+ tokens"):
        kt.visualization.head_report(translator, ["", "♞" * 600], ["", "c"])


@pytest.mark.no_backend
def test_a_role_is_more_than_half_and_more_than_chance():
    def one(**shares):
        return [shares.get(name.replace(" ", "_"), 0.0) for name in MEASURES]

    heads = [
        one(previous=0.8, same_word=0.3, entropy=4.0),
        one(delimiters=0.7, entropy=9.0),
        one(rare_words=0.4, distance=9.0),
    ]
    report = HeadReport(
        1, {"encoder": np.array([heads])}, {"encoder": np.array(one(delimiters=0.4))}
    )
    roles = [report.role("encoder", 0, head) for head in range(3)]
    assert roles == ["previous", None, None]
    rows = report.to_dict()["heads"]
    assert [row["role"] for row in rows] == roles
    assert rows[1]["delimiters"] == 0.7
    text = str(report).splitlines()
    assert text[2].split()[0] == "Encoder"
    assert text[3].startswith("layer 0, head 0") and text[3].endswith("previous")
    assert "80%" in text[3] and "4.0" in text[3]
    assert text[-1].startswith("even attention")


@pytest.mark.no_backend
def test_what_a_kind_does_not_have_is_a_dash_and_null():
    values = np.full(len(MEASURES), 0.1)
    values[: SHARES.index("same word")] = np.nan
    report = HeadReport(1, {"cross": values[None, None]}, {"cross": values})
    assert str(report).splitlines()[3].split()[4:7] == ["–", "–", "–"]
    (row,) = report.to_dict()["heads"]
    assert (row["previous"], row["next"], row["itself"]) == (None, None, None)
