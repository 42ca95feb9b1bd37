"""Translation of a whole corpus into a folder: in shards, resumable, with a manifest.

For distillation at the level of sequences (Kim and Rush, 2016,
https://arxiv.org/abs/1606.07947) and back-translation (Sennrich et al., 2016,
https://arxiv.org/abs/1511.06709).

A shard is written whole or not at all, and a translation depends on its line and the
line's number alone. So what was stopped goes on, and ends with the same bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import Literal

from keras_transformer.data.line_reader import record_of
from keras_transformer.data.translated_corpus import FORMAT_VERSION
from keras_transformer.data.translated_corpus import MANIFEST
from keras_transformer.data.translated_corpus import WrittenFile
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import left_behind
from keras_transformer.files.whole_file import write_whole

_REQUEST = "request.json"

#: Lines, and the number of the first -> their translations.
Translate = Callable[[list[str], int], list[str]]


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked for: the same request gives the same text.

    Args:
        input_side: the side of the corpus that is there already: `"source"` for the
            translations of a teacher, `"target"` for back-translation.
        models: the SHA-256 of each model's files, by the path of its folder.
        inputs: the SHA-256 of each file that is translated, by its path, in order.
        num_lines: how many lines these have.
        options: of the search, the engine and the languages.
        shard_lines: lines of a shard.
    """

    input_side: Literal["source", "target"]
    models: dict[str, str]
    inputs: dict[str, str]
    num_lines: int
    options: dict[str, Any]
    shard_lines: int

    @property
    def output_side(self) -> Literal["source", "target"]:
        """The side that the model writes."""
        return "target" if self.input_side == "source" else "source"

    @property
    def num_shards(self) -> int:
        """How many shards the lines make."""
        return -(-self.num_lines // self.shard_lines)


def translate_corpus(
    folder: Path,
    lines: Iterable[str],
    translate: Translate,
    request: Request,
    versions: dict[str, str],
    *,
    part: tuple[int, int] = (1, 1),
    say: Callable[[str], None] = lambda text: None,
) -> bool:
    """Writes a translated corpus, or goes on with it.

    Args:
        folder: of the corpus; created where it is missing.
        lines: the text of `request.inputs`.
        translate: a function that translates lines, given the number of the first one.
        request: what is asked for.
        versions: of the programs, for the manifest.
        part: `(2, 3)` writes the second third of the shards; the part that ends last
            writes the manifest.
        say: a function that receives messages for people.

    Returns:
        Whether the corpus is whole, with its manifest.

    Raises:
        InputError: where the folder holds something else, or another request, or
            cannot be written.
    """
    try:
        _begin(folder, request, versions, say)
        shards = range(request.num_shards)
        is_whole = all(_is_written(folder, request, shard) for shard in shards)
        if is_whole and (folder / MANIFEST).exists():
            say(f"{folder} is finished already: {request.num_lines:,} lines")
            return True
        number, of = part
        for shard, texts in enumerate(_shards(lines, request.shard_lines)):
            if shard % of == number - 1 and not _is_written(folder, request, shard):
                _write_shard(folder, request, shard, texts, translate, say)
        missing = [s for s in shards if not _is_written(folder, request, s)]
        if missing:
            say(
                f"{folder}: part {number} of {of} is finished; {len(missing)} of "
                f"{request.num_shards} shards are not there yet"
            )
            return False
        _write_manifest(folder, request, versions)
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}; make room, or choose another "
            f"output"
        ) from None
    say(f"{folder}: {request.num_lines:,} lines in {request.num_shards} shards")
    return True


