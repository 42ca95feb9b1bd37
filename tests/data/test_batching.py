"""Batches: every pair once, few shapes, exact weights, an order that can be resumed."""

import hashlib
import random

import numpy as np
import pytest
from random_pairs import as_tuples
from random_pairs import contents
from random_pairs import random_pairs
from random_pairs import same

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.batching import pad_rows
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

no_backend = pytest.mark.no_backend

PAD, START, END = 0, 1, 2


@no_backend
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": False},
        {"max_buckets": 1},
        {"rows_multiple_of": 7},
        {"sizes_multiple_of": 8},
        {"batch_tokens": 17},
        {"batch_tokens": 1_000_000},
        {"source_end": False},
    ],
)
@pytest.mark.parametrize("count", [1, 5, 997])
def test_every_pair_exactly_once_an_epoch(count, options):
    pairs = random_pairs(count)
    batches = TokenBatches(pairs, **{"batch_tokens": 512, **options})
    for _ in range(3):
        found = contents(batches, options.get("source_end", True))
        assert sorted(found) == sorted(as_tuples(pairs))
        batches.on_epoch_end()


@no_backend
def test_a_batch_in_full():
    pairs = EncodedPairs(
        TokenRows.from_lists([[11, 12, 13], [14]]),
        TokenRows.from_lists([[21], [22, 23]]),
    )
    batches = TokenBatches(pairs, 100, max_buckets=1, shuffle=False, rows_multiple_of=3)
    (inputs, labels, weights), *others = batches
    assert not others
    assert batches.shapes == [(3, 4, 3)]
    assert sorted(inputs) == ["source", "target"]
    rows = {tuple(row): i for i, row in enumerate(inputs["source"].tolist())}
    assert set(rows) == {(11, 12, 13, 2), (14, 2, 0, 0), (0, 0, 0, 0)}
    order = [rows[row] for row in [(11, 12, 13, 2), (14, 2, 0, 0), (0, 0, 0, 0)]]
    assert inputs["target"][order].tolist() == [[1, 21, 0], [1, 22, 23], [0, 0, 0]]
    assert labels[order].tolist() == [[21, 2, 0], [22, 23, 2], [0, 0, 0]]
    fifth = np.float32(1 / 5)
    assert np.array_equal(
        weights[order], np.array([[1, 1, 0], [1, 1, 1], [0, 0, 0]]) * fifth
    )
    arrays = [*inputs.values(), labels, weights]
    assert [str(array.dtype) for array in arrays] == ["int32"] * 3 + ["float32"]


@no_backend
def test_the_special_ids_can_be_others():
    rows = TokenRows.from_lists([[11], [12, 13]])
    batches = TokenBatches(
        EncodedPairs(rows, rows),
        max_buckets=1,
        pad_id=50,
        start_id=51,
        end_id=52,
        rows_multiple_of=3,
    )
    inputs, labels, weights = batches[0]
    assert sorted(inputs["source"].tolist())[1:] == [[12, 13, 52], [50, 50, 50]]
    assert sorted(inputs["target"].tolist())[1:] == [[51, 11, 50], [51, 12, 13]]
    assert sorted(labels.tolist())[0] == [11, 52, 50]
    assert np.array_equal(weights > 0, labels != 50)


@no_backend
def test_weights_sum_to_one_and_lie_on_the_tokens():
    batches = TokenBatches(random_pairs(2000), 1024, rows_multiple_of=4)
    for inputs, labels, weights in batches:
        assert weights.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(weights > 0, labels != PAD)
        assert np.unique(weights).size <= 2
        shifted = np.where(labels == END, PAD, labels)[:, :-1]
        assert np.array_equal(inputs["target"][:, 1:], shifted)


@no_backend
@pytest.mark.parametrize("max_buckets", [1, 2, 8])
def test_few_shapes_on_skewed_lengths(max_buckets):
    pairs = random_pairs(3000, shape=0.4, scale=60)
    assert pairs.target.lengths.max() > 10 * np.median(pairs.target.lengths)
    batches = TokenBatches(pairs, 2048, max_buckets=max_buckets)
    found = set()
    for _ in range(2):
        for inputs, labels, weights in batches:
            assert inputs["target"].shape == labels.shape == weights.shape
            assert len(inputs["source"]) == len(labels)
            found.add((*inputs["source"].shape, labels.shape[1]))
        batches.on_epoch_end()
    assert found == set(batches.shapes)  # rows, S and T of a bucket never change
    assert len(found) == len(batches.shapes) <= max_buckets


