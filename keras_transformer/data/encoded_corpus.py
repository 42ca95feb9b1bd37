"""Encoded corpora: token ids written once, and memory-mapped from then on.

A cache folder holds one folder for each set of files, tokenizers and filters:
`manifest.json`, and of either side `source.ids` and `source.offsets`, the arrays of
`TokenRows`; `checksums` has one of each block of them, which is verified when the block
is first read. Folders of earlier versions have none. A folder is written under a hidden
name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pydantic

from keras_transformer.config.languages import Direction
from keras_transformer.data.checksums import BLOCK_BYTES
from keras_transformer.data.checksums import CheckedBlocks
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.encoded_writer import CHECKSUMS
from keras_transformer.data.encoded_writer import FILES
from keras_transformer.data.encoded_writer import MANIFEST
from keras_transformer.data.encoded_writer import manifest_digest
from keras_transformer.data.encoded_writer import write_corpora
from keras_transformer.data.encoded_writer import write_manifest
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.line_reader import same_content_now
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.removal import remove

_FORMAT_VERSION = 1
_RECORDS = pydantic.TypeAdapter(tuple[FileRecord, ...])
_REPORTS = pydantic.TypeAdapter(tuple[CorpusReport, ...])
_DIRECTIONS = pydantic.TypeAdapter(tuple[Direction, ...])


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedCorpora:
    """The ids of corpora, concatenated.

    Args:
        pairs: the pairs of all corpora, memory-mapped from files.
        reports: the filter report of each corpus; `kept` is its number of pairs.
        files: the records of the files when they were encoded, in order.
        digest: the SHA-256 of the checksums of all blocks, which reveals other ids;
            None where an earlier version encoded them.
    """

    pairs: EncodedPairs
    reports: tuple[CorpusReport, ...]
    files: tuple[FileRecord, ...]
    digest: str | None

    @property
    def report(self) -> CorpusReport:
        """The filter report of all corpora together."""
        return CorpusReport.total(self.reports)


def encode_corpora(
    folder: str | Path,
    corpora: Sequence[CorpusFiles],
    encoder: PairEncoder,
    *,
    workers: int | None = None,
    say: Callable[[str], None] = lambda text: None,
    records: Mapping[str, FileRecord] | None = None,
    directions: Sequence[Direction] | None = None,
) -> EncodedCorpora:
    """Opens the encoded corpora of a cache folder, or encodes them into it.

    Memory holds only 8 bytes per pair, where pairs must be unique; then a pair of an
    earlier corpus is dropped as well. A cache of other files, tokenizers or filters is
    not used; where only the time of a file differs, its content decides. One of several
    processes encodes while the others wait.

    Args:
        folder: the cache folder; created where it is missing.
        corpora: the files of each corpus.
        encoder: tokenizers and filters.
        workers: number of worker processes; None for one per core, 1 for this process.
        say: a function that receives lines of progress.
        records: known records of files, by absolute path; for other files, size and
            times are compared with those in the cache.
        directions: of each corpus, for a multilingual model; see `PairEncoder`.

    Raises:
        InputError: where a file cannot be read, a corpus has no usable pair, or the
            folder cannot be written.
    """
    settings = _settings(corpora, encoder, directions)
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    path, records = Path(folder, key), records or {}
    if (encoded := _open(path, settings, records)) is not None:
        if encoded.digest is None:
            say(f"{path} has no checksums, as of an earlier version: read unchecked")
        return encoded
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f".{key}.lock")):
            if (encoded := _open(path, settings, records)) is not None:
                return encoded  # another process has encoded meanwhile
            if os.path.lexists(path):
                say(
                    f"the text has changed since {path} was written, or the cache is "
                    "damaged: encoding the text again"
                )
            with _replacing(path) as new:
                manifest = write_corpora(
                    new, corpora, encoder, workers, say, directions
                )
                write_manifest(new, {"settings": settings, **manifest})
            if (encoded := _open(path, settings, records)) is not None:
                return encoded
    except OSError as error:
        raise InputError(
            f"cannot write the encoded corpus {path}: {error.strerror}; make room, or "
            f"set data.cache to another folder"
        ) from None
    raise InputError(
        "the text changed while it was being encoded; start again once its files "
        "are complete"
    )


def _settings(
    corpora: Sequence[CorpusFiles],
    encoder: PairEncoder,
    directions: Sequence[Direction] | None,
) -> dict[str, Any]:
    """The settings that decide what is written, besides the content of the files."""
    tokenizers = (encoder.source_tokenizer, encoder.target_tokenizer)
    settings: dict[str, Any] = {
        "format_version": _FORMAT_VERSION,
        "corpora": [
            [shard.settings for shard in corpus.shards()] for corpus in corpora
        ],
        "tokenizers": [
            hashlib.sha256(tokenizer.content).hexdigest() for tokenizer in tokenizers
        ],
        "filters": dataclasses.asdict(encoder.filters),
    }
    if any(codes := [_own_code(tokenizer) for tokenizer in tokenizers]):
        settings["tokenizer_code"] = codes
    if directions is not None:
        settings["directions"] = _DIRECTIONS.dump_python(tuple(directions), mode="json")
        has_prefix = any(direction.prefix for direction in directions)
        if has_prefix and encoder.filters.counts_tokens:
            settings["filtered_lengths"] = "without prefix"  # once they were with it
    return settings


def _own_code(tokenizer: Tokenizer) -> str | None:
    """The digest of the code of a tokenizer class of the user's; None of this package.

    Of the whole modules of the class and its bases, which may call what stands beside.
    """
    known = {__name__.partition(".")[0], *sys.stdlib_module_names}
    names = [kind.__module__ for kind in type(tokenizer).__mro__]
    own = [name for name in names if name.partition(".")[0] not in known - {"__main__"}]
    codes = []
    for name in dict.fromkeys(own):
        with contextlib.suppress(OSError, TypeError):  # typed into a terminal
            codes.append(inspect.getsource(sys.modules[name]))
    return hashlib.sha256("".join(codes).encode()).hexdigest() if codes else None


def _open(
    path: Path, settings: dict[str, Any], records: Mapping[str, FileRecord]
) -> EncodedCorpora | None:
    """The corpora of a cache; None where it is missing, damaged or outdated."""
    try:
        manifest = json.loads(plain_file(path, MANIFEST).read_bytes())
        if manifest["settings"] != settings:
            return None
        digest = manifest_digest(manifest)
        if manifest.get("sha256", digest) != digest:  # an earlier version wrote none
            return None
        files = _RECORDS.validate_json(json.dumps(manifest["files"]), strict=True)
        unchanged = (_unchanged(record, records) for record in files)
        current = [record for record in unchanged if record is not None]
        if len(current) < len(files):
            return None
        pairs = _map(path, manifest)
        reports = _REPORTS.validate_json(json.dumps(manifest["reports"]), strict=True)
        if sum(report.kept for report in reports) != len(pairs):
            return None
    except (
        *(AttributeError, KeyError, OSError, OverflowError, RecursionError),
        *(TypeError, ValueError),  # with pydantic's, and `InputError`
    ):
        return None
    fields = [dataclasses.asdict(record) for record in current]
    if fields != [dataclasses.asdict(record) for record in files]:
        # The time has changed: record it, so that the next start need not read the
        # file.
        manifest["files"] = fields
        with contextlib.suppress(OSError):
            write_manifest(path, manifest)
    digest = manifest.get("checksums_sha256")
    return EncodedCorpora(pairs, reports, tuple(current), digest)


def _unchanged(
    record: FileRecord, records: Mapping[str, FileRecord]
) -> FileRecord | None:
    """The current record of a file; None where its content has changed."""
    current = records.get(record.path)
    if current is None:
        return same_content_now(record)
    return current if current.same_content(record) else None


def _map(path: Path, manifest: dict[str, Any]) -> EncodedPairs:
    """The arrays of a folder; `ValueError` where one is not as it was written."""
    arrays, counts = [], []
    for name in FILES:
        side, kind = name.split(".")
        dtype = np.dtype(manifest["dtype"] if kind == "ids" else "int64")
        count = manifest[f"{side}_ids"] if kind == "ids" else manifest["pairs"] + 1
        file = plain_file(path, name)
        if file.stat().st_size != count * dtype.itemsize:
            raise ValueError(f"{file} is cut off")
        # A plain array is indexed three times faster than a memmap.
        arrays.append(np.asarray(np.memmap(file, dtype, "r", shape=(count,))))
        counts.append(-(-count * dtype.itemsize // BLOCK_BYTES))
    blocks: list[CheckedBlocks | None] = [None] * len(FILES)
    if "checksums_sha256" in manifest:
        checksums = np.split(_read_checksums(path, manifest), np.cumsum(counts)[:-1])
        blocks = [
            CheckedBlocks(path / name, array, block_checksums)
            for name, array, block_checksums in zip(
                FILES, arrays, checksums, strict=True
            )
        ]
    sides = []
    for (ids, offsets), (id_blocks, offset_blocks) in zip(
        (arrays[:2], arrays[2:]), (blocks[:2], blocks[2:]), strict=True
    ):
        if offset_blocks is not None:
            offset_blocks.check_all()  # every start reads all of them
        elif offsets[0] or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
            raise ValueError(f"{path} has offsets that are not valid")
        sides.append(TokenRows(ids, offsets, id_blocks))
    source, target = sides
    is_whole = "directions" in manifest["settings"]
    return EncodedPairs(source, target, is_whole=is_whole)


def _read_checksums(path: Path, manifest: dict[str, Any]) -> np.ndarray:
    content = plain_file(path, CHECKSUMS).read_bytes()
    if (
        manifest["block_bytes"] != BLOCK_BYTES
        or hashlib.sha256(content).hexdigest() != manifest["checksums_sha256"]
    ):
        raise ValueError(f"{path / CHECKSUMS} is damaged")
    return np.frombuffer(content, "<u4")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A new folder that replaces `path` on success, and is removed on failure."""
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    for leftover in (new, old):  # of a process that was killed
        remove(leftover)
    new.mkdir()
    try:
        yield new
        if os.path.lexists(path):
            path.rename(old)
        new.rename(path)
    finally:
        for leftover in (new, old):
            remove(leftover)
