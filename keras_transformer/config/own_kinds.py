"""Kinds of models that are not of this package, by the name `module.Class`.

A module that was imported before is looked into; none is imported here, because the
name may come from a stranger's folder.
"""

from __future__ import annotations

import sys
from typing import Any

from keras_transformer.config.translation import TranslationConfig

_PACKAGE = __name__.partition(".")[0]


def module_of(kind: Any) -> str | None:
    """The module of a kind `module.Class`; None where it has not that form."""
    if not isinstance(kind, str):
        return None
    *parts, name = kind.split(".")
    is_name = parts and all(part.isidentifier() for part in (*parts, name))
    return ".".join(parts) if is_name and parts[0] != _PACKAGE else None


def loaded(name: Any) -> Any:
    """What `module.Class` stands for in a module that is loaded; else None."""
    module = sys.modules.get(module_of(name) or "")
    return vars(module).get(name.rpartition(".")[2]) if module else None


def not_loaded(name: str, module: str) -> str:
    """What is wrong with a class of a module that is not loaded."""
    return (
        f"{name[:100]!r} is a class of a module that is not loaded; if you trust it, "
        f"give --import {module[:100]} (in Python: import it first)"
    )


def own_class(kind: Any) -> Any:
    """The model class of a kind `module.Class`; None where none is loaded.

    It has a `config_class`, as every model class of this package.
    """
    found = loaded(kind)
    config_class: Any = getattr(found, "config_class", None)
    is_model = isinstance(found, type) and isinstance(config_class, type)
    return found if is_model and issubclass(config_class, TranslationConfig) else None


def unknown_kind(kind: Any, known: str) -> str:
    """What is wrong with a kind that is neither of this package nor loaded.

    Args:
        kind: as it was given.
        known: the kinds of this package, for the message.
    """
    module = module_of(kind)
    if module is None:
        return (
            f"{repr(kind)[:100]} is not available; use {known}, or a class of your "
            f"own as module.Class"
        )
    if module in sys.modules:
        return f"the module {module[:100]} has no model class {kind[:100]!r}"
    return not_loaded(kind, module)
