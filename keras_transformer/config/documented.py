"""Base of configs whose fields are documented once, beside the field."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable
from typing import Any

import pydantic

_SECTION = re.compile(r"^(?:Raises|Example|Reference):", re.MULTILINE)


def with_arguments(docstring: str | None, arguments: Iterable[str]) -> str | None:
    """A class docstring with its `Args` before what follows them.

    Args:
        docstring: without `Args`; Python -OO has none.
        arguments: `"name: sentence."` each.
    """
    if docstring is None:
        return None
    text = inspect.cleandoc(docstring)
    section = _SECTION.search(text)
    place = section.start() if section else len(text)
    rows = [
        textwrap.fill(
            row,
            84,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        for row in arguments
    ]
    parts = text[:place].rstrip(), "\n".join(["Args:", *rows]), text[place:]
    return "\n\n".join(filter(None, parts))


def _describe(schema: dict[str, Any], model: type[Documented]) -> None:
    """Gives a JSON schema the sentences of the fields."""
    schema["description"] = (model.__doc__ or "").partition("\n")[0]
    for name, field in model.model_fields.items():
        if field.description:
            schema["properties"][field.alias or name]["description"] = field.description


class Documented(pydantic.BaseModel):
    """Frozen fields of exact types, each with a docstring; unknown keys are an error.

    The docstring of a field begins with the word of the literature for it. It is the
    field's `description`, goes into the JSON schema, and with the default into `Args`
    of the class docstring. A subclass inherits it, also where it gives a field another
    type or default, unless it writes its own.

    Example:

    >>> from keras_transformer import TransformerConfig
    >>> TransformerConfig.model_fields["end_id"].description
    "End token's id (EOS): it ends every target."
    """

    model_config = pydantic.ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        json_schema_extra=_describe,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        for name, field in cls.model_fields.items():
            field.description = _description(cls, name)
        if "__doc__" in vars(cls):
            cls.__doc__ = with_arguments(cls.__doc__, _arguments(cls))


def _description(model: type[pydantic.BaseModel], name: str) -> str | None:
    """The sentences of a field: the model's own, else those of its nearest base."""
    for base in model.__mro__:
        field = getattr(base, "model_fields", {}).get(name)
        if field is not None and field.description:
            return " ".join(field.description.split())
    return None


def _arguments(model: type[pydantic.BaseModel]) -> Iterable[str]:
    for name, field in model.model_fields.items():
        text = f"{name}: {field.description or ''}".removesuffix(".")
        default = field.default
        if not field.is_required() and not isinstance(default, pydantic.BaseModel):
            text += f" (default {default!r})"
        yield f"{text}."