@no_backend
@pytest.mark.parametrize("shuffle", [True, False])
def test_devices_and_micro_batches_add_rows_that_weigh_nothing(shuffle):
    """And change nothing else: neither which pairs share a batch nor their order."""
    pairs = random_pairs(700)
    alone = TokenBatches(pairs, 1500, shuffle=shuffle)
    for multiple in (2, 3, 4, 8, 1000):
        batches = TokenBatches(pairs, 1500, shuffle=shuffle, rows_multiple_of=multiple)
        assert len(batches) == len(alone)
        for (inputs, labels, weights), expected in zip(batches, alone, strict=True):
            rows = len(expected[1])
            assert len(labels) == -(-rows // multiple) * multiple
            own = {name: array[:rows] for name, array in inputs.items()}
            assert same((own, labels[:rows], weights[:rows]), expected)
            added = [*inputs.values(), labels, weights]
            assert not any(array[rows:].any() for array in added)


def long_sources(count):
    """Pairs whose target is a few words and whose source is of any length."""
    source = random_pairs(count).source
    short = [[5] * (1 + row % 5) for row in range(count)]
    return EncodedPairs(source, TokenRows.from_lists(short))


@no_backend
@no_backend
@pytest.mark.parametrize("max_buckets", [1, 3, 8])
def test_sizes_are_multiples_of_what_a_gpu_prefers(max_buckets):
    pairs = random_pairs(4000)
    tokens = 3000
    plain = TokenBatches(pairs, tokens, max_buckets=max_buckets)
    batches = TokenBatches(pairs, tokens, max_buckets=max_buckets, sizes_multiple_of=8)
    for rows, S, T in batches.shapes:
        assert (S % 8, T % 8) == (0, 0)
        assert rows < 64 or rows % 8 == 0
        assert rows * T <= tokens
    assert batches.num_tokens == plain.num_tokens
    seen = sum(int((batches[i][1] != 0).sum()) for i in range(len(batches)))
    assert seen == batches.num_tokens


def test_sizes_are_not_rounded_up_beyond_the_positions_of_a_model():
    pairs = random_pairs(4000)
    plain = TokenBatches(pairs, 3000)
    longest = max(max(S, T) for _, S, T in plain.shapes)
    multiple = next(n for n in (5, 7, 9, 11) if longest % n not in (0, n - 1))
    rounded = TokenBatches(pairs, 3000, sizes_multiple_of=multiple)
    assert max(max(S, T) for _, S, T in rounded.shapes) > longest + 1
    options = {"sizes_multiple_of": multiple, "max_positions": longest + 1}
    batches = TokenBatches(pairs, 3000, **options)
    sizes = {size for _, S, T in batches.shapes for size in (S, T)}
    assert max(sizes) == longest + 1
    assert {size % multiple for size in sizes - {longest + 1}} <= {0}
    assert batches.num_tokens == plain.num_tokens
    fewer = TokenBatches(pairs, 3000, sizes_multiple_of=multiple, max_positions=3)
    assert max(max(S, T) for _, S, T in fewer.shapes) == longest


def test_the_source_of_a_batch_is_bounded_as_the_target_is():
    pairs = long_sources(2000)
    for options, bound in (({}, 512), ({"batch_source_tokens": 2000}, 2000)):
        batches = TokenBatches(pairs, 512, **options)
        for rows, S, T in batches.shapes:
            assert rows * S <= bound and rows * T <= 512
        assert max(rows * S for rows, S, _ in batches.shapes) > bound * 0.9
        assert sorted(contents(batches)) == sorted(as_tuples(pairs))


@no_backend
@pytest.mark.parametrize(
    ("multiple", "rows", "digest"),
    [
        (1, [42, 42, 42, 51, 64, 2], "7aed85a0ee6ef2a1"),
        (3, [42, 42, 42, 51, 63, 6], "0695846669df9501"),
    ],
)
def test_runs_that_earlier_versions_began_keep_their_batches(multiple, rows, digest):
    """Bit for bit: the digests are those of the version before the rule changed."""
    pairs = random_pairs(400)
    short = [pairs.target[row][: 1 + row % 5] for row in range(400)]
    pairs = EncodedPairs(pairs.source, TokenRows.from_lists(short))
    batches = TokenBatches(pairs, 256, rows_multiple_of=multiple, rule=1)
    assert [shape[0] for shape in batches.shapes] == rows
    found = hashlib.sha256()
    for inputs, labels, weights in batches:
        for array in (inputs["source"], inputs["target"], labels, weights):
            found.update(str(array.shape).encode() + array.tobytes())
    assert found.hexdigest().startswith(digest)


@no_backend
def test_one_batch_of_each_shape():
    batches = TokenBatches(random_pairs(500), 512)
    found = [(*x["source"].shape, y.shape[1]) for x, y, _ in batches.of_each_shape()]
    assert found == batches.shapes and len(found) > 2


@no_backend
def test_a_sentence_beyond_the_budget_is_a_batch_of_its_own():
    rows = TokenRows.from_lists([[5] * 40, [6] * 41, [7]])
    batches = TokenBatches(EncodedPairs(rows, rows), batch_tokens=30)
    assert batches.shapes[0][0] == 1
    assert len(contents(batches)) == 3


@no_backend
def test_no_batch_holds_a_handful_of_sentences():
    pairs = random_pairs(5000)
    outliers = EncodedPairs(*[TokenRows.from_lists([[5] * 200] * 2)] * 2)
    pairs = EncodedPairs(
        TokenRows.concatenate([pairs.source, outliers.source]),
        TokenRows.concatenate([pairs.target, outliers.target]),
    )
    for _, labels, weights in TokenBatches(pairs, 4096):
        assert weights.any(axis=1).mean() > 0.9
        assert (labels != PAD).sum() > 4096 / 8


@no_backend
def test_padding_is_small_on_realistic_lengths():
    pairs = random_pairs(20_000)
    batches = TokenBatches(pairs, 4096)
    assert batches.num_tokens == pairs.target.lengths.sum() + len(pairs)
    positions = sum(labels.size for _, labels, _ in batches)
    assert batches.padding == pytest.approx(1 - batches.num_tokens / positions)
    assert batches.padding < TokenBatches(pairs, 4096, max_buckets=1).padding / 3
    assert batches.padding < TokenBatches(pairs, 4096, max_buckets=4).padding


@no_backend
def test_the_buckets_are_the_best_ones():
    """Dynamic programming against every possible cut, where lengths are equal."""
    lengths = np.repeat([2, 3, 5, 8, 9, 14], [9, 30, 14, 3, 11, 2])
    rows = TokenRows.from_lists([[7] * (length - 1) for length in lengths])
    distinct = np.unique(lengths)

    def cost(tops):
        return np.take(tops, np.searchsorted(tops, lengths)).sum()

    best = min(
        cost([first, second, distinct[-1]])
        for first in distinct
        for second in distinct
        if first < second < distinct[-1]
    )
    # One row a batch, so that no bucket takes rows of another one to fill up.
    batches = TokenBatches(EncodedPairs(rows, rows), 1, max_buckets=3)
    assert sum(labels.size for _, labels, _ in batches) == best


@no_backend
def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = random_pairs(500)
    batches = TokenBatches(pairs, 512, seed=3)
    epochs = []
    for epoch in range(3):
        assert batches.epoch == epoch
        epochs.append(list(batches))
        batches.on_epoch_end()

    random.seed(99)
    np.random.seed(99)
    again = TokenBatches(pairs, 512, seed=3)
    for epoch in (2, 0, 1):
        again.epoch = epoch
        for index in reversed(range(len(again))):
            assert same(again[index], epochs[epoch][index])
    for other in (epochs[1], list(TokenBatches(pairs, 512, seed=4))):
        assert sum(map(same, epochs[0], other)) < len(batches) / 4


@no_backend
def test_an_epoch_mixes_pairs_and_buckets():
    batches = TokenBatches(random_pairs(500), 512)
    groups = [{frozenset(contents([batch])) for batch in batches}]
    lengths = [labels.shape[1] for _, labels, _ in batches]
    batches.on_epoch_end()
    groups.append({frozenset(contents([batch])) for batch in batches})
    assert len(groups[0] & groups[1]) < len(batches) / 4
    assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))


