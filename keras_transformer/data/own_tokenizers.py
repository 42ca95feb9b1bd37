"""Tokenizer classes that are not of this package, by the name `module.Class`.

The file of such a tokenizer begins with a line of this name; what is left is the file
of a `Tokenizer`. A module that was imported before is looked into; none is imported
here, because the file may come from a stranger.
"""

import sys
from typing import Any

from keras_transformer.config.own_kinds import loaded
from keras_transformer.config.own_kinds import module_of
from keras_transformer.config.own_kinds import not_loaded
from keras_transformer.errors import InputError

_BEGINNING = b"keras-transformer tokenizer "
_LONGEST_NAME = 200


def with_name(name: str, model: bytes) -> bytes:
    """The file of a tokenizer of the class `name`."""
    return _BEGINNING + name.encode() + b"\n" + model


def without_name(content: bytes) -> tuple[str | None, bytes]:
    """The name of the class, None for `Tokenizer` itself, and the rest of a file.

    Raises:
        InputError: where the line is cut off, or names no class.
    """
    if not content.startswith(_BEGINNING):
        return None, content
    line, end, model = content.partition(b"\n")
    name = line.removeprefix(_BEGINNING).decode(errors="replace")
    if not end or len(name) > _LONGEST_NAME or module_of(name) is None:
        raise InputError(
            "the tokenizer has a first line that names no class; copy it again"
        )
    return name, model


def loaded_class(name: str, of: type) -> Any:
    """The class `name`, a subclass of `of`.

    Raises:
        InputError: where its module is not loaded, or has no such class.
    """
    module = module_of(name)
    if module is None:
        raise InputError(
            f"{name!r} is no class of your own; give a subclass of "
            f"keras_transformer.data.{of.__name__} as module.Class"
        )
    if module not in sys.modules:
        raise InputError(not_loaded(name, module))
    found = loaded(name)
    if not (isinstance(found, type) and issubclass(found, of)):
        raise InputError(
            f"the module {module} has no subclass of keras_transformer.data."
            f"{of.__name__} that is called {name!r}"
        )
    return found


def name_of(kind: type, of: type) -> str | None:
    """The name of a class; None where it is `of` itself.

    Raises:
        InputError: where it cannot be found by its name.
    """
    if kind is of:
        return None
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind.__module__ == "__main__" or loaded(name) is not kind:
        raise InputError(
            f"a tokenizer file holds the name of the class, and {kind.__name__} cannot "
            f"be imported by the name {name}; define it at the top of a module of its "
            f"own"
        )
    return name
