"""Rows of ids of any lengths."""

import numpy as np
import pytest

from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


def test_token_rows_take_and_concatenate():
    lists = [[1, 2], [], [3], [4, 5, 6]]
    rows = TokenRows.from_lists(lists)
    taken = rows.take(np.array([3, 1, 0, 3]))
    assert [row.tolist() for row in taken] == [[4, 5, 6], [], [1, 2], [4, 5, 6]]
    assert len(rows.take(np.array([], int))) == 0
    both = TokenRows.concatenate([rows, taken])
    assert [row.tolist() for row in both] == [*lists, *(row.tolist() for row in taken)]
    assert rows[-1].tolist() == [4, 5, 6]
    with pytest.raises(IndexError):
        rows[4]


def test_encoded_pairs_must_match():
    one, two = TokenRows.from_lists([[1]]), TokenRows.from_lists([[1], [2]])
    with pytest.raises(InputError, match=r"1 source rows .* 2 target"):
        EncodedPairs(one, two)


def test_lengths_are_known_without_the_ids():
    rows = TokenRows.from_lists([[1, 2], [], [3], [4, 5, 6]])
    assert rows.lengths.dtype == np.int32
    assert rows.lengths.tolist() == [2, 0, 1, 3]
    no_ids = TokenRows(None, rows.offsets)
    assert no_ids.lengths_of(np.array([3, 1, 0, 3])).tolist() == [3, 0, 2, 3]


def test_rows_keep_the_type_of_their_ids():
    rows = TokenRows(np.array([7, 65535, 9], np.uint16), np.array([0, 1, 3]))
    assert rows.take(np.array([1])).ids.dtype == np.uint16
    assert rows.lists() == [[7], [65535, 9]]
