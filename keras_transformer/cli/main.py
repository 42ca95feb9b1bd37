"""The program `keras-transformer`; knows its commands, imports nothing heavy."""

import os
import sys
from typing import Annotated

import typer

from keras_transformer import __version__
from keras_transformer.cli import allocator
from keras_transformer.cli import exit_codes
from keras_transformer.cli import garbage
from keras_transformer.cli import single_options
from keras_transformer.cli.attention import attention
from keras_transformer.cli.average import average
from keras_transformer.cli.compare import compare
from keras_transformer.cli.evaluate import evaluate
from keras_transformer.cli.export import export
from keras_transformer.cli.info import info
from keras_transformer.cli.score import score
from keras_transformer.cli.serve import serve
from keras_transformer.cli.train import train
from keras_transformer.cli.translate import translate

#: As the help lists them.
COMMANDS = (train, translate, score, evaluate, compare, average)
COMMANDS += (export, attention, info, serve)


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

    The backend is Keras's own choice: KERAS_BACKEND=tensorflow, jax or torch.

    Exit codes: 0 done, 2 bad input or arguments, 1 our fault, 130 ctrl-C, 143 SIGTERM.
    """


def application() -> typer.Typer:
    """All commands, with plain messages and help."""
    app = typer.Typer(
        cls=single_options.Group,
        callback=_options,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    for command in COMMANDS:
        app.command(cls=single_options.Command)(command)
    return app


def main() -> None:
    """Runs the command of `sys.argv` and exits with its code."""
    os.environ.setdefault(allocator.RESTART, "allowed")
    if sys.stdout is not None:
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale
    with garbage.left_at_the_end(), exit_codes.reported():
        application()(prog_name="keras-transformer")


if __name__ == "__main__":
    main()
