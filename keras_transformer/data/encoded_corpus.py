"""Corpora encoded once, and mapped into memory from then on.

A cache folder holds one folder for each set of files, tokenizers and filters:
`manifest.json`, and of either side `source.ids` and `source.offsets`, the arrays of
`TokenRows`. It is written under a hidden name and renamed when it is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

import filelock
import numpy as np

from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.encoded_writer import MANIFEST
from keras_transformer.data.encoded_writer import SIDES
from keras_transformer.data.encoded_writer import write_corpora
from keras_transformer.data.encoded_writer import write_manifest
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.line_reader import same_content_now
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedCorpora:
    """Corpora as ids, one after the other.

    Args:
        pairs: of all corpora, mapped from files.
        reports: of each corpus, what became of it; `kept` says how many are its pairs.
        files: the files as they were when they were encoded, in order.
    """

    pairs: EncodedPairs
    reports: tuple[CorpusReport, ...]
    files: tuple[FileRecord, ...]

    @property
    def report(self) -> CorpusReport:
        """What became of all corpora together."""
        return CorpusReport.total(self.reports)


def encode_corpora(
    folder: str | Path,
    corpora: Sequence[CorpusFiles],
    encoder: PairEncoder,
    *,
    workers: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> EncodedCorpora:
    """Opens the encoded corpora of a cache folder, or encodes them into it.

    Nothing is held whole in memory but 8 bytes a pair where pairs must be unique; then
    a pair that another corpus had before is dropped as well. A cache of other files,
    tokenizers or filters is not used; where only the time of a file differs, its
    content decides. Of several processes one encodes and the others wait.

    Args:
        folder: of the cache; made where it is missing.
        corpora: their files.
        encoder: tokenizers and filters.
        workers: processes; None for one on each core, 1 for this process alone.
        say: is given a line of progress now and then.

    Raises:
        InputError: where a file cannot be read, a corpus has no pair to use, or the
            folder cannot be written.
    """
    settings = _settings(corpora, encoder)
    key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:16]
    path = Path(folder, key)
    if (found := _open(path, settings)) is not None:
        return found
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f".{key}.lock")):
            if (found := _open(path, settings)) is not None:
                return found  # another process was waited for
            if path.exists():
                say(f"the text has changed since {path} was written: encoding it again")
            with _replacing(path) as new:
                manifest = write_corpora(new, corpora, encoder, workers, say)
                write_manifest(new, {"settings": settings, **manifest})
            if (found := _open(path, settings)) is not None:
                return found
    except OSError as error:
        raise InputError(
            f"cannot write the encoded corpus {path}: {error.strerror}; make room, or "
            f"set data.cache to another folder"
        ) from None
    raise InputError(
        "the text changed while it was encoded; start again when it is whole"
    )


def _settings(corpora: Sequence[CorpusFiles], encoder: PairEncoder) -> dict:
    """All that decides what is written, but for the content of the files."""
    return {
        "format_version": _FORMAT_VERSION,
        "corpora": [
            [shard.settings for shard in corpus.shards()] for corpus in corpora
        ],
        "tokenizers": [
            hashlib.sha256(tokenizer.model).hexdigest()
            for tokenizer in (encoder.source_tokenizer, encoder.target_tokenizer)
        ],
        "filters": dataclasses.asdict(encoder.filters),
    }


def _open(path: Path, settings: dict) -> EncodedCorpora | None:
    """What lies there; None where it is missing, damaged, or of other content."""
    try:
        manifest = json.loads((path / MANIFEST).read_bytes())
        if manifest["settings"] != settings:
            return None
        files = [FileRecord(**record) for record in manifest["files"]]
        now = [same_content_now(record) for record in files]
        if None in now:
            return None
        pairs = EncodedPairs(*(_map(path, side, manifest) for side in SIDES))
        reports = tuple(CorpusReport(**report) for report in manifest["reports"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if now != files:  # of another time: the next start need not read them
        manifest["files"] = list(map(dataclasses.asdict, now))
        with contextlib.suppress(OSError):
            write_manifest(path, manifest)
    return EncodedCorpora(pairs, reports, tuple(now))


def _map(path: Path, side: str, manifest: dict) -> TokenRows:
    arrays = []
    for name, dtype, count in (
        ("ids", manifest["dtype"], manifest[f"{side}_ids"]),
        ("offsets", "int64", manifest["pairs"] + 1),
    ):
        file = path / f"{side}.{name}"
        if file.stat().st_size != count * np.dtype(dtype).itemsize:
            raise ValueError(f"{file} is cut off")
        # As a plain array, which is indexed three times faster.
        arrays.append(np.asarray(np.memmap(file, dtype, "r", shape=(count,))))
    return TokenRows(*arrays)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A new folder that becomes `path` if all goes well, and nothing if not."""
    new, old = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    for left in (new, old):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir()
    try:
        yield new
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
