"""Span corruption: gaps and sentinels, from which the text comes back."""

from itertools import pairwise

import numpy as np
import pytest

from keras_transformer.data import SpanCorruption
from keras_transformer.data import TokenBatches
from keras_transformer.data import Tokenizer
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.span_corruption import corrupt_spans
from keras_transformer.data.span_corruption import corrupted_lengths
from keras_transformer.data.span_corruption import num_sentinels
from keras_transformer.data.span_corruption import sentinel_symbols
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

SENTINELS = list(range(1000, 1040))
TEXTS = ["low lower lowest", "", "lower low low lower slow"]


def put_together(source, target):
    """The row of a source and a target; the sentinels must come in their order."""
    places = [place for place, token in enumerate(target) if token >= SENTINELS[0]]
    assert [target[p] for p in places] == SENTINELS[: len(places)]
    assert places[0] == 0 and places[-1] == len(target) - 1
    gaps = {target[first]: target[first + 1 : last] for first, last in pairwise(places)}
    assert [token for token in source if token >= SENTINELS[0]] == list(gaps)
    row = []
    for token in source:
        row += gaps.get(token, [token])
    return row, list(gaps.values())


@pytest.mark.parametrize(
    ("length", "rate", "mean_length"),
    [(2, 0.15, 3.0), (3, 0.9, 1.0), (20, 0.15, 3.0), (60, 0.5, 1.0), (60, 0.3, 4.0)],
)
def test_source_and_target_are_the_row_with_gaps_of_these_lengths(
    length, rate, mean_length
):
    row = list(range(length))
    expected = min(max(round(rate * length), 1), length - 1)
    for seed in range(20):
        random = np.random.default_rng(seed)
        source, target = corrupt_spans(row, SENTINELS, random, rate, mean_length)
        again, gaps = put_together(source, target)
        assert again == row
        assert sum(map(len, gaps)) == expected and min(map(len, gaps)) >= 1
        most = length - expected + 1
        assert len(gaps) == min(max(round(expected / mean_length), 1), most)
        neighbours = pairwise(source)
        assert not any(min(pair) >= SENTINELS[0] for pair in neighbours)


def test_gaps_are_anywhere_in_the_row():
    rows = [
        corrupt_spans(range(6), SENTINELS, np.random.default_rng(seed))[0]
        for seed in range(60)
    ]
    assert {row.index(SENTINELS[0]) for row in rows} == set(range(6))


def test_rows_that_cannot_be_corrupted_are_refused():
    random = np.random.default_rng(0)
    with pytest.raises(InputError, match="a row of 1 tokens cannot have a gap"):
        corrupt_spans([5], SENTINELS, random)
    with pytest.raises(
        InputError, match=r"gets 3 gaps, which need 4 sentinels, and .*3"
    ):
        corrupt_spans(range(60), SENTINELS[:3], random)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS * 9, 290, reserved_symbols=sentinel_symbols(12))


def test_another_seed_gives_other_gaps_of_the_same_texts(tokenizer):
    corrupted = SpanCorruption(tokenizer, num_sentinels=12, rate=0.4)
    pairs, same, other = (corrupted(9 * TEXTS, (1, n)) for n in (1, 1, 2))
    assert len(pairs) == 18  # an empty text has no gap
    assert pairs.special_ids == tokenizer.special_ids
    assert pairs.source.lists() == same.source.lists()
    assert pairs.source.lists() != other.source.lists()
    gap = corrupted.sentinels()[0]
    assert tokenizer.pieces([gap]) == ["<extra_id_0>"]
    assert all(row[0] == gap for row in pairs.target.lists())


def test_what_a_data_source_cannot_be_is_refused(tokenizer):
    with pytest.raises(InputError, match="<extra_id_12>"):
        SpanCorruption(tokenizer, num_sentinels=13)
    with pytest.raises(InputError, match=r"the rate 1.0 must be between"):
        SpanCorruption(tokenizer, 12, rate=1.0)
    with pytest.raises(InputError, match=r"the mean_length 0.5 must be at least 1"):
        SpanCorruption(tokenizer, 12, mean_length=0.5)


@pytest.mark.parametrize(("rate", "mean_length"), [(0.15, 3.0), (0.5, 1.0), (0.9, 2.0)])
def test_lengths_and_sentinels_follow_from_the_length_of_a_row(rate, mean_length):
    lengths = np.arange(2, 60)
    pairs = [
        corrupt_spans(
            range(length),
            SENTINELS[: num_sentinels(length, rate, mean_length)],
            np.random.default_rng(0),
            rate,
            mean_length,
        )
        for length in lengths
    ]
    expected = corrupted_lengths(lengths, rate, mean_length)
    for side, found in enumerate(expected):
        assert found.tolist() == [len(pair[side]) for pair in pairs]
        assert (np.diff(found) >= 0).all() or side == 0  # the longest row is the most


def test_batches_refuse_what_does_not_go_with_gaps(tokenizer):
    rows = TokenRows.from_lists(tokenizer.encode(TEXTS[::2]))
    pairs, gaps = EncodedPairs(rows, rows), SpanCorruption(tokenizer, 12)
    dropout = BPEDropout(tokenizer, tokenizer, 0.1)
    with pytest.raises(InputError, match="neither bpe_dropout nor augment"):
        TokenBatches(pairs, 99, span_corruption=gaps, bpe_dropout=dropout)
    whole = EncodedPairs(rows, rows, is_whole=True)
    with pytest.raises(InputError, match="these pairs have languages or tags"):
        TokenBatches(whole, 99, span_corruption=gaps)
    short = TokenRows.from_lists([[5, 6], [7]])
    with pytest.raises(InputError, match="at least two tokens a row"):
        TokenBatches(EncodedPairs(short, short), 99, span_corruption=gaps)
