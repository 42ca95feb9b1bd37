"""Writer of the files of an `EncodedCorpora`, while the corpora are read."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config.languages import Direction
from keras_transformer.data.checksums import BLOCK_BYTES
from keras_transformer.data.checksums import ChecksumWriter
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.corpus import read_shards
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.encoding import check_not_empty
from keras_transformer.data.encoding import encode_stream
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.filters import SeenPairs
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.whole_file import write_whole

MANIFEST = "manifest.json"
SIDES = ("source", "target")
CHECKSUMS = "checksums"  # of all blocks of the files in `FILES`, in order
FILES = tuple(f"{side}.{kind}" for side in SIDES for kind in ("ids", "offsets"))

_INTERVAL = 10.0  # seconds between two lines of progress


def write_corpora(
    folder: Path,
    corpora: Sequence[CorpusFiles],
    encoder: PairEncoder,
    workers: int | None,
    say: Callable[[str], None],
    directions: Sequence[Direction] | None = None,
) -> dict[str, Any]:
    """Writes the ids of corpora into a folder; see `encode_corpora`.

    Returns:
        The content of the manifest.

    Raises:
        InputError: where a file cannot be read, or a corpus has no usable pair.
        OSError: where the folder cannot be written.
    """
    tokenizers = (encoder.source_tokenizer, encoder.target_tokenizer)
    widest = max(tokenizer.vocabulary_size for tokenizer in tokenizers)
    dtype = "uint16" if widest <= 2**16 else "int32"
    shards = [corpus.shards() for corpus in corpora]
    readers = [reader for corpus in shards for shard in corpus for reader in shard]
    progress, seen, reports = _Progress(readers, say), SeenPairs(), []
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_Side(folder, name, dtype)) for name in SIDES]
        for number, (corpus, corpus_shards) in enumerate(
            zip(corpora, shards, strict=True)
        ):
            if directions is not None:
                encoder = dataclasses.replace(encoder, direction=directions[number])
            chunk_reports = []
            for chunk in encode_stream(read_shards(corpus_shards), encoder, workers):
                new = chunk.only_new(seen)
                for side, rows in zip(
                    sides, (new.pairs.source, new.pairs.target), strict=True
                ):
                    side.write(rows)
                chunk_reports.append(new.report)
                progress.tell(len(chunk.pairs))
            report = CorpusReport.total(chunk_reports)
            check_not_empty(str(corpus), report)
            reports.append(report)
    checksums = np.concatenate(
        [file.checksums() for side in sides for file in (side.ids, side.offsets)]
    ).tobytes()
    (folder / CHECKSUMS).write_bytes(checksums)
    return {
        "files": [dataclasses.asdict(reader.record()) for reader in readers],
        "reports": list(map(dataclasses.asdict, reports)),
        "dtype": dtype,
        "pairs": sum(report.kept for report in reports),
        **{f"{side.name}_ids": side.total for side in sides},
        "block_bytes": BLOCK_BYTES,
        "checksums_sha256": hashlib.sha256(checksums).hexdigest(),
    }


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest of a folder, whole or not at all, with its SHA-256."""
    manifest = {**manifest, "sha256": manifest_digest(manifest)}
    write_whole(folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def manifest_digest(manifest: dict[str, Any]) -> str:
    """The SHA-256 of a manifest without its key `sha256`."""
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    return sha256_of_json(content)


class _Side:
    """The two growing files of one side."""

    def __init__(self, folder: Path, name: str, dtype: str) -> None:
        self.name = name
        self.total = 0
        self.ids = ChecksumWriter()
        self.offsets = ChecksumWriter()
        self._folder = folder
        self._dtype = dtype

    def __enter__(self) -> _Side:
        with contextlib.ExitStack() as stack:
            self._files = [
                stack.enter_context(open(self._folder / f"{self.name}.{kind}", "wb"))
                for kind in ("ids", "offsets")
            ]
            self._stack = stack.pop_all()
        self._write(b"", np.zeros(1, np.int64).tobytes())
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, rows: TokenRows) -> None:
        offsets = rows.offsets[1:] + self.total
        self._write(rows.ids.astype(self._dtype).tobytes(), offsets.tobytes())
        self.total += len(rows.ids)

    def _write(self, *contents: bytes) -> None:
        checksums = (self.ids, self.offsets)
        for file, sums, content in zip(self._files, checksums, contents, strict=True):
            file.write(content)
            sums.add(content)


class _Progress:
    """Progress lines of the readers, at intervals."""

    def __init__(
        self, readers: Sequence[LineReader], say: Callable[[str], None]
    ) -> None:
        self._readers = readers
        self._say = say
        self._pairs = 0
        self._bytes = sum(_size(reader.path) for reader in readers)
        self._began = self._told = time.monotonic()

    def tell(self, pairs: int) -> None:
        self._pairs += pairs
        seconds = time.monotonic()
        if seconds - self._told >= _INTERVAL:
            self._told = seconds
            read = sum(reader.bytes_read for reader in self._readers)
            speed = self._pairs / (seconds - self._began)
            self._say(
                f"encoding: {read / max(self._bytes, 1):.0%}, {self._pairs:,} pairs, "
                f"{speed:,.0f} a second"
            )


def _size(path: str | Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # the reader will report it
        return 0
