"""Conversion of a model of another toolkit into a model folder."""

from __future__ import annotations

from pathlib import Path

from keras_transformer.importing import checks
from keras_transformer.importing.card import import_card
from keras_transformer.importing.families import family_of
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.report import ImportReport
from keras_transformer.importing.source import Source


def inspect(source: str | Path) -> ImportReport:
    """What `convert` would write, without writing it, and without Keras.

    Args:
        source: as `convert` takes it.

    Raises:
        InputError: as `convert` does.

    Example:
        ```python
        print(kt.importing.inspect("opus-mt-en-de"))
        ```
    """
    found = Source(source)
    family = family_of(found)
    with family.open_weights(found) as tensors:
        model = _checked(family.read(found, tensors), tensors)
        return _report(found, model, None)


def convert(source: str | Path, folder: str | Path) -> ImportReport:
    """Writes a model of another toolkit as a model folder of this package.

    Weights go over one tensor at a time, as float32.

    Args:
        source: a folder, or a file of weights beside which the others lie.
        folder: the model folder to write; an older one of that name is replaced.

    Returns:
        What was found: family, weights, languages, licence, what was left out.

    Raises:
        InputError: where it is of no family that can be imported, a file is missing,
            damaged or declares more than it holds, a tensor is missing, fits nowhere or
            is not used, or the folder cannot be written.

    Example:
        ```python
        report = kt.importing.convert("opus-mt-en-de", "models/en-de")
        translator = kt.Translator.load(report.folder)
        ```
    """
    from keras_transformer import model_folder  # and with it Keras
    from keras_transformer.models.kinds import weight_shapes

    found = Source(source)
    family = family_of(found)
    with family.open_weights(found) as tensors:
        model = _checked(family.read(found, tensors), tensors)
        shapes = weight_shapes(model.config)
        checks.check_shapes(model, tensors, shapes)
        checks.check_ties(model, tensors)
        report = _report(found, model, Path(folder))
        contents = model_folder.Contents(
            model_folder.Weights(model.config, checks.CheckedWeights(model, tensors)),
            model.source_tokenizer,
            model.target_tokenizer,
            model.decoding,
            languages=model.languages,
        )
        model_folder.write(folder, contents, import_card(report))
    return report


def _checked(model: ForeignModel, tensors: TensorFile) -> ForeignModel:
    """The model, after the checks that need neither Keras nor numbers."""
    checks.check_names(model, tensors)
    checks.check_sizes(model, tensors)
    tokenizers = {"source": model.source_tokenizer, "target": model.target_tokenizer}
    for side, tokenizer in tokenizers.items():
        size = getattr(model.config, f"{side}_vocabulary_size")
        where = f"{tensors.path}, {side}"
        tokenizer.check(vocabulary_size=size, where=where, **model.config.special_ids)
    return model


def _report(source: Source, model: ForeignModel, folder: Path | None) -> ImportReport:
    return ImportReport(
        source=source.path,
        folder=folder,
        family=model.family,
        num_weights=model.config.num_weights,
        languages=tuple(model.languages.codes) if model.languages else (),
        licence=model.licence or source.licence,
        left_out=model.left_out,
    )
