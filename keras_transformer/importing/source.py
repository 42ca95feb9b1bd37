"""Source of an import: a folder of another toolkit, or one file of it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_CONFIG_BYTES
from keras_transformer.files.plain_file import plain_file

#: Of a vocabulary: a quarter of a million pieces take six.
MOST_VOCABULARY_BYTES = 16 * 2**20
_POINTER = b"version https://git-lfs.github.com/spec/"


class Source:
    """Files of another toolkit; none of them is run, none outside of it is read.

    Args:
        path: a folder, or a file of weights, beside which the others lie.
        tokenizers: files of tokenizers by side, `"source"` and `"target"`, which may
            lie elsewhere.

    Raises:
        InputError: where there is nothing at a path.
    """

    def __init__(
        self, path: str | Path, tokenizers: Mapping[str, str | Path] | None = None
    ) -> None:
        self.path = Path(path)
        # A link is followed: whoever names such a file means it.
        self.tokenizers = {n: Path(p).resolve() for n, p in (tokenizers or {}).items()}
        for side, tokenizer in self.tokenizers.items():
            if not tokenizer.is_file():
                raise InputError(
                    f"there is no file {tokenizer} for the {side}_tokenizer; check the "
                    f"path"
                )
        if not self.path.exists():
            raise InputError(f"there is no file or folder {self.path}; check the path")
        self.folder = self.path if self.path.is_dir() else self.path.parent

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """What `config.json` says; nothing where there is none."""
        return self._json_if_there("config.json")

    @functools.cached_property
    def tokenizer_config(self) -> dict[str, Any]:
        """What `tokenizer_config.json` says; nothing where there is none."""
        return self._json_if_there("tokenizer_config.json")

    @functools.cached_property
    def generation_config(self) -> dict[str, Any]:
        """What `generation_config.json` says; nothing where there is none."""
        return self._json_if_there("generation_config.json")

    @property
    def search_config(self) -> dict[str, Any]:
        """`generation_config.json` over `config.json`, which had its keys before it."""
        return {**self.config, **self.generation_config}

    @property
    def model_type(self) -> str | None:
        """The `model_type` of a folder of `transformers`."""
        name = self.config.get("model_type")
        return name if isinstance(name, str) else None

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about what is in the files and is never taken over."""
        if not self.names_code:
            return ()
        return ("the folder names code of its own (auto_map), which is never run",)

    @property
    def names_code(self) -> bool:
        """Whether a config names code of the folder."""
        return "auto_map" in self.config or "auto_map" in self.tokenizer_config

    def _json_if_there(self, name: str) -> dict[str, Any]:
        return self.json(name) if self.has(name) else {}

    @functools.cached_property
    def licence(self) -> str | None:
        """The licence that the front matter of README.md names."""
        if not self.has("README.md"):
            return None
        _, mark, rest = self.text("README.md").partition("---\n")
        text, end, _ = rest.partition("\n---")
        try:
            facts = yaml.safe_load(text) if mark and end else None
        except (RecursionError, ValueError, yaml.YAMLError):
            return None
        found = facts.get("license") if isinstance(facts, dict) else None
        if isinstance(found, list):
            found = ", ".join(map(str, found))
        return " ".join(str(found).split())[:100] if found else None

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return (self.folder / name).is_file()

    def names(self, *patterns: str) -> list[str]:
        """The names of the files that fit one of the patterns, sorted."""
        found = {path.name for form in patterns for path in self.folder.glob(form)}
        return sorted(found)

    def first(self, *names: str) -> str | None:
        """The first of these names that there is a file of."""
        return next(filter(self.has, names), None)

    def bytes(self, name: str, most_bytes: int = MOST_VOCABULARY_BYTES) -> bytes:
        """The content of a file.

        Raises:
            InputError: where it is missing, is no plain file of the folder, or has
                more than `most_bytes`.
        """
        path = plain_file(self.folder, name, most_bytes)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"cannot read {path}: {error.strerror}; get all files of the model"
            ) from None
        if content.startswith(_POINTER):
            raise InputError(
                f"{path} is not the file but Git's pointer to one; run git lfs pull in "
                f"its folder"
            )
        return content

    def text(self, name: str, most_bytes: int = MOST_CONFIG_BYTES) -> str:
        """The UTF-8 text of a file; raises as `bytes` does."""
        return self.bytes(name, most_bytes).decode("utf-8", errors="replace")

    def json(self, name: str, most_bytes: int = MOST_CONFIG_BYTES) -> dict[str, Any]:
        """The object in a JSON file; raises as `bytes` does, and where it is none."""
        text = self.bytes(name, most_bytes)
        try:
            content = json.loads(text)
        except (RecursionError, ValueError):
            content = None
        if not isinstance(content, dict):
            raise InputError(
                f"{self.folder / name} holds no JSON object, or is cut off; get it "
                f"again"
            )
        return content

    def vocabulary(self, name: str) -> list[str]:
        """The pieces of a JSON file `{piece: id}`, in the order of their ids.

        Raises:
            InputError: as `bytes` does, and where the ids are not 0, 1, 2, ...
        """
        ids = self.json(name, MOST_VOCABULARY_BYTES)
        return pieces_in_order(ids, str(self.folder / name))


def pieces_in_order(ids: Mapping[str, Any], where: str) -> list[str]:
    """The pieces of `{piece: id}`, in the order of their ids.

    Args:
        ids: as a file has it.
        where: the beginning of the message.

    Raises:
        InputError: where the ids are not 0, 1, 2, ...
    """
    pieces: list[str | None] = [None] * len(ids)
    for piece, number in ids.items():
        is_id = isinstance(number, int) and 0 <= number < len(pieces)
        if not is_id or pieces[number] is not None:
            raise InputError(
                f"{where} gives the piece {piece[:100]!r} the id "
                f"{str(number)[:100]}, but the ids of {len(ids)} pieces are 0 to "
                f"{len(ids) - 1}, each once; get the file again"
            )
        pieces[number] = piece
    return [str(piece) for piece in pieces]
