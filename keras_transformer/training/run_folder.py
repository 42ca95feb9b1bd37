"""Run folders: what they keep of a run, and whether it is still what it was.

`config.yaml`, `tokenizer.model`, `known_words.json` of the phrasebook, `checkpoints/`,
`best/`, `averaged/`, `logs/`. How it is opened is in `run_opening.py`.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pydantic

from keras_transformer.backends.distribution import Distribution
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import write_whole
from keras_transformer.model_folder import read_config
from keras_transformer.training import batch_rule
from keras_transformer.training.config import RunConfig
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import Fingerprint
from keras_transformer.training.corpora import changes
from keras_transformer.training.run_state import newest_state

_CORPUS = "corpus.json"
_BATCH_TOKENS = "batch_tokens"
#: The cache of the encoded text, and the key of its digest in a `State`.
ENCODED = "encoded"
MODELS = ("best", "averaged")
#: What is made of the config and the texts before the first checkpoint.
_MADE = (
    *(_CORPUS, batch_rule.FILE, _BATCH_TOKENS, *TOKENIZER_FILES),
    *(KNOWN_WORDS, ENCODED, "logs"),
)

_RECORDS = pydantic.TypeAdapter(dict[str, list[FileRecord]])


def write(path: Path, text: str) -> None:
    """Writes a small file of the run folder, whole or not at all.

    Raises:
        InputError: where it cannot be written.
    """
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise unwritable(path.parent, error) from None


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
            begin_anew(folder)
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
    digests[_CORPUS] = sha256_of_json(content)
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


def keep_known_words(config: RunConfig, corpora: Corpora) -> KnownWords | None:
    """The words that the model of a run learns, found once and kept in its folder.

    None where the texts are no closed language, or `model.folder` has learned others.

    Args:
        config: of the run.
        corpora: its texts, those that it was begun with.
    """
    folder, trained = config.output, config.model.get("folder")
    if (folder / KNOWN_WORDS).exists():
        return known_words(folder)
    found = corpora.known_words()
    if found is None:
        return None
    if trained and not (
        Path(trained).exists() and read_config(Path(trained)).has_known_words
    ):
        return None
    write(folder / KNOWN_WORDS, found.to_json())
    return found


def known_words(folder: Path) -> KnownWords | None:
    """What `keep_known_words` has kept; None also in runs of earlier versions.

    Raises:
        InputError: where the file is damaged.
    """
    return KnownWords.load(folder) if (folder / KNOWN_WORDS).exists() else None


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


def has_weights(folder: Path) -> bool:
    """Whether a run has taken steps that its folder keeps."""
    models = any((folder / name).exists() for name in MODELS)
    return models or any((folder / "checkpoints").glob("step-*"))


def begin_anew(folder: Path) -> None:
    """Drops what was made of another config or corpus, before the first checkpoint."""
    for name in _MADE:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def unwritable(folder: Path, error: OSError) -> InputError:
    """The error of a folder that cannot be written."""
    return InputError(
        f"cannot write the run folder {folder}: {error.strerror}; choose another output"
    )