def _begin(
    folder: Path,
    request: Request,
    versions: dict[str, str],
    say: Callable[[str], None],
) -> None:
    """Keeps the request of a new folder; refuses another one."""
    path = plain_file(folder, _REQUEST, MOST_BYTES)
    if not path.exists():
        if folder.exists() and (
            not folder.is_dir()
            # Another part may have begun it meanwhile.
            or set(folder.iterdir()) - {path, *left_behind(folder, _REQUEST)}
        ):
            raise InputError(
                f"{folder} exists and is no corpus of this command; choose another "
                f"output, or remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, _json({**dataclasses.asdict(request), "versions": versions}))
        return
    try:
        before = json.loads(path.read_bytes())
        begun = Request(**{f.name: before[f.name] for f in dataclasses.fields(Request)})
        differences = _differences(begun, request)
        old_versions = before["versions"]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        raise InputError(
            f"{path} is damaged; remove {folder}, and begin anew"
        ) from None
    if differences:
        raise InputError(
            f"{folder} was begun with another request ({'; '.join(differences)}); "
            f"choose another output, or go back to that"
        )
    if begun.options != request.options:
        new = request.options.get("batch_size")
        if begun.options.get("batch_size") != new:
            say(
                f"warning: {folder} goes on with batches of {new} lines: some may be "
                f"translated otherwise, by rounding"
            )
        fields = {**dataclasses.asdict(request), "versions": old_versions}
        write_whole(path, _json(fields))
    if old_versions != versions:
        say(
            f"warning: {folder} was begun with {_named(old_versions)}, and goes on "
            f"with {_named(versions)}: some lines may be translated otherwise"
        )


def _differences(before: Request, now: Request) -> list[str]:
    """What differs, wherever models and texts are now.

    Batches may be smaller after an error of memory, and what is done with long lines
    may be said after the error that asks for it: none of them was translated.
    """
    lines = []
    for name in ("input_side", "num_lines", "shard_lines"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            lines.append(f"{name}: {old} -> {new}")
    for name in ("models", "inputs"):
        old, new = (list(getattr(r, name).values()) for r in (before, now))
        if old != new:
            lines.append(f"other {name}")
    for name in {**before.options, **now.options}:
        old, new = (r.options.get(name) for r in (before, now))
        is_free = name == "batch_size" or (name, old) == ("long_lines", "error")
        if old != new and not is_free:
            lines.append(f"{name}: {old} -> {new}")
    return lines


def _named(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _shards(lines: Iterable[str], count: int) -> Iterator[list[str]]:
    lines = iter(lines)
    while shard := list(itertools.islice(lines, count)):
        yield shard


def _name(side: str, shard: int) -> str:
    return f"{side}-{shard + 1:05}.txt"


def _is_written(folder: Path, request: Request, shard: int) -> bool:
    """Whether the lines and their translations are there."""
    sides = request.input_side, request.output_side
    return all((folder / _name(side, shard)).exists() for side in sides)


def _write_shard(
    folder: Path,
    request: Request,
    shard: int,
    texts: list[str],
    translate: Translate,
    say: Callable[[str], None],
) -> None:
    began = time.monotonic()
    found = translate(texts, shard * request.shard_lines + 1)
    found = [text.replace("\0", " ") for text in found]  # which no corpus may have
    for side, part in ((request.input_side, texts), (request.output_side, found)):
        write_whole(folder / _name(side, shard), _text(part))
    seconds = time.monotonic() - began
    say(
        f"shard {shard + 1} of {request.num_shards}: {len(texts):,} lines, "
        f"{len(texts) / max(seconds, 1e-9):,.1f} a second"
    )


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write_manifest(folder: Path, request: Request, versions: dict[str, str]) -> None:
    files = {
        side: [
            _written(folder / _name(side, shard)) for shard in range(request.num_shards)
        ]
        for side in ("source", "target")
    }
    content = {
        "format_version": FORMAT_VERSION,
        **dataclasses.asdict(request),
        "versions": versions,
        **files,
    }
    write_whole(folder / MANIFEST, _json(content))


def _written(path: Path) -> dict[str, Any]:
    record = record_of(path)
    return dataclasses.asdict(
        WrittenFile(path.name, record.lines, record.size, record.sha256)
    )


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
