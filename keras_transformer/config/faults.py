"""Validation errors of pydantic as one sentence for a person."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any

import pydantic

_LONGEST = 300  # characters of what somebody wrote, in a message


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
    fault, *others = error.errors()
    keys, fields = _place(fault["loc"], model)
    path = ".".join([where, *keys]).strip(".")
    if fault["type"] == "extra_forbidden":
        key = str(fault["loc"][-1])[:_LONGEST]
        path, near = f"{path}.{key}".strip("."), nearest(key, fields)
        return f"unknown key {path}; did you mean {near!r}?"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "model_type":
        return f"{path}: expected keys with values, got {_shown(fault['input'])}"
    if fault["type"] == "value_error":
        return f"{path}: {fault['ctx']['error']}".removeprefix(": ")
    # Of a value that may be of several types, each has its fault.
    also = [f["msg"] for f in others if _place(f["loc"], model)[0] == keys]
    expected = " or ".join([fault["msg"], *also]).replace(" or Input should be", " or")
    return f"{path}: {expected}, got {_shown(fault['input'])}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of `names` that looks most like `name`."""
    import difflib  # for mistakes alone

    # A stranger's name may be a megabyte.
    return difflib.get_close_matches(name[:_LONGEST], names, n=1, cutoff=0.0)[0]


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
    fields = getattr(annotation, "model_fields", {})
    for part in typing.get_args(annotation):
        fields = fields or _fields(part)
    return fields
