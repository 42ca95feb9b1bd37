"""Run folders: the files of a run, and checks that they have not changed.

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
from keras_transformer.config.about import LONGEST_NAME
from keras_transformer.config.about import LONGEST_TEXT
from keras_transformer.config.about import About
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import alike
from keras_transformer.data.columns import FORMATS
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.language_tags import tagged_languages
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import write_whole
from keras_transformer.folder_config import digest_of
from keras_transformer.folder_config import read_config
from keras_transformer.training import batch_rule
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config.data_section import DataSection
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import Fingerprint
from keras_transformer.training.corpora import changes
from keras_transformer.training.run_state import newest_state

_CORPUS = "corpus.json"
_BATCH_TOKENS = "batch_tokens"
_LANGUAGES = "languages.json"
_TEACHER = "teacher.sha256"
_ORIGIN = "origin.sha256"
#: The cache of the encoded text; also the key of its digest in a `State`.
ENCODED = "encoded"
MODELS = ("best", "averaged")
#: Files made from the config and the texts before the first checkpoint.
_MADE = (
    *(_CORPUS, batch_rule.FILE, _BATCH_TOKENS, _LANGUAGES, _TEACHER, _ORIGIN),
    *TOKENIZER_FILES,
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
    """Records the texts when a run begins; refuses changed texts afterwards.

    A run without a checkpoint may change its corpus: its files are removed.

    Raises:
        InputError: where a text has changed and there is a checkpoint.
    """
    if (folder / _CORPUS).exists():
        recorded = read_corpus(folder)
        current = corpora.fingerprint(recorded)
        lines = changes(recorded, current)
        if lines and has_weights(folder):
            raise _other_corpus(folder, lines)
        if current == recorded:
            return
        if lines:
            begin_anew(folder)
    else:
        current = corpora.fingerprint()
    write(folder / _CORPUS, json.dumps(current, indent=2) + "\n")


def check_corpus(folder: Path, corpora: Corpora) -> None:
    """Refuses texts that differ from the record of `keep_corpus`.

    Raises:
        InputError: naming the files that differ; where the folder is not that of the
            first process.
    """
    if not (folder / _CORPUS).exists():
        raise InputError(
            f"{folder} lacks {_CORPUS}, which the first process wrote; give all "
            f"processes the same folder, on a disk that all hosts share"
        )
    recorded = read_corpus(folder)
    if lines := changes(recorded, corpora.fingerprint(recorded)):
        raise _other_corpus(folder, lines)


def _other_corpus(folder: Path, lines: list[str]) -> InputError:
    return InputError(
        f"{folder} was begun with another corpus ({'; '.join(lines)}); choose another "
        f"output, or go back to that corpus"
    )


def read_corpus(folder: Path) -> Fingerprint:
    """The records of the texts of a run, as `keep_corpus` wrote them.

    Raises:
        InputError: where they are missing or damaged.
    """
    path = plain_file(folder, _CORPUS, MOST_BYTES)
    try:
        records = _RECORDS.validate_json(path.read_bytes(), strict=True)
    except (OSError, pydantic.ValidationError):
        raise InputError(
            f"{path} is damaged: it has no valid record of each text; copy it again, "
            "or choose another output"
        ) from None
    return {
        part: list(map(dataclasses.asdict, files)) for part, files in records.items()
    }


def file_digests(folder: Path) -> dict[str, str]:
    """`{name: SHA-256}` of the files that a resumed training reads besides checkpoints.

    For `corpus.json` it is the digest of the texts' content, whatever their paths.
    """
    digests = {
        name: sha256_of(plain_file(folder, name, MOST_BYTES))
        for name in (*TOKENIZER_FILES, _BATCH_TOKENS, _LANGUAGES)
        if (folder / name).exists()
    }
    content = [
        [part, file["size"], file["sha256"]]
        for part, files in sorted(read_corpus(folder).items())
        for file in files
    ]
    digests[_CORPUS] = sha256_of_json(content)
    return digests


def check_files(folder: Path) -> None:
    """Refuses files that differ from those of the newest checkpoint.

    Runs without checkpoints, or of earlier versions, are not checked.

    Raises:
        InputError: naming the file.
    """
    state = newest_state(folder)
    if state is None or state.files is None:
        return
    digests = file_digests(folder)
    for name, digest in state.files.items():
        if name == ENCODED:
            continue
        if name not in digests:
            raise InputError(
                f"{folder / name} is missing; copy it again, or choose another output"
            )
        if digests[name] != digest:
            raise InputError(
                f"{folder / name} is not the one that the checkpoints of the run were "
                f"trained with, or is damaged; copy it again, or choose another output"
            )


def batch_tokens(
    folder: Path,
    config: RunConfig,
    distribution: Distribution,
    find: Callable[[], int],
) -> int:
    """`data.batch_tokens`; for "auto", measured once and stored.

    Args:
        folder: the run folder.
        config: the config of the run.
        distribution: all its processes use the smallest value that any of them finds.
        find: a function that measures it.
    """
    if config.data.batch_tokens != "auto":
        return config.data.batch_tokens
    path = folder / _BATCH_TOKENS
    # All processes read before any writes: they measure it together, or none does.
    if not distribution.any(not path.exists()):
        return _read_number(plain_file(folder, _BATCH_TOKENS, MOST_BYTES))
    tokens = -int(distribution.max(-find()))
    if distribution.is_chief:
        write(path, f"{tokens}\n")
    return tokens


def keep_known_words(config: RunConfig, corpora: Corpora) -> KnownWords | None:
    """The words that the model of a run learns, stored in its folder.

    None where the texts are not a closed language, or `model.folder` has learned
    others.

    Args:
        config: the config of the run.
        corpora: the texts that the run began with.
    """
    folder, origin = config.output, config.model.get("folder")
    if (folder / KNOWN_WORDS).exists():
        return known_words(folder)
    words = corpora.known_words()
    if words is None:
        return None
    if origin and not (
        Path(origin).exists() and read_config(Path(origin)).has_known_words
    ):
        return None
    write(folder / KNOWN_WORDS, words.to_json())
    return words


def known_words(folder: Path) -> KnownWords | None:
    """The words stored by `keep_known_words`; None also in runs of earlier versions.

    Raises:
        InputError: where the file is damaged.
    """
    return KnownWords.load(folder) if (folder / KNOWN_WORDS).exists() else None


def about(config: RunConfig) -> About:
    """What the model folders of a run tell of their model.

    What the config leaves out is the name of the run folder, the files or the
    phrasebook that it learns from, and their languages, where they or `model.folder`
    tell them.

    Args:
        config: the config of the run.
    """
    data, origin = config.data, config.model.get("folder")
    pairs: set[tuple[str | None, ...]]
    pairs = {(c.source_language, c.target_language) for c in data.train or ()}
    text = "the files " + ", ".join(dict.fromkeys(_names(data)))
    if data.phrasebook is not None:
        pairs = {tuple(data.phrasebook.split("-"))}
        text = f"the embedded phrasebook, {data.phrasebook}"
    codes = next(iter(pairs)) if len(pairs) == 1 else (None, None)
    source, target = (code and _shown(code, LONGEST_NAME) for code in codes)
    found = About(
        name=_shown(config.output.name, LONGEST_NAME) or None,
        source_language=source,
        target_language=target,
        training_text=_shown(text, LONGEST_TEXT),
    )
    known = config.about.filled(found)
    if origin and Path(origin).exists():
        before = read_config(Path(origin)).about
        languages = before.model_dump(include={"source_language", "target_language"})
        known = known.filled(About(**languages))
    return known


def _names(data: DataSection) -> list[str]:
    """The names of the files and folders of the training text."""
    return [
        path.name
        for corpus in data.train or ()
        for paths in (
            *(getattr(corpus, field) for field in ("source", "target", *FORMATS)),
            corpus.manifest and (corpus.manifest,),
        )
        for path in paths or ()
    ]


def _shown(text: str, longest: int) -> str:
    """A text on one line, cut where it is longer than may be kept."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def keep_languages(config: RunConfig, tokenizer: Tokenizer) -> Languages | None:
    """The languages that the model of a run is told, stored in its folder.

    Those of `model.folder`, or those that the corpora of the training name.

    Args:
        config: the config of the run.
        tokenizer: of the source.

    Raises:
        InputError: where the model has no languages but a corpus has, or the tokenizer
            lacks the tag of one.
    """
    if (known := languages(config.output)) is not None:
        return known
    origin, new = config.model.get("folder"), None
    if origin and Path(origin).exists():
        new = read_config(Path(origin)).languages
        if new is None and config.data.has_languages:
            raise InputError(
                f"model.folder {origin} has no languages; remove source_language and "
                f"target_language from data.train, or choose a multilingual model"
            )
    elif config.data.has_languages:
        pairs = [
            (corpus.source_language, corpus.target_language)
            for corpus in config.data.train or ()
            if corpus.source_language and corpus.target_language
        ]
        new = tagged_languages(pairs, tokenizer, config.model["source_end"])
    if new is not None:
        write(config.output / _LANGUAGES, new.model_dump_json(indent=1) + "\n")
    return new


