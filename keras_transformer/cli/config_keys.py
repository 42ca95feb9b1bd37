"""The list of config keys of `keras-transformer train --keys`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from keras_transformer.cli import writing
from keras_transformer.config.synonyms import SYNONYMS
from keras_transformer.errors import InputError
from keras_transformer.training.config import json_schema


def print_keys(words: Sequence[str]) -> None:
    """Prints each key that goes with all words: path, default, and what it is.

    Args:
        words: parts of the key or of its description, or what others call it; none
            for all keys.

    Raises:
        InputError: where no key goes with them.
    """
    lowered = [word.lower().replace("-", "_") for word in words]
    meant = {SYNONYMS[word].split(".")[-1] for word in lowered if word in SYNONYMS}
    found = [
        (path, field)
        for path, field in _keys(json_schema())
        if path.split(".")[-1] in meant
        or all(word in f"{path} {field['description']}".lower() for word in lowered)
    ]
    if not found:
        raise InputError(
            f"no config key goes with {' '.join(words)}; give fewer or other words"
        )
    with writing.writer(None) as write:
        for path, field in found:
            default = field.get("default")
            shown = "" if default is None else f"  (default {default})"
            text = textwrap.fill(
                field["description"],
                84,
                initial_indent="    ",
                subsequent_indent="    ",
            )
            write(f"{path}{shown}\n{text}\n")


def _keys(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The path of each key, and its schema."""
    found: dict[str, dict[str, Any]] = {}
    for path, field in _below(schema, "", schema["$defs"]):
        found.setdefault(path, field)  # a field that several kinds of model have
    yield from found.items()


def _below(
    schema: dict[str, Any], prefix: str, definitions: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner = [*_objects(field, definitions)]
        if not inner:
            yield path, field
        is_list = any(form.get("type") == "array" for form in _forms(field))
        for one in inner:
            yield from _below(one, f"{path}[]." if is_list else f"{path}.", definitions)


def _forms(field: dict[str, Any]) -> list[dict[str, Any]]:
    return field.get("anyOf", [field])


def _objects(
    field: dict[str, Any], definitions: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """The objects with keys that a value may be, or be a list of."""
    for form in _forms(field):
        form = form.get("items", form)
        reference = form.get("$ref") or form.get("allOf", [{}])[0].get("$ref", "")
        form = definitions.get(reference.rpartition("/")[2], form)
        if "properties" in form:
            yield form
