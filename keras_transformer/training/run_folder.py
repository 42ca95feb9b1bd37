"""The run folder: one process at a time, one config, one corpus.

`config.yaml`, `tokenizer.model`, `checkpoints/`, `best/`, `averaged/`, `logs/`.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import filelock
import pydantic

from keras_transformer.backends.distribution import Distribution
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import left_behind
from keras_transformer.files.whole_file import write_whole
from keras_transformer.training import batch_rule
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.config import new_bookkeeping
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import Fingerprint
from keras_transformer.training.corpora import changes
from keras_transformer.training.run_state import newest_state

_CONFIG = "config.yaml"
_CORPUS = "corpus.json"
_BATCH_TOKENS = "batch_tokens"
#: The cache of the encoded text, and the key of its digest in a `State`.
ENCODED = "encoded"
_LOCK = ".lock"
_MODELS = ("best", "averaged")
_FOLDERS = ("checkpoints", ENCODED, "logs", *_MODELS)
#: What is made of the config and the texts before the first checkpoint.
_MADE = (_CORPUS, batch_rule.FILE, _BATCH_TOKENS, *TOKENIZER_FILES, ENCODED, "logs")

_RECORDS = pydantic.TypeAdapter(dict[str, list[FileRecord]])


def begun_with(config: RunConfig) -> RunConfig:
    """The config that the run folder keeps; of a new run, the same one.

    To be asked for before `opened`, which keeps the new one.
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
    """The folder of a new run, or of one of an equal config; within it, for us alone.

    Only steps may have become more, and bookkeeping may differ. What a run left that
    had no checkpoint yet gives way to another config. `say` is told what is new.

    Raises:
        InputError: where it holds another run or something else, cannot be written, or
            is in use by another process.
    """
    folder = Path(config.output)
    try:
        _refuse_foreign(folder)
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / _LOCK).acquire(blocking=False)
    except filelock.Timeout:
        raise InputError(
            f"another process trains in {folder}; wait until it ends, or choose "
            f"another output"
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        try:
            _refuse_files(folder)
            _refuse_difference(folder, config, say)
            _tidy(folder)
        except OSError as error:
            raise _unwritable(folder, error) from None
        write(folder / _CONFIG, config.to_yaml())
        yield folder


def write(path: Path, text: str) -> None:
    """Writes a small file of the run folder, whole or not at all.

    Raises:
        InputError: where it cannot be written.
    """
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def keep_corpus(folder: Path, corpora: Corpora) -> None:
    """Keeps what the texts are when a run begins; refuses others afterwards.

    What a run left that had no checkpoint yet gives way to another corpus.

    Raises:
        InputError: where a text has changed since, and there is a checkpoint.
    """
    if (folder / _CORPUS).exists():
        known = _read_corpus(folder)
        now = corpora.fingerprint(known)
        lines = changes(known, now)
        if lines and has_weights(folder):
            raise _other_corpus(folder, lines)
        if now == known:
            return
        if lines:
            _begin_anew(folder)
    else:
        now = corpora.fingerprint()
    write(folder / _CORPUS, json.dumps(now, indent=2) + "\n")


def check_corpus(folder: Path, corpora: Corpora) -> None:
    """Refuses other texts than those that `keep_corpus` kept.

    Raises:
        InputError: naming the files that differ; where the folder is not the one that
            the first process has.
    """
    if not (folder / _CORPUS).exists():
        raise InputError(
            f"{folder} lacks {_CORPUS}, which the first process wrote; give all "
            f"processes the same folder, on a disk that all hosts share"
        )
    known = _read_corpus(folder)
    if lines := changes(known, corpora.fingerprint(known)):
        raise _other_corpus(folder, lines)


def _other_corpus(folder: Path, lines: list[str]) -> InputError:
    return InputError(
        f"{folder} was begun with another corpus ({'; '.join(lines)}); choose another "
        f"output, or go back to that corpus"
    )


def _read_corpus(folder: Path) -> Fingerprint:
    path = plain_file(folder, _CORPUS, MOST_BYTES)
    try:
        records = _RECORDS.validate_json(path.read_bytes(), strict=True)
    except (OSError, pydantic.ValidationError):
        raise InputError(
            f"{path} is damaged: it does not say of each text what it was; copy it "
            f"again, or choose another output"
        ) from None
    return {
        part: list(map(dataclasses.asdict, files)) for part, files in records.items()
    }


def file_digests(folder: Path) -> dict[str, str]:
    """`{name: SHA-256}` of what a training reads back besides its checkpoints.

    Of `corpus.json` it is that of the texts' content, wherever they lie.
    """
    digests = {
        name: sha256_of(plain_file(folder, name, MOST_BYTES))
        for name in (*TOKENIZER_FILES, _BATCH_TOKENS)
        if (folder / name).exists()
    }
    content = [
        [part, file["size"], file["sha256"]]
        for part, files in sorted(_read_corpus(folder).items())
        for file in files
    ]
    digests[_CORPUS] = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return digests


def check_files(folder: Path) -> None:
    """Refuses other files than those that the newest checkpoint was trained with.

    Of a run without checkpoints, or begun with an earlier version, nothing is known.

    Raises:
        InputError: naming the file.
    """
    state = newest_state(folder)
    if state is None or state.files is None:
        return
    found = file_digests(folder)
    for name, digest in state.files.items():
        if name == ENCODED:
            continue
        if name not in found:
            raise InputError(
                f"{folder / name} is missing; copy it again, or choose another output"
            )
        if found[name] != digest:
            raise InputError(
                f"{folder / name} is not the one that the checkpoints of the run were "
                f"trained with, or is damaged; copy it again, or choose another output"
            )


def batch_tokens(
    folder: Path, config: RunConfig, distribution: Distribution, find: Callable
) -> int:
    """`data.batch_tokens`; where that is "auto", found once and kept.

    Args:
        folder: of the run.
        config: of the run.
        distribution: the least that any of its processes finds is what all take.
        find: finds it: an int.
    """
    if config.data.batch_tokens != "auto":
        return config.data.batch_tokens
    path = folder / _BATCH_TOKENS
    # All look before any writes: they find it together, or none does.
    if not distribution.any(not path.exists()):
        return _read_number(plain_file(folder, _BATCH_TOKENS, MOST_BYTES))
    found = -int(distribution.max(-find()))
    if distribution.is_chief:
        write(path, f"{found}\n")
    return found


def check_encoded(folder: Path, digest: str | None) -> None:
    """Refuses other ids than those that the newest checkpoint was trained with.

    Args:
        folder: of the run.
        digest: of the ids; None where it is not known.

    Raises:
        InputError: where another one is known.
    """
    state = newest_state(folder)
    known = state.files.get(ENCODED) if state and state.files else None
    if digest and known and digest != known:
        raise InputError(
            f"the encoded text of {folder} is not the one that its checkpoints were "
            f"trained with; copy that again, or choose another output"
        )


def _read_number(path: Path) -> int:
    try:
        number = int(path.read_text())
    except (OSError, ValueError):
        number = 0
    if number < 1:
        raise InputError(
            f"{path} is damaged: it is no number of tokens; copy it again, or choose "
            f"another output"
        )
    return number


def _refuse_files(folder: Path) -> None:
    """Refuses something else where a folder is meant, before a step is taken."""
    for name in _FOLDERS:
        path = folder / name
        if os.path.lexists(path) and not path.is_dir():
            raise InputError(
                f"{path} is not a folder; remove it, or choose another output"
            )


def _refuse_foreign(folder: Path) -> None:
    if not folder.exists() or (folder / _CONFIG).exists():
        return
    # What a run leaves that was killed before it had written its config.
    own = {folder / _LOCK, *left_behind(folder, _CONFIG)}
    if not folder.is_dir() or set(folder.iterdir()) - own:
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
    before = load_config(path)
    lines, new = difference(before, config), new_bookkeeping(before, config)
    lines = batch_rule.without_shares(folder, lines)
    if not lines and new and has_weights(folder):
        say(f"{folder} goes on with {'; '.join(new)}")
        if config.training.schedule == "cosine" and before.training.steps != (
            config.training.steps
        ):
            say(
                f"warning: the cosine now falls until step {config.training.steps}: "
                f"the learning rate jumps up to that curve"
            )
    if lines and has_weights(folder):
        raise InputError(
            f"{folder} was begun with another config ({'; '.join(lines)}); "
            f"choose another output, or go back to that config"
        )
    if lines:
        _begin_anew(folder)


def has_weights(folder: Path) -> bool:
    """Whether a run has taken steps that its folder keeps."""
    models = any((folder / name).exists() for name in _MODELS)
    return models or any((folder / "checkpoints").glob("step-*"))


def _begin_anew(folder: Path) -> None:
    """Drops what was made of another config or corpus."""
    for name in _MADE:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _tidy(folder: Path) -> None:
    """Drops what a run left that was killed while it wrote a file or model folder."""
    for left in left_behind(folder):
        left.unlink()
    for name in _MODELS:
        for left in folder.glob(f".{name}.*"):
            shutil.rmtree(left, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot write the run folder {folder}: {error.strerror}; choose another output"
    )
