"""Checksums of the blocks of a file, each verified when it is first read."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from keras_transformer.errors import InputError

#: In bytes. A batch touches one block per row; an epoch reads each block once.
BLOCK_BYTES = 1 << 16


class ChecksumWriter:
    """CRC-32 checksums of the blocks of a file that is written in parts."""

    def __init__(self) -> None:
        self._whole: list[int] = []
        self._crc = 0
        self._filled = 0

    def add(self, content: bytes) -> None:
        """Adds the next bytes of the file."""
        rest = memoryview(content)
        while len(rest):
            room = BLOCK_BYTES - self._filled
            piece, rest = rest[:room], rest[room:]
            self._crc = zlib.crc32(piece, self._crc)
            self._filled += len(piece)
            if self._filled == BLOCK_BYTES:
                self._whole.append(self._crc)
                self._crc = self._filled = 0

    def checksums(self) -> np.ndarray:
        """The checksum of each block, (blocks,) little-endian uint32."""
        rest = [self._crc] if self._filled else []
        return np.array([*self._whole, *rest], "<u4")


class CheckedBlocks:
    """The blocks of a memory-mapped array, verified on first read.

    Args:
        path: the path of the file, for messages.
        array: its content, with one axis.
        checksums: the result of `ChecksumWriter`.

    Attributes:
        fault: the error of the first damaged block; None so far.
    """

    def __init__(self, path: Path, array: np.ndarray, checksums: np.ndarray) -> None:
        self.path = path
        self.fault: InputError | None = None
        self._item = array.dtype.itemsize
        self._bytes = array.view(np.uint8)
        self._checksums = checksums
        self._unread = np.ones(len(checksums), bool)
        self._left = len(checksums)

    def check(self, starts: np.ndarray, ends: np.ndarray) -> None:
        """Verifies the blocks of the items from starts to ends on first read.

        Raises:
            InputError: naming the file, where a block is damaged.
        """
        if not self._left:
            return
        filled = ends > starts
        first = starts[filled] * self._item // BLOCK_BYTES
        last = (ends[filled] * self._item - 1) // BLOCK_BYTES
        while len(first):
            blocks = first[self._unread[first]]
            for block in np.unique(blocks).tolist():
                self._verify(block)
            longer = first < last
            first, last = first[longer] + 1, last[longer]

    def check_all(self) -> None:
        """Verifies the whole file; raises as `check` does."""
        for block in np.flatnonzero(self._unread).tolist():
            self._verify(block)

    def _verify(self, block: int) -> None:
        content = self._bytes[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        if zlib.crc32(content.data) != self._checksums[block]:
            self.fault = InputError(
                f"{self.path} is damaged, near byte {block * BLOCK_BYTES}; remove "
                f"the folder {self.path.parent} and start again to encode the text "
                "again"
            )
            raise self.fault
        self._unread[block] = False
        self._left = int(np.count_nonzero(self._unread))  # threads may race