@no_backend
def test_indexes_go_on_into_the_following_epochs():
    batches = TokenBatches(random_pairs(300), 512)
    length = len(batches)
    later = [batches[index] for index in range(length, 3 * length)]
    batches.epoch = 1
    assert all(map(same, later[:length], batches))
    batches.epoch = 2
    assert all(map(same, later[length:], batches))
    with pytest.raises(IndexError, match="-1"):
        batches[-1]


@no_backend
def test_without_shuffling_the_order_is_fixed_and_sorted():
    batches = TokenBatches(random_pairs(500), 512, shuffle=False)
    first = list(batches)
    batches.on_epoch_end()
    assert all(map(same, first, batches))
    widths = [labels.shape[1] for _, labels, _ in first]
    by_length = [widths[0], *widths[2:], widths[1]]
    assert by_length == sorted(widths, reverse=True)


@no_backend
@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_begins_with_the_longest_and_the_shortest_batch(shuffle):
    """Keras fixes a size for TensorFlow where the first two batches agree in it."""
    batches = TokenBatches(random_pairs(500), 512, shuffle=shuffle)
    shapes = [batches[index][1].shape for index in (0, 1)]
    assert shapes == [
        (rows, T) for rows, _, T in (batches.shapes[0], batches.shapes[-1])
    ]
    assert shapes[0][1] > shapes[1][1]


@no_backend
def test_wrong_arguments_are_refused():
    empty = TokenRows.from_lists([])
    with pytest.raises(InputError, match="no sentence pairs"):
        TokenBatches(EncodedPairs(empty, empty))
    names = ("batch_tokens", "batch_source_tokens", "max_buckets", "rows_multiple_of")
    for name in names:
        with pytest.raises(InputError, match=f"{name} must be a whole number"):
            TokenBatches(random_pairs(3), **{name: 0})
    with pytest.raises(InputError, match="rule 3 is not 1 or 2"):
        TokenBatches(random_pairs(3), rule=3)


@no_backend
def test_pad_rows():
    padded = pad_rows([[7, 8], [], [9, 5, 6]], 3, pad_id=1)
    assert padded.dtype == np.int32
    assert padded.tolist() == [[7, 8, 1], [1, 1, 1], [9, 5, 6]]
    assert pad_rows(TokenRows.from_lists([[7]]), 2).tolist() == [[7, 0]]
    assert pad_rows([], 4).shape == (0, 4)
    with pytest.raises(InputError, match="3 ids does not fit into 2"):
        pad_rows([[1], [1, 2, 3]], 2)
