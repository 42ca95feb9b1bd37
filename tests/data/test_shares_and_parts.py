"""Batches of several corpora with weights, and of which a process takes its part."""

import collections

import numpy as np
import pytest
from random_pairs import END
from random_pairs import PAD
from random_pairs import as_tuples
from random_pairs import contents
from random_pairs import random_pairs
from random_pairs import same

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


# === Several corpora ===


def seen(batches, corpora):
    """How often an epoch shows each pair of each corpus."""
    counts = collections.Counter(contents(batches))
    return [[counts[pair] for pair in as_tuples(corpus)] for corpus in corpora]


def mixed(weights, count=150, **options):
    """Corpora whose pairs are all different, as batches."""
    corpora = []
    for number in range(len(weights)):
        lengths = np.random.default_rng(number).integers(2, 20, count)
        lists = [
            [*np.base_repr(row, 8).zfill(3).encode(), *[number + 4] * int(length)]
            for row, length in enumerate(lengths)
        ]
        rows = TokenRows.from_lists(lists)
        corpora.append(EncodedPairs(rows, rows))
    shares = [(count, weight) for weight in weights]
    pairs = EncodedPairs.concatenate(corpora)
    return TokenBatches(pairs, 256, shares=shares, max_buckets=3, **options), corpora


def test_an_epoch_sees_whole_weights_exactly():
    batches, corpora = mixed([1.0, 3.0, 2.0])
    for _ in range(2):
        assert seen(batches, corpora) == [[1] * 150, [3] * 150, [2] * 150]
        batches.on_epoch_end()


@pytest.mark.parametrize("weight", [0.25, 0.1, 1.5])
def test_of_a_fraction_other_pairs_come_in_the_next_epoch(weight):
    batches, corpora = mixed([1.0, weight])
    total, epochs = np.zeros(150, int), 10
    for _ in range(epochs):
        own, other = seen(batches, corpora)
        assert own == [1] * 150
        assert sum(other) == pytest.approx(150 * weight, abs=3)
        assert max(other) - min(other) == 1
        total += other
        batches.on_epoch_end()
    assert total.sum() == pytest.approx(epochs * 150 * weight, rel=0.2)
    assert total.max() - total.min() <= 1 + epochs * 3 / 100
    assert (total > 0).all()


def test_shapes_and_order_hold_for_all_epochs_of_a_mixture():
    batches, _ = mixed([0.3, 2.7], rows_multiple_of=2)
    shapes = set()
    for epoch in range(3):
        batches.epoch = epoch
        epochs = list(batches)
        shapes |= {(*x["source"].shape, y.shape[1]) for x, y, _ in epochs}
        again, _ = mixed([0.3, 2.7], rows_multiple_of=2)
        first = epoch * len(batches)
        assert all(same(batch, again[first + i]) for i, batch in enumerate(epochs))
    assert shapes <= set(batches.shapes)


def test_the_fraction_of_an_epoch_is_not_chosen_by_length():
    batches, corpora = mixed([1.0, 0.5], count=600)
    lengths = corpora[1].source.lengths
    shown = np.array(seen(batches, corpora)[1], bool)
    assert lengths[shown].mean() == pytest.approx(lengths.mean(), rel=0.05)


def test_num_tokens_is_the_mean_over_the_epochs():
    batches, _ = mixed([1.0, 0.5, 2.0])
    counts = []
    for _ in range(4):
        counts.append(sum((labels != PAD).sum() for _, labels, _ in batches))
        batches.on_epoch_end()
    assert np.mean(counts) == pytest.approx(batches.num_tokens, rel=0.01)


@pytest.mark.parametrize("shares", [[(4, 1.0)], [(3, 1.0), (2, 0.0)], [(5, -1.0)]])
def test_shares_must_fit(shares):
    with pytest.raises(InputError, match="do not fit 5 pairs"):
        TokenBatches(random_pairs(5), shares=shares)


# === Parts ===


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_parts_together_are_the_batch(count, shuffle):
    batches = TokenBatches(
        random_pairs(200), 512, rows_multiple_of=6, shuffle=shuffle, max_buckets=3
    )
    parts = [batches.part(index, count) for index in range(count)]
    for number, (inputs, labels, weights) in enumerate(batches):
        for index, part in enumerate(parts):
            some, own_labels, own_weights = part[number]
            size = len(labels) // count
            rows = slice(index * size, (index + 1) * size)
            for name, array in inputs.items():
                np.testing.assert_array_equal(some[name], array[rows])
            np.testing.assert_array_equal(own_labels, labels[rows])
            np.testing.assert_array_equal(own_weights, weights[rows])
    assert len(parts[0]) == len(batches)


def test_a_part_reads_no_other_rows():
    pairs = random_pairs(200)
    batches = TokenBatches(pairs, 512, rows_multiple_of=4, shuffle=False)
    whole, expected = batches[0], batches.part(1, 4)[0]
    size = len(whole[1]) // 4
    own = [r for r in np.flatnonzero(whole[2].any(axis=1)) if r // size == 1]
    shown = {tuple(row[row > END].tolist()) for row in whole[0]["source"][own]}
    for side in (pairs.source, pairs.target):
        for row, source in enumerate(as_tuples(random_pairs(200))):
            if source[0] not in shown:
                side[row][:] = -1
    assert same(batches.part(1, 4)[0], expected)
    assert (batches[0][1] == -1).any()


def test_from_step_gives_a_part():
    batches = TokenBatches(random_pairs(200), 512, rows_multiple_of=2)
    endless = batches.from_step(5, part=(1, 2))
    endless.on_epoch_begin()
    assert same(endless[3], batches.part(1, 2)[8])


@pytest.mark.parametrize("part", [(0, 3), (2, 2), (-1, 2), (0, 0)])
def test_parts_must_divide_the_rows(part):
    batches = TokenBatches(random_pairs(20), 512, rows_multiple_of=4)
    with pytest.raises(InputError, match="rows_multiple_of 4"):
        batches.part(*part)
