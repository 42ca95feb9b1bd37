"""The run folder: one process at a time, one config, one corpus.

`config.yaml`, `tokenizer.model`, `checkpoints/`, `best/`, `averaged/`, `logs/`.
"""

import contextlib
import json
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import filelock

from keras_transformer.errors import InputError
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import changes


@contextlib.contextmanager
def opened(config: RunConfig) -> Iterator[Path]:
    """The folder of a new run, or of one of an equal config; within it, for us alone.

    Raises:
        InputError: where it holds another run or something else, cannot be written, or
            is in use by another process.
    """
    folder = Path(config.output)
    try:
        _check(folder, config)
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / ".lock")
        lock.acquire(blocking=False)
    except filelock.Timeout:
        raise InputError(
            f"another process trains in {folder}; wait until it ends, or choose "
            f"another output"
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        write(folder / "config.yaml", config.to_yaml())
        yield folder


def write(path: Path, text: str) -> None:
    """Writes a small file of the run folder, whole or not at all.

    Raises:
        InputError: where it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path.parent, error) from None


def check_corpus(folder: Path, corpora: Corpora) -> None:
    """Keeps what the texts are when a run begins; refuses others afterwards.

    Raises:
        InputError: where a text has changed.
    """
    path = folder / "corpus.json"
    if not path.exists():
        write(path, json.dumps(corpora.fingerprint(), indent=2) + "\n")
        return
    known = json.loads(path.read_text(encoding="utf-8"))
    lines = changes(known, corpora.fingerprint(known))
    if lines:
        raise InputError(
            f"{folder} was begun with another corpus ({'; '.join(lines)}); choose "
            f"another output, or go back to that corpus"
        )


def batch_tokens(folder: Path, config: RunConfig, find: Callable[[], int]) -> int:
    """`data.batch_tokens`; where that is "auto", found once and kept.

    Args:
        folder: of the run.
        config: of the run.
        find: finds it.
    """
    if config.data.batch_tokens != "auto":
        return config.data.batch_tokens
    path = folder / "batch_tokens"
    if not path.exists():
        write(path, f"{find()}\n")
    return int(path.read_text())


def _check(folder: Path, config: RunConfig) -> None:
    path = folder / "config.yaml"
    if path.exists():
        lines = difference(load_config(path), config)
        if lines:
            raise InputError(
                f"{folder} was begun with another config ({'; '.join(lines)}); "
                f"choose another output, or go back to that config"
            )
    elif folder.exists() and (not folder.is_dir() or _foreign(folder)):
        raise InputError(
            f"{folder} exists and is not a run folder; choose another output, or "
            f"remove it"
        )


def _foreign(folder: Path) -> bool:
    return any(path.name != ".lock" for path in folder.iterdir())


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write the run folder {folder}: {error.strerror}; choose another output"
    )
