"""`keras-transformer train`."""

import json
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import backend
from keras_transformer.cli import options
from keras_transformer.errors import InputError


def _print_schema(wanted: bool) -> None:
    if wanted:
        from keras_transformer.training.config import json_schema

        print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        raise typer.Exit


def train(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG.yaml",
            help="Default: English to German on the embedded phrasebook.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=(
                "Override a config key, such as training.steps=100; more pairs may "
                "follow."
            ),
        ),
    ] = None,
    print_schema: Annotated[
        bool,
        typer.Option(
            "--print-schema",
            callback=_print_schema,
            is_eager=True,
            help="Print the JSON schema of configs, for editors, and exit.",
        ),
    ] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="Print the config keys, or those that go with the words that follow.",
        ),
    ] = False,
    imports: options.Imports = None,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", hidden=True)
    ] = None,
) -> None:
    """Train a model, or resume a run that was stopped.

    The config key 'output' names the run folder; its folder 'averaged' is the model.
    Paths of texts are relative to the config file, 'output' to the working directory.
    A config with 'seeds' or 'stages' is for several runs, each in a folder of
    'output'; the same command goes on with them.
    """
    # Words after `--set a=1` arrive as arguments, the first one as the config.
    words = [*([str(config)] if config else []), *(more or ())]
    if keys:
        from keras_transformer.cli import config_keys

        config_keys.print_keys(words)
        return
    settings = [word for word in words if "=" in word and not Path(word).exists()]
    files = [word for word in words if word not in settings]
    if len(files) > 1:
        raise typer.BadParameter(
            f"give one config, got {' and '.join(files)}; a key is set by key=value, "
            f"such as training.steps=300"
        )
    backend.activate(training=True, imports=imports or ())
    from keras_transformer.training import config as configs
    from keras_transformer.training.config import series

    path = files[0] if files else None
    loaded = series.load_runs(path, [*(overrides or ()), *settings])
    if path is not None and isinstance(loaded, configs.RunConfig):
        _refuse_names_of_runs(
            Path(path),
            {
                "training.callbacks": loaded.training.callbacks,
                "training.loss": [loss] if (loss := loaded.training.loss) else [],
                "evaluation.metrics": loaded.evaluation.metrics,
            },
        )
    # A config that is refused does not wait for Keras.
    from keras_transformer.training import run
    from keras_transformer.training.distribution import WorkerLost
    from keras_transformer.training.series import train_series

    try:
        if isinstance(loaded, series.Series):
            train_series(loaded)
        else:
            run.train(loaded)
    except (run.Interrupted, WorkerLost) as stop:
        print(stop, file=sys.stderr)
        raise typer.Exit(stop.exit_code) from None
    except (KeyboardInterrupt, SystemExit):
        print("run the same command again to resume this run", file=sys.stderr)
        raise


def _refuse_names_of_runs(path: Path, names: Mapping[str, Sequence[str]]) -> None:
    """Refuses modules that a run folder names, by key, and nobody else does."""
    from keras_transformer.training.config.run_config import is_of_run

    for key, functions in names.items():
        modules = [function.partition(":")[0] for function in functions]
        unknown = [name for name in modules if name not in sys.modules]
        if unknown and is_of_run(path):
            raise InputError(
                f"{path} is in a run folder, whose names are not imported, and its "
                f"{key} names {unknown[0]}; if you trust it, give --import {unknown[0]}"
            )
