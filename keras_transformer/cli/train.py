"""`keras-transformer train`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import backend


def train(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG.yaml",
            help="Left out: English to German on the embedded phrasebook.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Replace a key of the config: training.steps=100. May be repeated.",
        ),
    ] = None,
) -> None:
    """Train a model, or go on with a run that was stopped.

    The run folder is the config's key 'output'; its folder 'averaged' is the model.
    Paths of texts in the config are relative to its file, 'output' to the working
    directory.
    """
    backend.activate(training=True)
    from keras_transformer.training import config as configs
    from keras_transformer.training import run
    from keras_transformer.training.distribution import WorkerLost

    try:
        run.train(configs.load_config(config, overrides or ()))
    except (run.Interrupted, WorkerLost) as stop:
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    except (KeyboardInterrupt, SystemExit):
        print("run the same command again to go on with this run", file=sys.stderr)
        raise
