"""Checksums of blocks: each is verified when it is first read, and not before."""

from pathlib import Path

import numpy as np
import pytest

from keras_transformer.data import checksums
from keras_transformer.data.checksums import CheckedBlocks
from keras_transformer.data.checksums import ChecksumWriter
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(checksums, "BLOCK_BYTES", 8)


def written(ids, pieces=(3, 20)):
    writer = ChecksumWriter()
    content = ids.tobytes()
    for start, end in zip((0, *pieces), (*pieces, len(content)), strict=True):
        writer.add(content[start:end])
    return writer.checksums()


@pytest.fixture
def rows():
    """Rows of 0 to 9 ids of two bytes; a block holds four."""
    lengths = np.array([3, 0, 5, 9, 1, 2])
    ids = np.arange(lengths.sum(), dtype=np.uint16)
    offsets = np.append(0, np.cumsum(lengths))
    blocks = CheckedBlocks(Path("cache/source.ids"), ids, written(ids))
    return TokenRows(ids, offsets, blocks)


def test_the_pieces_in_which_a_file_is_written_do_not_matter():
    ids = np.arange(50, dtype=np.uint16)
    np.testing.assert_array_equal(written(ids, ()), written(ids, (1, 8, 16, 17, 99)))
    assert len(written(ids)) == 13
    assert len(written(ids[:48])) == 12
    assert len(written(ids[:0])) == 0


def test_whole_rows_are_what_they_are_without_checksums(rows):
    plain = TokenRows(rows.ids, rows.offsets)
    order = np.array([5, 1, 3, 3, 0])
    assert rows.take(order).lists() == plain.take(order).lists()
    assert rows[3].tolist() == plain[3].tolist()
    assert rows.lists() == plain.lists()


@pytest.mark.parametrize("place", [0, 3, 4, 9, 16, 19])
def test_the_rows_of_a_damaged_block_are_refused_and_no_others(place, rows):
    rows.ids[place] ^= 1
    block = range(place // 4 * 4, place // 4 * 4 + 4)
    for row in range(len(rows)):
        touched = set(range(*rows.offsets[row : row + 2])) & set(block)
        for read in (lambda row=row: rows[row], lambda row=row: rows.take([row])):
            if touched:
                with pytest.raises(InputError, match=r"source\.ids is damaged"):
                    read()
            else:
                read()
    with pytest.raises(InputError):
        rows.lists()
    assert "source.ids is damaged" in str(rows.blocks.fault)
    with pytest.raises(InputError):
        TokenRows.concatenate([rows, rows])


def test_a_block_is_verified_once(rows, monkeypatch):
    read = []
    crc32 = checksums.zlib.crc32
    monkeypatch.setattr(
        checksums.zlib, "crc32", lambda block: read.append(len(block)) or crc32(block)
    )
    rows.take([0])
    assert len(read) == 1
    rows.take([0, 3])  # ids 8 to 16: three blocks more
    assert len(read) == 4
    rows.lists()
    rows.lists()
    assert len(read) == 5
