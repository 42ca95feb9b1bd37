"""Arguments of a layer's `call` by name, however they were given."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any


def by_name(
    call: Callable[..., Any], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> dict[str, Any]:
    """`{name: value}` of the arguments that were given.

    Args:
        call: the method of a class, whose parameters have the names.
        arguments: those without a name.
        options: those with one.
    """
    return dict(zip(_names(call), arguments, strict=False)) | dict(options)


@functools.cache
def _names(call: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(call).parameters)[1:]  # without self
