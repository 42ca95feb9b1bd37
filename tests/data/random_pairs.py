"""Sentence pairs of random ids, for tests of batches."""

import numpy as np

from keras_transformer.data.corpus import EncodedPairs
from keras_transformer.data.corpus import TokenRows

FIRST = 4
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
