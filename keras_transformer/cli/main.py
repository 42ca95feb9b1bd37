"""The program `keras-transformer`: its commands, with nothing heavy imported."""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated
from typing import Any

import typer
from typer.core import TyperCommand
from typer.core import TyperGroup

from keras_transformer import __version__
from keras_transformer.cli import allocator
from keras_transformer.cli import backend
from keras_transformer.cli import exit_codes
from keras_transformer.cli.attention import attention
from keras_transformer.cli.average import average
from keras_transformer.cli.backtranslate import backtranslate
from keras_transformer.cli.compare import compare
from keras_transformer.cli.compile import compile_
from keras_transformer.cli.distill import distill
from keras_transformer.cli.evaluate import evaluate
from keras_transformer.cli.export import export
from keras_transformer.cli.import_model import import_
from keras_transformer.cli.info import info
from keras_transformer.cli.score import score
from keras_transformer.cli.serve import serve
from keras_transformer.cli.train import train
from keras_transformer.cli.translate import translate
from keras_transformer.control_characters import escaped

#: In the order of the help.
COMMANDS = (train, translate, score, evaluate, compare, average)
COMMANDS += (distill, backtranslate)
COMMANDS += (import_, export, attention, info, compile_, serve)
_HELP = {"help_option_names": ["-h", "--help"]}


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"keras-transformer {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Train Transformers of 'Attention Is All You Need', and translate with them.

    The backend is KERAS_BACKEND (tensorflow, jax or torch), else the one that Keras is
    set to, else the first that is installed.

    Exit codes: 0 success, 2 bad input or arguments, 1 internal error, 130 ctrl-C, 143
    SIGTERM.
    """


class _Command(TyperCommand):
    """A command that refuses an option given twice, unless it takes a list.

    Without this, the last one silently wins.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses repeated options, then reads the arguments."""
        _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)


#: What the parser raises: typer has classes of its own, by version.
_ParserError: Any = typer.BadParameter.__mro__[2]


class _Group(TyperGroup):
    """The program itself: refuses repeated options too, and says faults in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuses repeated options, then reads the arguments."""
        _refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command, and ends with its exit code unless a program called it."""
        try:
            code = super().main(
                args, prog_name, complete_var, False, windows_expand_args, **extra
            )
        except _ParserError as error:
            if not standalone_mode:
                raise
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
            else:
                _say(error)
            sys.exit(error.exit_code)
        return sys.exit(code or 0) if standalone_mode else code


def _say(error: Any) -> None:
    command = error.ctx.command_path if error.ctx else "keras-transformer"
    text = " ".join(error.format_message().split()).removesuffix(".")
    text = text.replace("Value error, ", "")  # typer's own prefix of a choice
    print(escaped(f"error: {text}; see {command} --help"), file=sys.stderr)


def _refuse_repeated(command: Any, ctx: Any, args: list[str]) -> None:
    option_names = set()
    for parameter in command.make_parser(ctx).parse_args(args=list(args))[2]:
        if parameter.param_type_name != "option" or parameter.multiple:
            continue
        if parameter.name in option_names:
            names = " or ".join([*parameter.opts, *parameter.secondary_opts])
            ctx.fail(f"{names} is given more than once; give it once")
        option_names.add(parameter.name)


def application() -> typer.Typer:
    """The application with all commands, with plain messages and help."""
    app = typer.Typer(
        cls=_Group,
        callback=_options,
        no_args_is_help=True,
        context_settings=_HELP,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for command in COMMANDS:
        # `import` is no name that a function may have, and `compile` is Python's own.
        name = command.__name__.rstrip("_")
        app.command(name, cls=_Command, context_settings=_HELP)(command)
    return app


def main() -> None:
    """Runs the command of `sys.argv` and exits with its code."""
    os.environ.setdefault(allocator.RESTART, "allowed")
    if isinstance(sys.stdout, io.TextIOWrapper):  # not closed
        sys.stdout.reconfigure(encoding="utf-8")  # independent of the locale
    with backend.garbage_left_at_the_end(), exit_codes.reported():
        application()(prog_name="keras-transformer")


if __name__ == "__main__":
    main()
