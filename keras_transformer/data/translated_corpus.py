"""Translated corpora: folders of text that a model wrote, with a manifest.

`manifest.json` says which model wrote the text, how, and from what; it has the digest
of each file. The files are pairs of `source-00001.txt` and `target-00001.txt`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from typing import Literal

import pydantic

from keras_transformer.data.line_reader import FileRecord
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file

MANIFEST = "manifest.json"
FORMAT_VERSION = 1

_Digest = Annotated[str, pydantic.Field(pattern="^[0-9a-f]{64}$")]


@dataclasses.dataclass(frozen=True)
class WrittenFile:
    """A file of a translated corpus.

    Args:
        name: of the file, in the folder of the manifest.
        lines: its lines.
        size: its bytes.
        sha256: the digest of its bytes.
    """

    name: Annotated[str, pydantic.Field(pattern=r"^(source|target)-\d{5,9}\.txt$")]
    lines: Annotated[int, pydantic.Field(ge=1)]
    size: Annotated[int, pydantic.Field(ge=1)]
    sha256: _Digest


@dataclasses.dataclass(frozen=True)
class Shards:
    """The part of a manifest that names the files.

    Args:
        format_version: of the manifest.
        source: files of the source, in order.
        target: files of the target, each the translation of one of the source, or what
            that is the translation of.
    """

    format_version: Literal[1]
    source: Annotated[tuple[WrittenFile, ...], pydantic.Field(min_length=1)]
    target: Annotated[tuple[WrittenFile, ...], pydantic.Field(min_length=1)]


_SHARDS = pydantic.TypeAdapter(Shards)


class TranslatedCorpus:
    """The files of a translated corpus, as its manifest names them.

    Args:
        folder: the folder of the manifest.

    Attributes:
        source: paths of the source, in order.
        target: paths of the target, in order.

    Raises:
        InputError: where there is no manifest, or it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        path = plain_file(folder, MANIFEST, MOST_BYTES)
        try:
            shards = _SHARDS.validate_json(path.read_bytes())
        except FileNotFoundError:
            raise InputError(
                f"{folder} has no {MANIFEST}: no translated corpus, or one that is not "
                f"finished; run the command that writes it again"
            ) from None
        except (OSError, pydantic.ValidationError):
            shards = None
        if shards is None or len(shards.source) != len(shards.target):
            raise InputError(
                f"{path} is damaged, or of a later version; copy the folder again"
            )
        self.folder = folder
        self._files = {
            str(folder / file.name): file for file in (*shards.source, *shards.target)
        }
        self.source = tuple(folder / file.name for file in shards.source)
        self.target = tuple(folder / file.name for file in shards.target)

    def check(self, records: Mapping[str, FileRecord]) -> None:
        """Refuses files that are not those of the manifest.

        Args:
            records: of the files as they are now, by path.

        Raises:
            InputError: naming the first.
        """
        for path, file in self._files.items():
            record = records[path]
            if (record.size, record.sha256) != (file.size, file.sha256):
                raise InputError(
                    f"{path} is not the file that {MANIFEST} beside it describes; copy "
                    f"the folder again, or translate the text again into another one"
                )
