"""Validation errors of pydantic as one sentence for a person."""

from __future__ import annotations

import typing
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

import pydantic

from keras_transformer.config.synonyms import SYNONYMS
from keras_transformer.errors import InputError

Validated = TypeVar("Validated", bound=pydantic.BaseModel)

_ALIKE = 0.55  # from 0, nothing in common, to 1
_LONGEST = 300  # characters of what somebody wrote, in a message


def validated(model: type[Validated], fields: Any, where: str = "") -> Validated:
    """An object of these fields, with one clear sentence where one of them is wrong.

    Args:
        model: its class.
        fields: by name.
        where: what the message begins with, such as a section; "" for nothing.

    Raises:
        InputError: naming the first fault.
    """
    try:
        return model.model_validate(fields)
    except pydantic.ValidationError as error:
        raise InputError(first_fault(error, model, where)) from None


def first_fault(
    error: pydantic.ValidationError, model: type[pydantic.BaseModel], where: str
) -> str:
    """One sentence for the first fault that pydantic found.

    Names the key with its path below `where`, and for an unknown key the nearest
    right one.

    Args:
        error: what pydantic raised.
        model: the class that was validated.
        where: what the path begins with, such as a file or a section; "" for nothing.
    """
    faults = error.errors()
    # A misspelt key is why another one is missing.
    fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
    keys, fields = _place(fault["loc"], model)
    path = ".".join([where, *keys]).strip(".")
    if fault["type"] == "extra_forbidden":
        key = str(fault["loc"][-1])[:_LONGEST]
        path = f"{path}.{key}".strip(".")
        return f"unknown key {path}; {suggestion(key, fields, keys, places(model))}"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "model_type":
        return f"{path}: expected keys with values, got {shown(fault['input'])}"
    if fault["type"] == "value_error":
        return f"{path}: {fault['ctx']['error']}".removeprefix(": ")
    # Of a value that may be of several types, each has its fault.
    also = [_said(f) for f in faults if _place(f["loc"], model)[0] == keys]
    expected = " or ".join(also).replace(" or Input should be", " or")
    return f"{path}: {expected}, got {shown(fault['input'])}"


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _said(fault: Any) -> str:
    """The sentence of a fault, without pydantic's prefix."""
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    return fault["msg"].replace("a valid tuple", "a list")  # as YAML calls it


#: What the key counts that other toolkits count otherwise.
_UNITS = {
    **dict.fromkeys(
        ("epochs", "num_epochs", "max_epochs", "max_epoch"),
        " It counts batches; the log says how many an epoch has",
    ),
    **dict.fromkeys(("batch_size", "batch"), " It counts tokens, not sentences"),
}


def suggestion(
    key: str,
    fields: Collection[str],
    section: Sequence[str] = (),
    elsewhere: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """What to write in place of an unknown key, as the end of a sentence.

    Args:
        key: as it was written.
        fields: the keys that are known there.
        section: the keys of the place.
        elsewhere: of a run config, the paths at which each key is known; a key of
            another section is suggested with its path.
    """
    word = key[:_LONGEST].strip().lower().replace("-", "_")
    meant = SYNONYMS.get(word, "")
    name, unit = meant.rpartition(".")[2], _UNITS.get(word, "")
    if name in fields and (not section or meant.startswith(f"{section[0]}.")):
        return f"did you mean {name!r}?{unit}"
    others = [*elsewhere.get(word, ())] if elsewhere else []
    if others:
        return f"that key belongs elsewhere: did you mean {' or '.join(others)}?"
    if meant and elsewhere:
        return f"did you mean {meant}?{unit}"
    if close := _close(word, fields):
        return f"did you mean {close!r}?"
    return f"the keys there are {', '.join(fields)}"


def _close(word: str, names: Iterable[str]) -> str:
    """The name that looks most like a word; "" where none does."""
    import difflib  # for mistakes alone

    found = difflib.get_close_matches(word, names, n=1, cutoff=_ALIKE)
    return found[0] if found else ""


def places(
    model: type[pydantic.BaseModel], prefix: str = ""
) -> dict[str, list[str]] | None:
    """The paths of each key of a run config; None for any other class.

    Args:
        model: the class.
        prefix: of the paths; "" for a run config as a whole.
    """
    if not prefix and not {"training", "data"} <= model.model_fields.keys():
        return None
    found: dict[str, list[str]] = {}
    for name, field in model.model_fields.items():
        below = _model_in(field.annotation)
        if prefix:
            found.setdefault(name, []).append(prefix + name)
        if below is not None and below.model_fields:
            many = "[]" if typing.get_origin(field.annotation) is tuple else ""
            inner = places(below, f"{prefix}{name}{many}.") or {}
            for key, paths in inner.items():
                found.setdefault(key, []).extend(paths)
    return found


def _place(
    parts: tuple[str | int, ...], model: type[pydantic.BaseModel]
) -> tuple[list[str], dict[str, Any]]:
    """The keys of the place of a fault, and the fields that the last of them has."""
    keys: list[str] = []
    fields: dict[str, Any] = model.model_fields
    for part in parts:
        if isinstance(part, str) and part in fields:
            fields = _fields(fields[part].annotation) or fields
        elif not isinstance(part, int):  # which counts the items of a list
            break  # an unknown key, or one of the types that a value may have
        keys.append(str(part))
    return keys, fields


def _fields(annotation: Any) -> dict[str, Any]:
    """The fields of the model in an annotation such as `list[Model] | None`."""
    return getattr(_model_in(annotation), "model_fields", {})


def _model_in(annotation: Any) -> type[pydantic.BaseModel] | None:
    if getattr(annotation, "model_fields", None):
        return annotation
    found = map(_model_in, typing.get_args(annotation))
    return next(filter(None, found), None)
