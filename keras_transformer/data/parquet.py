"""Reader of sentence pairs in Parquet files, with pyarrow.

pyarrow decompresses such a file page by page, and the format allows pages of 2 GiB:
take untrusted files in another format.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.data.columns import Columns
from keras_transformer.data.columns import missing_columns
from keras_transformer.data.line_faults import LineFault
from keras_transformer.data.line_faults import LineFaults
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.line_reader import record_of
from keras_transformer.data.pair_files import one_line
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError


class ParquetReader(LineReader):
    """A Parquet file, read by rows instead of lines.

    Attributes:
        lines: rows read so far.
        bytes_read: about how many of the file's bytes were read.
    """

    def __enter__(self) -> ParquetReader:
        self._stack = contextlib.ExitStack()
        try:
            import pyarrow.parquet as parquet
        except ModuleNotFoundError:
            raise InputError(
                "pyarrow, which reads Parquet, is not installed; run pip install "
                "pyarrow"
            ) from None
        with _explained(self.path), contextlib.ExitStack() as stack:
            file = stack.enter_context(open(self.path, "rb"))
            self._status = os.fstat(file.fileno())
            self._table = stack.enter_context(parquet.ParquetFile(file))
            self._stack = stack.pop_all()
        return self

    def pairs(self, columns: Columns | None, chunk: int) -> Iterator[ParallelText]:
        """The pairs of two text columns; a dot in a name leads into a struct."""
        columns = columns or ("source", "target")
        wanted = [str(column) for column in columns]
        names = [
            self._table.schema.column(i).path for i in range(len(self._table.schema))
        ]
        if not set(wanted) <= set(names):
            raise missing_columns(self.path, columns, names)
        rows = max(self._table.metadata.num_rows, 1)
        faults = LineFaults(self.path)
        with _explained(self.path):
            batches = self._table.iter_batches(chunk, columns=wanted)
            for batch in batches:
                sources, targets = (self._texts(batch, name) for name in wanted)
                pairs = zip(sources, targets, strict=True)
                texts = []
                for number, (source, target) in enumerate(pairs, self.lines + 1):
                    try:
                        pair = one_line(source or ""), one_line(target or "")
                        texts.append(pair)
                    except LineFault as fault:
                        faults.add(number, fault)
                self.lines += batch.num_rows
                self.bytes_read = self._status.st_size * self.lines // rows
                if not faults:
                    yield ParallelText.of_pairs(texts)
        if faults:
            raise faults.error()

    def record(self) -> FileRecord:
        """The record of the file, which is read once more for it.

        Raises:
            InputError: where the file changed while it was read.
        """
        record, status = record_of(self.path), self._status
        size_and_times = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if (record.size, record.mtime_ns, record.ctime_ns) != size_and_times:
            raise InputError(
                f"{self.path} changed while it was being read; start again once it "
                "is complete"
            )
        return record

    def _texts(self, batch: Any, name: str) -> list[str | None]:
        import pyarrow

        first, *rest = name.split(".")
        if name in batch.schema.names:
            first, rest = name, []
        column = batch.column(first)
        for key in rest:
            if not pyarrow.types.is_struct(column.type):
                raise self._no_text(name, column.type)
            column = column.field(key)
        kind = column.type
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise self._no_text(name, kind)
        return column.to_pylist()

    def _no_text(self, name: str, kind: Any) -> InputError:
        return InputError(
            f"{self.path}: the column {name} holds {kind}, not text; set 'columns' "
            "to two columns of text"
        )


@contextlib.contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    import pyarrow

    try:
        yield
    except pyarrow.ArrowException as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path} cannot be read as Parquet ({reason[:200]}); copy it again, or "
            "give it under its actual format"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}; check the path"
        ) from None
