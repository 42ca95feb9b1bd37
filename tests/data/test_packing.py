"""Packed batches: every pair once, in rows that a model can take apart."""

import numpy as np
import pytest
from random_pairs import as_tuples
from random_pairs import random_pairs
from random_pairs import same

from keras_transformer.data import EncodedPairs
from keras_transformer.data import PackedBatches
from keras_transformer.data import TokenBatches
from keras_transformer.data import TokenRows
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

PAD, START, END = 0, 1, 2


def contents(batches):
    """The pairs of an epoch, as tuples of ids; asserts the form of the batches."""
    found = []
    for inputs, labels, weights in (batches[i] for i in range(len(batches))):
        (rows, S, T) = batches.shapes[0]
        assert inputs["source"].shape == (rows, S)
        assert inputs["target"].shape == labels.shape == weights.shape == (rows, T)
        np.testing.assert_allclose(weights.sum(), 1, rtol=1e-5)
        np.testing.assert_array_equal(weights > 0, labels != PAD)
        assert len({*weights[weights > 0]}) == 1
        for source, target, label in zip(
            inputs["source"], inputs["target"], labels, strict=True
        ):
            sources = split(source, before=False)
            targets = split(target, before=True)
            assert targets == [(START, *one[:-1]) for one in split(label, before=False)]
            assert len(sources) == len(targets)
            found += [
                (source[:-1], target[1:])
                for source, target in zip(sources, targets, strict=True)
            ]
    return found


def split(row, before):
    """A row cut before each start, or after each end; padding only at its end."""
    sentences, current = [], []
    text = row[: np.flatnonzero(row != PAD).max(initial=-1) + 1].tolist()
    assert PAD not in text
    for token in text:
        if before and token == START:
            sentences.append([])
            current = sentences[-1]
        current.append(token)
        if not before and token == END:
            sentences.append(current)
            current = []
    return [tuple(sentence) for sentence in sentences]


@pytest.mark.parametrize(
    "options",
    [{}, {"shuffle": False}, {"batch_tokens": 1}, {"rows_multiple_of": 7}],
)
@pytest.mark.parametrize("count", [1, 5, 997])
def test_every_pair_exactly_once_an_epoch(count, options):
    pairs = random_pairs(count)
    options = {"batch_tokens": 512, "length": 100, **options}
    batches = PackedBatches(pairs, **options)
    assert len(batches.shapes) == 1
    for _ in range(2):
        assert sorted(contents(batches)) == sorted(as_tuples(pairs))
        batches.on_epoch_end()


def test_the_padding_is_what_a_better_packing_could_not_halve():
    pairs = random_pairs(3000)
    batches = PackedBatches(pairs, 4000, length=100)
    labels = [batches[i][1] for i in range(len(batches))]
    share = np.mean([np.mean(one == PAD) for one in labels])
    assert batches.padding == pytest.approx(share, abs=1e-6)
    assert batches.num_tokens == sum(np.count_nonzero(one) for one in labels)
    longer = max(pairs.source.lengths.sum(), pairs.target.lengths.sum()) + len(pairs)
    assert batches.num_rows < 1.1 * longer / 100
    assert batches.padding < TokenBatches(pairs, 4000).padding


def test_the_order_is_a_function_of_seed_and_epoch():
    pairs = random_pairs(500)
    one, other = (PackedBatches(pairs, 512, length=100) for _ in range(2))
    steps = one.from_step(3)
    steps.on_epoch_begin()
    for step in range(2 * len(one)):
        assert same(one[step + 3], other[step + 3])
        assert same(one[step + 3], steps[step])
    assert not same(one[0], one[len(one)])
    assert not same(one[0], PackedBatches(pairs, 512, length=100, seed=2)[0])


@pytest.mark.parametrize("dropout", [False, True])
def test_the_parts_together_are_the_batch(dropout):
    options = {}
    pairs = random_pairs(300)
    if dropout:
        tokenizer = Tokenizer.train(["low lower lowest"] * 9, vocabulary_size=275)
        options["bpe_dropout"] = BPEDropout(tokenizer, tokenizer, dropout=0.3)
        rows = tokenizer.encode(["low", "lower", "lowest low", "lower lowest"] * 50)
        rows = TokenRows.from_lists(rows)
        pairs = EncodedPairs(rows, rows)
    batches = PackedBatches(
        pairs, 1200, length=100, rows_multiple_of=4, shuffle=False, **options
    )
    whole = batches[1]
    parts = [batches.part(index, 4)[1] for index in range(4)]
    for i, arrays in enumerate(zip(*parts, strict=True)):
        if i == 0:
            for side in ("source", "target"):
                joined = np.concatenate([array[side] for array in arrays])
                np.testing.assert_array_equal(joined, whole[0][side])
        else:
            np.testing.assert_array_equal(np.concatenate(arrays), whole[i])
    np.testing.assert_allclose(whole[2].sum(), 1, rtol=1e-5)
    if dropout:
        assert not same(batches[0], batches[len(batches)])  # segmented anew


