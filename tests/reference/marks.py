"""Marks of single cases of a table that run on one backend alone."""

import pytest


def on_one_backend(*values):
    """A case for `pytest.mark.parametrize` that is left to one backend."""
    return pytest.param(*values, marks=pytest.mark.one_backend)


def all_on_one_backend(values, but):
    """Cases that are left to one backend, but those that run on each."""
    return [value if value in but else on_one_backend(value) for value in values]


#: For a fused loss that passes twice: tokens of a chunk, and `product_multiple`.
chunks_of_pairs = pytest.mark.parametrize(
    ("chunk_tokens", "multiple"),
    [
        on_one_backend(512, 1),  # one chunk
        (22, 1),  # chunks with a remainder
        on_one_backend(14, 1),  # chunks without
        on_one_backend(16, 8),  # sizes as on a GPU, of all but hidden states
    ],
)
