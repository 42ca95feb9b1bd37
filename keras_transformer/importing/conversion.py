"""Conversion of a model of another toolkit into a model folder."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from keras_transformer.config.languages import refuse_languages
from keras_transformer.errors import InputError
from keras_transformer.importing import argos
from keras_transformer.importing import checks
from keras_transformer.importing import hub
from keras_transformer.importing.card import import_card
from keras_transformer.importing.families import family_of
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.report import ImportReport
from keras_transformer.importing.source import Source


def inspect(
    source: str | Path,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    source_tokenizer: str | Path | None = None,
    target_tokenizer: str | Path | None = None,
) -> ImportReport:
    """What `convert` would write, without writing it, and without Keras.

    Args:
        source: as `convert` takes it, like the languages and tokenizers.
        source_language: a code.
        target_language: a code.
        source_tokenizer: a SentencePiece model.
        target_tokenizer: a SentencePiece model.

    Raises:
        InputError: as `convert` does.

    Example:
        ```python
        print(kt.importing.inspect("opus-mt-en-de"))
        ```
    """
    tokenizers = _given(source=source_tokenizer, target=target_tokenizer)
    languages = source_language, target_language
    with _opened(source, tokenizers, *languages) as (model, _, facts):
        return _report(model, facts)


def convert(
    source: str | Path,
    folder: str | Path,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    source_tokenizer: str | Path | None = None,
    target_tokenizer: str | Path | None = None,
) -> ImportReport:
    """Writes a model of another toolkit as a model folder of this package.

    Weights go over one tensor at a time, as float32.

    Args:
        source: a folder, or a file of weights beside which the others lie; or a name of
            the Hugging Face hub, where there is no such path and `huggingface_hub` is
            installed.
        folder: the model folder to write; an older one of that name is replaced.
        source_language: what a multilingual model translates from where nobody says
            another language.
        target_language: what it translates into in the same way.
        source_tokenizer: the SentencePiece model of the source, for a folder of
            CTranslate2, which mostly has none; in place of its own where it has one.
        target_tokenizer: that of the target; the source's, if left out, where both
            sides share a vocabulary.

    Returns:
        What was found: family, weights, languages, licence, what was left out.

    Raises:
        InputError: where it is of no family that can be imported, a file is missing,
            damaged or declares more than it holds, a tensor is missing, fits nowhere or
            is not used, a tokenizer is missing, does not fit or has no place, the
            folder cannot be written, or the model does not know a language.

    Example:
        ```python
        report = kt.importing.convert("opus-mt-en-de", "models/en-de")
        translator = kt.Translator.load(report.folder)
        ```
    """
    from keras_transformer import model_folder  # and with it Keras
    from keras_transformer.models.kinds import weight_shapes

    tokenizers = _given(source=source_tokenizer, target=target_tokenizer)
    languages = source_language, target_language
    with _opened(source, tokenizers, *languages) as (model, tensors, facts):
        checks.check_shapes(model, tensors, weight_shapes(model.config))
        checks.check_ties(model, tensors)
        report = _report(model, facts, Path(folder))
        contents = model_folder.Contents(
            model_folder.Weights(model.config, checks.CheckedWeights(model, tensors)),
            model.source_tokenizer,
            model.target_tokenizer,
            model.decoding,
            model.known_words,
            model.languages,
            model.about,
        )
        model_folder.write(folder, contents, import_card(report))
    return report


class _Facts(NamedTuple):
    """What is known of a source beside its model."""

    name: str
    licence: str | None
    left_out: tuple[str, ...]


@contextlib.contextmanager
def _opened(
    source: str | Path,
    tokenizers: Mapping[str, str | Path],
    source_language: str | None,
    target_language: str | None,
) -> Iterator[tuple[ForeignModel, TensorFile, _Facts]]:
    with hub.local(source) as path, argos.unpacked(path) as unpacked:
        found = Source(unpacked, tokenizers)
        family = family_of(found)
        if tokenizers and not family.takes_tokenizers:
            raise InputError(
                f"{path} has tokenizers of its own, as every model of {family.name}; "
                f"leave out {' and '.join(f'{side}_tokenizer' for side in tokenizers)}"
            )
        with family.open_weights(found) as tensors:
            model = _checked(family.read(found, tensors), tensors)
            languages = model.languages
            if languages is None:
                refuse_languages(source_language, target_language)
            else:
                chosen = languages.with_defaults(source_language, target_language)
                model = dataclasses.replace(model, languages=chosen)
            yield model, tensors, _Facts(str(source), found.licence, found.left_out)


def _given(**tokenizers: str | Path | None) -> dict[str, str | Path]:
    return {side: path for side, path in tokenizers.items() if path is not None}


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


def _report(
    model: ForeignModel, facts: _Facts, folder: Path | None = None
) -> ImportReport:
    return ImportReport(
        source=facts.name,
        folder=folder,
        family=model.family,
        num_weights=model.config.num_weights,
        languages=tuple(model.languages.codes) if model.languages else (),
        licence=model.licence or facts.licence,
        left_out=(*model.left_out, *facts.left_out),
    )
