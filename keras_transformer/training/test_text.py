"""The references of the test text of a run, read from what its config names."""

from __future__ import annotations

from pathlib import Path

import pydantic

from keras_transformer.config.faults import first_fault
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.training.config import DataSection
from keras_transformer.training.config import strict_yaml
from keras_transformer.training.corpora import changes
from keras_transformer.training.corpora import read_test
from keras_transformer.training.corpora import test_records
from keras_transformer.training.run_folder import read_corpus


def references(folder: Path) -> list[str]:
    """The target lines of the test text of a run folder.

    Of its config only the section `data` is read: what the model is, is not asked.

    Raises:
        InputError: where the folder is of no run, has no test text, or it is gone or
            has changed since the run began.
    """
    path = plain_file(folder, "config.yaml", MOST_BYTES)
    try:
        document = strict_yaml.parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError):
        raise InputError(
            f"cannot read {path}; give the folder of a run, or --reference"
        ) from None
    section = document.get("data") if isinstance(document, dict) else None
    try:
        data = DataSection.model_validate(section)
    except pydantic.ValidationError as error:
        fault = first_fault(error, DataSection, "data")
        raise InputError(f"{path}: {fault}") from None
    if (text := read_test(data)) is None:
        raise InputError(f"{path} has no data.test; give --reference")
    recorded = read_corpus(folder).get("test", [])
    current = test_records(data)
    if lines := changes({"test": recorded}, {"test": current}):
        raise InputError(
            f"{folder} was tested on another text ({'; '.join(lines)}); go back to "
            f"that text"
        )
    return text.target
