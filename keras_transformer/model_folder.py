"""The model folder: all that is needed to translate, on any backend.

`config.json`, `model.weights.h5`, `tokenizer.model` (or `source.model` and
`target.model`) and `README.md`. Reading one unpickles and runs nothing.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from typing import NamedTuple

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.models.weights import load_weights
from keras_transformer.models.weights import save_weights

FORMAT_VERSION = 1
KINDS = {"transformer": Transformer}
_TOKENIZERS = ("tokenizer.model", "source.model", "target.model")


class Contents(NamedTuple):
    """What a model folder holds."""

    model: Transformer
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    decoding: dict[str, Any]  # beam_size, length_penalty


def write(folder: str | Path, contents: Contents, card: str) -> None:
    """Writes a model folder under a temporary name and renames it.

    Raises:
        InputError: where the folder holds something else, or cannot be written.
    """
    folder = Path(folder)
    replaced = _is_model_folder(folder)
    new = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        new.chmod(0o755)
        _write_files(new, contents, card)
        if replaced:
            old = new.with_name(f"{new.name}.old")
            folder.rename(old)
            new.rename(folder)
            shutil.rmtree(old)
        else:
            new.rename(folder)  # onto nothing, or onto an empty folder
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}; choose another folder"
        ) from None
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)


def read(folder: str | Path) -> Contents:
    """Reads what `write` wrote.

    Raises:
        InputError: where a file is missing, cut off or foreign.
    """
    folder = Path(folder)
    path = folder / "config.json"
    config = read_config(folder)
    try:
        kind = KINDS[config["kind"]]
        names = [config["tokenizer"][side] for side in ("source", "target")]
        decoding = {
            "beam_size": int(config["decoding"]["beam_size"]),
            "length_penalty": float(config["decoding"]["length_penalty"]),
        }
        fields = dict(config["model"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} lacks or misspells {error}; copy the model folder again"
        ) from None
    for name in names:
        if name not in _TOKENIZERS:
            raise InputError(
                f"{path} names the tokenizer {name!r}, which no model folder has; copy "
                f"the model folder again"
            )
    try:
        model_config = kind.config_class.from_dict(fields)
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None
    tokenizers = [Tokenizer.load(folder / name) for name in names]
    model = kind(model_config)
    load_weights(model, folder / "model.weights.h5")
    return Contents(model, *tokenizers, decoding)


def read_config(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model folder of this format.

    Raises:
        InputError: where it is missing or foreign.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{folder} is not a model folder: cannot read {path.name} "
            f"({error.strerror}); give the folder that training wrote"
        ) from None
    except ValueError:
        raise InputError(f"{path} is not JSON, or is cut off; copy it again") from None
    version = config.get("format_version") if isinstance(config, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path} has format_version {version!r}, but this version reads "
            f"{FORMAT_VERSION}; update keras-transformer, or check the folder"
        )
    return config


def _write_files(folder: Path, contents: Contents, card: str) -> None:
    source, target = contents.source_tokenizer, contents.target_tokenizer
    shared = source.model == target.model
    names = _TOKENIZERS[:1] * 2 if shared else _TOKENIZERS[1:]
    source.save(folder / names[0])
    target.save(folder / names[1])
    save_weights(contents.model, folder / "model.weights.h5")
    config = {
        "format_version": FORMAT_VERSION,
        "kind": "transformer",
        "model": contents.model.config.model_dump(),
        "tokenizer": {"source": names[0], "target": names[1]},
        "decoding": contents.decoding,
    }
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")


def _is_model_folder(folder: Path) -> bool:
    """True for a model folder, False for a new or empty one; others are refused."""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return False
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from None
    if (folder / "config.json").is_file() and (folder / "model.weights.h5").is_file():
        return True
    raise InputError(
        f"{folder} exists and is not a model folder; choose another name, or remove it"
    )
