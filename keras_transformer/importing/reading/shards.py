"""Reading of weights that lie in several files beside an `*.index.json`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable

_MOST_INDEX_BYTES = 4 * 2**20
_MOST_SHARDS = 1000


class Shards(TensorFile):
    """Tensors of all files that an index names, which lie beside it.

    Args:
        index: the path of the index, a plain file.
        open_file: opens one of the files.

    Raises:
        InputError: where the index is damaged, names files of other places, or does
            not name what is in its files; and what `open_file` raises.
    """

    def __init__(self, index: Path, open_file: Callable[[Path], TensorFile]) -> None:
        self._shard_of = _shard_of(index)
        self._files: dict[str, TensorFile] = {}
        tensors: dict[str, TensorInfo] = {}
        with contextlib.ExitStack() as opened:
            for shard in sorted(set(self._shard_of.values())):
                file = opened.enter_context(open_file(_found(index, shard)))
                self._check_names(index, shard, file)
                self._files[shard] = file
                tensors |= file.tensors
            super().__init__(index, tensors)
            self.opened = opened.pop_all()

    def _check_names(self, index: Path, shard: str, file: TensorFile) -> None:
        named = {name for name, other in self._shard_of.items() if other == shard}
        if foreign := named ^ file.tensors.keys():
            raise InputError(
                f"{index} and {shard} do not agree about the tensor "
                f"{short(min(foreign))}; download the whole folder again"
            )

    def _read(self, name: str) -> np.ndarray:
        return self._files[self._shard_of[name]].read(name)


def _found(index: Path, shard: str) -> Path:
    path = plain_file(index.parent, shard)
    if not path.exists():
        raise InputError(
            f"{path} is missing, which {index.name} names; download the whole folder"
        )
    return path


def _shard_of(index: Path) -> dict[str, str]:
    """`{name of a tensor: file name}` of the index."""
    try:
        if index.stat().st_size > _MOST_INDEX_BYTES:
            raise damaged(index, "it is too large for an index")
        content = json.loads(index.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(index, error) from None
    except (RecursionError, ValueError):
        raise damaged(index, "it is not JSON, or is cut off") from None
    files = content.get("weight_map") if isinstance(content, Mapping) else None
    if not isinstance(files, dict) or not files:
        raise damaged(index, "it has no weight_map")
    for file in files.values():
        if not isinstance(file, str) or file in ("", "..") or Path(file).name != file:
            raise damaged(index, f"it names {short(str(file))}, no file beside it")
    if len(set(files.values())) > _MOST_SHARDS:
        raise damaged(index, f"it names more than {_MOST_SHARDS} files")
    return files
