"""Command line flags of decoding options, built from the table of options."""

import functools
import inspect
from collections.abc import Callable
from collections.abc import Collection
from inspect import Parameter
from typing import Annotated
from typing import Any

import typer

from keras_transformer.decoding_options import OPTIONS
from keras_transformer.decoding_options import Option
from keras_transformer.errors import InputError

#: The value that unsets an option that the model folder sets.
_NONE = "none"


def with_decoding_flags(
    command: Callable[..., None], names: Collection[str] = tuple(OPTIONS)
) -> Callable[..., None]:
    """Wraps a command: its parameter `decoding` holds the flags that were given.

    Args:
        command: has a parameter for each of its arguments, and `decoding`.
        names: the options that become flags; default: all.
    """

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in names}
        # A repeatable flag that is not given is an empty list.
        set_flags = {n: v for n, v in flags.items() if v is not None and v != []}
        decoding = {name: _unset(name, value) for name, value in set_flags.items()}
        _check(decoding)  # before the model loads, which takes long
        command(**arguments, decoding=decoding)

    flags = [_parameter(OPTIONS[name]) for name in names]
    parameters = inspect.signature(command).parameters.values()
    parameters = [p for p in parameters if p.name != "decoding"] + flags
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _parameter(option: Option) -> Parameter:
    kinds = [value for value in option.values if not isinstance(value, str | None)]
    kind: Any = kinds[0] if kinds else str
    if kind not in (bool, int, float, str):
        kind = list[str]
    shown = [v if isinstance(v, str) else option.letter for v in option.values if v]
    shown = list(dict.fromkeys(shown))  # a piece or its id is one
    metavar = "|".join([*shown, _NONE] if option.has_none else shown)
    parser = None
    if option.has_none and kind in (int, float):
        parser = functools.partial(_number, kind)
    flag = typer.Option(
        metavar=None if kind is bool else metavar,
        help=option.help + (" May be repeated." if kind == list[str] else ""),
        parser=parser,
    )
    annotation = Annotated[kind | None, flag]
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _number(kind: type, text: str) -> Any:
    try:
        return text if text == _NONE else kind(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a valid {kind.__name__}, and not none, which unsets it."
        ) from None


def _unset(name: str, value: Any) -> Any:
    """The value; for the word none, the value that unsets the option."""
    is_none = OPTIONS[name].has_none and value in (_NONE, [_NONE])
    return OPTIONS[name].default if is_none else value


def _check(decoding: dict[str, Any]) -> None:
    """Refuses values that are out of bounds."""
    if not decoding:
        return
    from keras_transformer.config.decoding import DecodingOptions

    for name, value in decoding.items():
        try:
            DecodingOptions.check_each({name: value})
        except InputError as error:
            flag = f"'--{name.replace('_', '-')}'"
            message = str(error).removeprefix(f"{name}: ")
            raise typer.BadParameter(message, param_hint=flag) from None
