"""Opening of a run folder: by one process at a time, for one config."""

import contextlib
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import filelock

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import left_behind
from keras_transformer.training import batch_rule
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.config import new_bookkeeping
from keras_transformer.training.run_folder import ENCODED
from keras_transformer.training.run_folder import MODELS
from keras_transformer.training.run_folder import begin_anew
from keras_transformer.training.run_folder import has_weights
from keras_transformer.training.run_folder import unwritable
from keras_transformer.training.run_folder import without_moved_origin
from keras_transformer.training.run_folder import write

_CONFIG = "config.yaml"
_LOCK = ".lock"
_FOLDERS = ("checkpoints", ENCODED, "logs", *MODELS)


def begun_with(config: RunConfig) -> RunConfig:
    """The config stored in the run folder; for a new run, the given one.

    To be called before `opened`, which stores the new one.
    """
    try:
        path = plain_file(Path(config.output), _CONFIG, MOST_BYTES)
        return load_config(path) if path.exists() else config
    except InputError:  # which `opened` raises
        return config


@contextlib.contextmanager
def opened(
    config: RunConfig, say: Callable[[str], None] = lambda text: None
) -> Iterator[Path]:
    """Context with exclusive use of the folder of a new run or of an equal config.

    Steps may only increase, and bookkeeping may differ. A run without a checkpoint may
    change its config: its files are removed. `say` receives the changes.

    Raises:
        InputError: where the folder holds another run or something else, cannot be
            written, or is in use by another process.
    """
    folder = Path(config.output)
    try:
        _refuse_foreign(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / _LOCK).acquire(blocking=False)
    except filelock.Timeout:
        raise InputError(
            f"another process is training in {folder}; wait until it ends, or choose "
            "another output"
        ) from None
    except OSError as error:
        raise unwritable(folder, error) from None
    with lock:
        try:
            _refuse_files(folder)
            _refuse_difference(folder, config, say)
            _tidy(folder)
        except OSError as error:
            raise unwritable(folder, error) from None
        write(folder / _CONFIG, config.to_yaml())
        yield folder


def _refuse_files(folder: Path) -> None:
    """Refuses files in place of folders, before the first step."""
    for name in _FOLDERS:
        path = folder / name
        if os.path.lexists(path) and not path.is_dir():
            raise InputError(
                f"{path} is not a folder; remove it, or choose another output"
            )


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists() or (folder / _CONFIG).exists():
        return
    # Files of a run that was killed before it had written its config.
    own_files = {folder / _LOCK, *left_behind(folder, _CONFIG)}
    if not folder.is_dir() or set(folder.iterdir()) - own_files:
        raise InputError(
            f"{folder} exists and is not a run folder; choose another output, or "
            f"remove it"
        )


def _refuse_difference(
    folder: Path, config: RunConfig, say: Callable[[str], None]
) -> None:
    path = plain_file(folder, _CONFIG, MOST_BYTES)
    if not path.exists():
        return
    stored = load_config(path)
    lines = batch_rule.without_shares(folder, difference(stored, config))
    lines = without_moved_origin(config, lines)
    new_lines = new_bookkeeping(stored, config)
    if not lines and new_lines and has_weights(folder):
        say(f"{folder} goes on with {'; '.join(new_lines)}")
        curve = {"cosine": "cosine", "linear": "line"}.get(config.training.schedule)
        if curve and stored.training.steps != config.training.steps:
            say(
                f"warning: the {curve} now falls until step {config.training.steps}: "
                f"the learning rate jumps up to that curve"
            )
    if lines and has_weights(folder):
        averaged = folder / "averaged"
        to_begin = f"model.folder {averaged}"
        if not averaged.exists():  # of a run that has not finished
            command = f"keras-transformer average {folder} --last 1 --output FOLDER"
            to_begin = f"model.folder FOLDER, which `{command}` writes,"
        raise InputError(
            f"{folder} was begun with another config ({'; '.join(lines)}); "
            f"choose another output, with {to_begin} to begin with its weights, or go "
            f"back to that config"
        )
    if lines:
        begin_anew(folder)


def _tidy(folder: Path) -> None:
    """Removes temporary files and folders of a run that was killed."""
    for leftover in left_behind(folder):
        leftover.unlink()
    for name in MODELS:
        for leftover in folder.glob(f".{name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
