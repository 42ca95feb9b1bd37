"""Modules that a person names: with `--import`, or in a run config.

No name that a model folder, a run folder or a checkpoint holds comes here: importing a
module runs its code.
"""

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from keras_transformer.errors import InputError


def import_module(name: str, where: str) -> ModuleType:
    """The module of a name, from the working directory or where Python finds others.

    Args:
        name: such as `my_layers` or `my_package.layers`.
        where: what named it, for messages, such as `--import`.

    Raises:
        InputError: where there is none, or its code fails.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        raise InputError(
            f"{where}: {name!r} is no name of a module; give one such as my_layers, "
            f"without folder and .py"
        )
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)  # last: a file there hides no library
    try:
        return importlib.import_module(name)
    except InputError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise InputError(
                f"{where}: there is no module {name}, neither in {folder} nor among "
                f"the installed ones; check the name, or go to its folder"
            ) from None
        frames = traceback.extract_tb(error.__traceback__)
        raise InputError(
            f"{where}: the module {name} fails with {type(error).__name__}: {error} "
            f"({frames[-1].filename}, line {frames[-1].lineno}); mend it there"
        ) from error


def named(path: str, where: str) -> Any:
    """What `module:name` stands for.

    Args:
        path: the module, a colon, and a name in it.
        where: the key that named it, for messages.

    Raises:
        InputError: where there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    module = import_module(module_name, where)
    try:
        return getattr(module, name)
    except AttributeError:
        raise InputError(
            f"{where}: the module {module_name} ({module.__file__}) has no {name}; "
            f"check the name"
        ) from None


def named_function(path: str, where: str, returned: str) -> Callable[..., Any]:
    """The function that `module:name` stands for.

    Args:
        path: see `named`.
        where: the key that named it, for messages.
        returned: what the function returns, for messages.

    Raises:
        InputError: where there is no such module or name, or it is no function.
    """
    found = named(path, where)
    if isinstance(found, type):
        raise InputError(
            f"{where}: {path} is a class; name a function that takes the run's config "
            f"and returns {returned} of this class"
        )
    if not callable(found):
        raise InputError(
            f"{where}: {path} is {type(found).__name__}, not a function; name a "
            f"function that takes the run's config and returns {returned}"
        )
    function: Callable[..., Any] = found
    return function