def languages(folder: Path) -> Languages | None:
    """The languages stored by `keep_languages`; None where there are none.

    Raises:
        InputError: where the file is damaged.
    """
    if not (folder / _LANGUAGES).exists():
        return None
    path = plain_file(folder, _LANGUAGES, MOST_BYTES)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError):
        raise InputError(
            f"{path} is damaged; copy it again, or choose another output"
        ) from None
    return Languages.of(fields, str(path))


def keep_origin(config: RunConfig) -> None:
    """Records the trained model of `model.folder` when a run begins with it."""
    origin = config.model.get("folder")
    if origin and not has_weights(config.output):
        write(config.output / _ORIGIN, digest_of(Path(origin)) + "\n")


def without_moved_origin(config: RunConfig, differences: list[str]) -> list[str]:
    """Those lines of `config.difference` that change a run, wherever its origin lies.

    Args:
        config: the config of the run now.
        differences: the lines.
    """
    others = [line for line in differences if not line.startswith("model.folder: ")]
    origin, path = config.model.get("folder"), config.output / _ORIGIN
    if others == differences or not origin:
        return differences  # nothing of it has moved
    if not (Path(origin).exists() and path.exists()):
        return differences
    if not _is_of(Path(origin), plain_file(config.output, _ORIGIN, MOST_BYTES)):
        return differences
    return others


