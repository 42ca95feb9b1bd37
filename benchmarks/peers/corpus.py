"""Batches for `gpu/training.py`, cut by this package from a text or from made-up ids.

python -m peers.corpus FILE OPTIONS_AS_JSON, in the folder of benchmarks

Made up, the lengths are gamma distributed with mean 29 and deviation 17 tokens, about
those of WMT 2014 English to German in 37 000 pieces, and the ids follow Zipf's law. A
source begins like its translation, so that there is something to learn.
"""

import json
import sys

import numpy as np

from keras_transformer.data import Tokenizer
from keras_transformer.data import read_lines
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.buckets import GPU_SIZES_MULTIPLE_OF
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from peers.batches import END
from peers.batches import PAD
from peers.batches import START

MEAN, DEVIATION, LONGEST = 29, 17, 127
_SPREAD = 0.15  # of the logarithm of target length to source length


def main():
    path, options = sys.argv[1], json.loads(sys.argv[2])
    np.savez(path, *[array for batch in cut(**options) for array in batch])


def cut(
    vocabulary_size,
    batch_tokens,
    steps,
    buckets,
    text=None,
    seed=1,
    lengths=(MEAN, DEVIATION, LONGEST),
):
    """About `steps` batches (source, target, labels), in the order of an epoch.

    Args:
        vocabulary_size: V.
        batch_tokens: target positions of a batch.
        steps: how many batches.
        buckets: the most shapes.
        text: the files of source and target; None: ids are made up.
        seed: of ids and order.
        lengths: mean, deviation and the most tokens of those that are made up.
    """
    pairs = round(steps * batch_tokens / (lengths[0] + 3))  # a twelfth is padding
    if text:
        found = _encoded(text, vocabulary_size, pairs)
    else:
        found = _made_up(vocabulary_size, pairs, np.random.default_rng(seed), *lengths)
    sizes = {"max_buckets": buckets, "sizes_multiple_of": GPU_SIZES_MULTIPLE_OF}
    batches = TokenBatches(found, batch_tokens, seed=seed, **sizes)
    for number in range(min(len(batches), steps)):
        inputs, labels, _ = batches[number]
        source, target = inputs["source"], inputs["target"]
        # No row is empty: torch.nn.Transformer makes NaN of what is masked altogether.
        target[:, 0] = START
        source[source[:, 0] == PAD, 0] = END
        yield source, target, labels


def _made_up(vocabulary_size, pairs, random, mean, deviation, longest):
    shape = (mean / deviation) ** 2
    lengths = random.gamma(shape, mean / shape, pairs)
    spread = min(_SPREAD, deviation / mean)
    targets, sources = (
        np.clip(np.rint(values), 1, longest).astype(int)
        for values in (lengths, lengths * np.exp(random.normal(0, spread, pairs)))
    )
    powers = random.random((pairs, longest))
    ids = 3 + np.floor((vocabulary_size - 3) ** powers).astype(np.int32)
    rows = [
        [row[:length] for row, length in zip(ids, sizes, strict=True)]
        for sizes in (sources, targets)
    ]
    return EncodedPairs(*map(TokenRows.from_lists, rows))


def _encoded(text, vocabulary_size, pairs):
    lines = [read_lines(path)[:pairs] for path in text]
    tokenizer = Tokenizer.train([*lines[0], *lines[1]], vocabulary_size)
    rows = zip(*map(tokenizer.encode, lines), strict=True)
    short = [pair for pair in rows if all(0 < len(ids) <= LONGEST for ids in pair)]
    return EncodedPairs(*map(TokenRows.from_lists, zip(*short, strict=True)))


if __name__ == "__main__":
    main()