def test_with_a_weight_each_epoch_sees_another_share_of_a_corpus():
    pairs = random_pairs(1200)
    shares = [(600, 1.0), (600, 0.25)]
    batches = PackedBatches(pairs, 512, length=100, shares=shares)
    whole = as_tuples(pairs)
    seen = []
    for _ in range(4):
        found = contents(batches)
        assert len([p for p in found if p in set(whole[:600])]) >= 600
        seen.append([p for p in found if p in set(whole[600:])])
        batches.on_epoch_end()
    assert all(100 < len(part) < 200 for part in seen)
    assert len({pair for part in seen for pair in part}) > 590


def test_whole_pairs_are_taken_as_they_are():
    source = TokenRows.from_lists([[9, 5, 2], [9, 6, 7, 2]])
    target = TokenRows.from_lists([[2, 8, 5, 2], [2, 8, 6, 7, 2]])
    ids = {"pad_id": 1, "start_id": 2, "end_id": 2}
    pairs = EncodedPairs(source, target, ids, is_whole=True)
    batches = PackedBatches(pairs, 9, length=9, shuffle=False)
    ((inputs, labels, weights),) = (batches[i] for i in range(len(batches)))
    assert inputs["source"].tolist() == [[9, 5, 2, 9, 6, 7, 2, 1, 1]]
    assert inputs["target"].tolist() == [[2, 8, 5, 2, 8, 6, 7, 1, 1]]
    assert labels.tolist() == [[8, 5, 2, 8, 6, 7, 2, 1, 1]]
    np.testing.assert_allclose(weights, [[1 / 7] * 7 + [0, 0]], rtol=1e-6)


def test_padding_may_be_the_start_as_in_marian():
    rows = TokenRows.from_lists([[5, 6], [7]])
    ids = {"pad_id": 9, "start_id": 9, "end_id": 0}
    batches = PackedBatches(EncodedPairs(rows, rows, ids), length=7, shuffle=False)
    inputs, labels, _ = batches[0]
    assert inputs["target"].tolist() == [[9, 5, 6, 9, 7, 9, 9]]
    assert labels.tolist() == [[5, 6, 0, 7, 0, 9, 9]]


def test_what_cannot_be_packed_is_refused():
    rows = TokenRows.from_lists([[5, 6, 7], [8]])
    pairs = EncodedPairs(rows, rows)
    with pytest.raises(InputError, match=r"a pair of 4 tokens.* 3 positions"):
        PackedBatches(pairs, length=3)
    with pytest.raises(InputError, match="tells sentences apart by the end_id"):
        PackedBatches(pairs, length=8, source_end=False)[0]
    ended = TokenRows.from_lists([[5, 2, 7], [8]])
    with pytest.raises(InputError, match="tells sentences apart by the end_id"):
        PackedBatches(EncodedPairs(ended, rows), length=8)[0]
    # NLLB's old order, with the language after the end: the next sentence would get it.
    source = TokenRows.from_lists([[5, 2, 20], [6, 7, 2, 21]])
    target = TokenRows.from_lists([[2, 21, 8, 2], [2, 20, 9, 2]])
    ids = {"pad_id": 1, "start_id": 2, "end_id": 2}
    whole = EncodedPairs(source, target, ids, is_whole=True)
    with pytest.raises(InputError, match="the end_id at the end of each source"):
        PackedBatches(whole, length=8)[0]
    with pytest.raises(InputError, match="length"):
        PackedBatches(pairs, length=0)


def test_a_pair_that_fits_may_be_segmented_anew():
    """Where the new segments do not fit, it stays as it is."""
    lines = ["low lower lowest tower " * count for count in range(1, 5)] * 4
    tokenizer = Tokenizer.train(lines * 3, 285)
    rows = TokenRows.from_lists(tokenizer.encode(lines))
    length = int(rows.lengths.max()) + 1
    dropout = BPEDropout(tokenizer, tokenizer, 0.3)
    batches = PackedBatches(
        EncodedPairs(rows, rows), 256, length=length, bpe_dropout=dropout
    )
    drawn = sum(
        int((labels == 2).sum())
        for _, labels, _ in map(batches.__getitem__, range(len(batches)))
    )
    assert drawn == len(lines)
