"""Sentence pairs of random ids, for tests of batches."""

import numpy as np

from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows

PAD, END, FIRST = 0, 2, 4
VOCABULARY_SIZE = 53


def random_pairs(count, seed=0, shape=3.0, scale=5.0):
    """Pairs of gamma-distributed lengths, source and target correlated."""
    generator = np.random.default_rng(seed)
    common = generator.gamma(shape, scale, count)
    sides = []
    for _ in range(2):
        lengths = (common * generator.uniform(0.8, 1.25, count)).astype(int) + 1
        ids = generator.integers(FIRST, VOCABULARY_SIZE, lengths.sum(), np.int32)
        sides.append(TokenRows(ids, np.append(0, np.cumsum(lengths))))
    return EncodedPairs(*sides)


def contents(batches, source_end=True):
    """The pairs of an epoch, read back from its batches."""
    found = []
    for inputs, labels, weights in batches:
        for source, row, weight in zip(inputs["source"], labels, weights, strict=True):
            if weight.any():
                source = source[source != PAD]
                row = row[row != PAD]
                assert row[-1] == END
                assert (source[-1] == END) == source_end
                source = source[:-1] if source_end else source
                found.append((tuple(source.tolist()), tuple(row[:-1].tolist())))
    return found


def as_tuples(pairs):
    return [
        (tuple(source.tolist()), tuple(target.tolist()))
        for source, target in zip(pairs.source, pairs.target, strict=True)
    ]


def same(one, other):
    """Whether two batches are equal in every bit."""
    return all(
        np.array_equal(a, b)
        for a, b in zip(
            (*one[0].values(), *one[1:]), (*other[0].values(), *other[1:]), strict=True
        )
    )
