"""Folders that this package exported to `transformers`: the model comes back.

Weights return bit for bit, or as `transformers` has trained them since; tokenizers,
options and languages are those of the export.
"""

from __future__ import annotations

import functools
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.config.transformers_layout import OWN_KEY
from keras_transformer.config.transformers_layout import Layout
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.tokenizer_bounds import load_within_bounds
from keras_transformer.errors import InputError
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import held
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.source import Source

FAMILY = "keras-transformer"
FORMAT_VERSION = 1
_SINUSOIDS = "model.*coder.embed_positions.weight"


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What such a folder holds.

    Raises:
        InputError: where a file is missing or damaged, or the folder is of a version
            that this one does not read.
    """
    own = source.config[OWN_KEY]
    path = source.folder / "config.json"
    version = own.get("format_version") if isinstance(own, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{path}: {OWN_KEY} has format_version {str(version)[:100]!r}, but this "
            f"version reads {FORMAT_VERSION}; update keras-transformer, or export the "
            f"model again"
        )
    layout = _layout(source, own, tensors)
    names = {
        place: held(place.tensors + place.others, tensors)
        for place in layout.placements
    }
    by_first = {place.tensors[0]: name for place, name in names.items()}
    if all(name in tensors.tensors for name in names.values()):
        layout = layout.of_file(lambda name: tensors.read(by_first[name]))
    zeros = [name for place, name in names.items() if not layout.is_own(place)]
    try:
        decoding = DecodingOptions.of(own.get("decoding") or {}, "decoding")
        languages = own.get("languages")
        languages = None if languages is None else Languages.of(languages)
        about = About.of(own.get("about") or {})  # exports of before have none
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {OWN_KEY}: {error}") from None
    config = layout.config
    if languages is not None:
        languages.check(config)
    sides = {
        "source": config.source_vocabulary_size,
        "target": config.target_vocabulary_size,
    }
    source_tokenizer, target_tokenizer = (
        load_within_bounds(
            source.folder,
            source.first(f"{side}.pieces") or f"{side}.spm",
            size,
        )
        for side, size in sides.items()
    )
    known_words = own.get("known_words") == KNOWN_WORDS
    return ForeignModel(
        family=FAMILY,
        config=config,
        weights={
            place.weight: Weight((name,), functools.partial(layout.to_ours, place))
            for place, name in names.items()
            if layout.is_own(place)
        },
        source_tokenizer=source_tokenizer,
        target_tokenizer=target_tokenizer,
        decoding=decoding,
        languages=languages,
        known_words=KnownWords.load(source.folder) if known_words else None,
        about=about,
        ignorable=(*zeros, *(() if _is_learned(config) else (_SINUSOIDS,))),
        equal=tuple(
            place.tensors + place.others
            for place in layout.placements
            if len(place.tensors + place.others) > 1
        ),
    )


def _layout(source: Source, own: dict[str, Any], tensors: TensorFile) -> Layout:
    path = source.folder / "config.json"
    kind, fields = own.get("kind"), own.get("model")
    if kind != TransformerConfig.kind or not isinstance(fields, dict):
        raise InputError(
            f"{path}: {OWN_KEY} holds no config of a transformer; export the model "
            f"again"
        )
    try:
        config = TransformerConfig.from_dict(fields)
        # Before anything of that size is made.
        sizes = [size for info in tensors.tensors.values() for size in info.shape]
        largest = max(sizes, default=0)
        if config.hidden_dim > largest:
            raise InputError(
                f"hidden_dim {config.hidden_dim} is more than any tensor has; use the "
                f"files that belong together"
            )
        layout = Layout(config)
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {OWN_KEY}: {error}") from None
    if layout.model_class.model_type != source.model_type:
        raise InputError(
            f"{path} has the model_type {str(source.model_type)[:100]!r}, but its "
            f"{OWN_KEY} is one of {layout.model_class.model_type}; export the model "
            f"again"
        )
    return layout


def _is_learned(config: TransformerConfig) -> bool:
    return config.position == "learned"
