"""Output folders that are written whole or not at all."""

import contextlib
import shutil
import tempfile
from collections.abc import Collection
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import InputError


@contextlib.contextmanager
def new_folder(
    output: str | Path,
    kind: str,
    markers: Collection[str] = (),
    others: Collection[str] = (),
) -> Iterator[Path]:
    """A temporary folder that gets the name `output` when the block ends well.

    Args:
        output: the path of the folder; it may be an empty folder, or an older one of
            this kind, which is replaced.
        kind: what the folder is, for messages, such as "a model folder".
        markers: files that every folder of this kind has; without any, no folder is
            replaced.
        others: further files that such a folder may have.

    Raises:
        InputError: where `output` is something else, holds other files too, or cannot
            be written. Existing files are kept.
    """
    try:
        output = Path(output).resolve()  # a link is kept, its target is replaced
        replaced = bool(markers) and all((output / name).is_file() for name in markers)
        if replaced:
            _check_own(output, {*markers, *others})
        elif output.exists() and not _is_empty_folder(output):
            problem = f"is not {kind}" if markers else "is not empty"
            raise InputError(
                f"{output} exists and {problem}; choose another name, or remove it"
            )
        output.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    except OSError as error:
        raise InputError(
            f"cannot write {output}: {error.strerror}; choose another folder"
        ) from None
    try:
        new.chmod(0o755)
        yield new
        if replaced:
            _replace(output, new)
        else:
            new.rename(output)  # onto nothing, or onto an empty folder
    except OSError as error:
        raise InputError(
            f"cannot write {output}: {error.strerror or error}; check the folder and "
            f"its disk"
        ) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _check_own(folder: Path, names: set[str]) -> None:
    foreign = sorted({path.name for path in folder.iterdir()} - names)
    if foreign:
        raise InputError(
            f"{folder} would be replaced, but it also holds "
            f"{', '.join(foreign[:3])}; move these files away, or choose another name"
        )


def _replace(output: Path, new: Path) -> None:
    old = new.with_name(f"{new.name}.old")
    output.rename(old)
    try:
        new.rename(output)
    except OSError:
        old.rename(output)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
