"""Sizes and ids for everyone: short sentences; for training sorted into four shapes."""

import numpy as np

PAD, START, END = 0, 1, 2
#: layers, D, F, H; `toy` shows that a program runs.
SIZES = {
    "toy": (1, 16, 32, 2),
    "tiny": (4, 128, 256, 4),
    "base": (6, 512, 2048, 8),
    "big": (6, 1024, 4096, 16),
}
#: (rows, S, T), about 4096 target positions each.
SHAPES = [(128, 30, 32), (195, 20, 21), (256, 15, 16), (315, 12, 13)]


def batches(vocabulary_size, seed=1):
    """`[(source, target, labels)]`, one of each shape, int32; about 9 % is padding."""
    random = np.random.default_rng(seed)
    found = []
    for rows, S, T in SHAPES:
        lengths = random.integers(round(0.8 * T), T + 1, rows)
        labels = random.integers(4, vocabulary_size, (rows, T))
        source = random.integers(4, vocabulary_size, (rows, S))
        # What can be learned, so that the losses can be compared.
        size = min(S, T)
        source[:, :size] = labels[:, :size]
        target = np.concatenate([np.full((rows, 1), START), labels[:, :-1]], axis=1)
        padding = np.arange(T) >= lengths[:, None]
        labels = np.where(np.arange(T) == lengths[:, None] - 1, END, labels)
        labels, target = np.where(padding, PAD, labels), np.where(padding, PAD, target)
        source = np.where(np.arange(S) >= np.minimum(lengths, S)[:, None], PAD, source)
        found.append(tuple(ids.astype("int32") for ids in (source, target, labels)))
    return found


def load(path):
    """What `peers.corpus` has written, as `batches` gives it."""
    with np.load(path) as file:
        arrays = [file[f"arr_{number}"] for number in range(len(file.files))]
    return [tuple(arrays[i : i + 3]) for i in range(0, len(arrays), 3)]


#: Tokens of each translation, whatever the program, where sentences are made up.
LENGTH = 32


def sources(vocabulary_size, rows, seed=1):
    """`rows` lists of 20 to 24 ids, the end token last."""
    random = np.random.default_rng(seed)
    lengths = random.integers(20, 25, rows)
    lengths[0] = 24
    return [
        [*random.integers(4, vocabulary_size, length - 1).tolist(), END]
        for length in lengths
    ]


def by_length(sentences, batch, most):
    """`[(rows, length)]`, sentences of similar length together, the longest first.

    Args:
        sentences: lists of ids.
        batch: sentences in each.
        most: of more batches than that, so many, evenly spread.

    Returns:
        Each with the number of tokens to write: of the powers of two from 16 on, the
        first that is not below its longest source.
    """
    ordered = sorted(sentences, key=len, reverse=True)
    rows = [ordered[i : i + batch] for i in range(0, len(ordered), batch)]
    if len(rows) > most:
        rows = [rows[i * len(rows) // most] for i in range(most)]
    return [(found, max(16, 1 << (len(found[0]) - 1).bit_length())) for found in rows]


def padded(rows):
    """(B, S) int32."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, "int32")
    for row, found in zip(ids, rows, strict=True):
        row[: len(found)] = found
    return ids