def keep_teacher(config: RunConfig, own_languages: Languages | None) -> None:
    """Records the teacher of a run when it begins; refuses another one afterwards.

    Args:
        config: the config of the run.
        own_languages: the languages that the run's model is told.

    Raises:
        InputError: where the teacher is no model folder, is told other languages, or
            has changed.
    """
    distillation = config.training.distillation
    if distillation is None:
        return
    if not alike(read_config(distillation.teacher).languages, own_languages):
        raise InputError(
            f"training.distillation.teacher {distillation.teacher} is told its "
            f"languages in another way than the model of this run, so it would read "
            f"other sources; name the same languages in data.train, or let the teacher "
            f"translate the text (keras-transformer distill)"
        )
    path = plain_file(config.output, _TEACHER, MOST_BYTES)
    if not (path.exists() and has_weights(config.output)):
        write(path, digest_of(distillation.teacher) + "\n")
    elif not _is_of(distillation.teacher, path):
        raise InputError(
            f"{config.output} was begun with another teacher than "
            f"{distillation.teacher} is now; choose another output, or go back to that "
            f"teacher"
        )


def _is_of(model: Path, path: Path) -> bool:
    """Whether a file has the digest of a model folder, or that of a version before."""
    recorded = path.read_bytes().strip().decode(errors="replace")
    return any(recorded == digest_of(model, before) for before in (False, True))


def check_encoded(folder: Path, digest: str | None) -> None:
    """Refuses encoded text that differs from that of the newest checkpoint.

    Args:
        folder: the run folder.
        digest: the digest of the ids; None where not known.

    Raises:
        InputError: where the checkpoint has another digest.
    """
    state = newest_state(folder)
    recorded = state.files.get(ENCODED) if state and state.files else None
    if digest and recorded and digest != recorded:
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
            f"{path} is damaged: it is not a number of tokens; copy it again, or "
            "choose another output"
        )
    return number


def has_weights(folder: Path) -> bool:
    """Whether a run folder has a checkpoint of a step."""
    models = any((folder / name).exists() for name in MODELS)
    return models or any((folder / "checkpoints").glob("step-*"))


def begin_anew(folder: Path) -> None:
    """Removes files of another config or corpus, before the first checkpoint."""
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
