"""Checksums of the blocks of a file, each verified when it is first read."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from keras_transformer.errors import InputError

#: Bytes. A batch touches a block for each of its rows; all are read once in an epoch.
BLOCK_BYTES = 1 << 16


class ChecksumWriter:
    """The CRC-32 of each block of a file that is written piece by piece."""

    def __init__(self) -> None:
        self._whole: list[int] = []
        self._crc = 0
        self._filled = 0

    def add(self, content: bytes) -> None:
        """Takes what follows in the file."""
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
        """Those of all blocks, the last one shorter: (blocks,) little-endian uint32."""
        rest = [self._crc] if self._filled else []
        return np.array([*self._whole, *rest], "<u4")


class CheckedBlocks:
    """The blocks of an array that is mapped from a file.

    Args:
        path: of the file, for messages.
        array: its content, of one axis.
        checksums: of `ChecksumWriter`.

    Attributes:
        fault: the error of the first block that is damaged; None so far.
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
        """Verifies what has not been read yet of the items from starts to ends.

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
        """Verifies the whole file; errors as of `check`."""
        for block in np.flatnonzero(self._unread).tolist():
            self._verify(block)

    def _verify(self, block: int) -> None:
        content = self._bytes[block * BLOCK_BYTES : (block + 1) * BLOCK_BYTES]
        if zlib.crc32(content.data) != self._checksums[block]:
            self.fault = InputError(
                f"{self.path} is damaged, near byte {block * BLOCK_BYTES}; remove the "
                f"folder {self.path.parent}, and start again: the text is then encoded "
                f"anew"
            )
            raise self.fault
        self._unread[block] = False
        self._left = int(np.count_nonzero(self._unread))  # other threads may read, too
