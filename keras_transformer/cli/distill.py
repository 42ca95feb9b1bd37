"""`keras-transformer distill`."""

from pathlib import Path
from typing import TYPE_CHECKING
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import corpus
from keras_transformer.cli import options
from keras_transformer.engines import EngineName
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.training.config import DataSection


@corpus.with_search_flags
def distill(
    teacher: Annotated[
        Path, typer.Argument(metavar="TEACHER", help="The model folder of the teacher.")
    ],
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG.yaml", help="A run config; its data.train is translated."
        ),
    ],
    output: corpus.Output,
    part: corpus.Part = "1/1",
    shard_lines: corpus.ShardLines = 10_000,
    batch_size: corpus.BatchSize = 64,
    ensemble: options.Ensemble = None,
    engine: options.Engine = EngineName.keras,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Let a teacher translate the training text.

    This is knowledge distillation at the level of sequences: a student learns what
    the teacher writes, by 'data: {train: [{manifest: FOLDER}]}'. Every source line of
    data.train is translated, tags and filters aside. What was stopped goes on when the
    same command is given again, and ends with the same text. FOLDER/manifest.json says
    which model wrote it, how, and from what. Decoding options that are not given come
    from the teacher; --sampling draws translations.
    """
    share = corpus.part_of(part)
    from keras_transformer.training.config import load_config

    data = load_config(config).data
    source_language, target_language = _languages(data)
    from keras_transformer.training.corpora import source_lines
    from keras_transformer.training.corpora import training_files

    corpus.translate_into(
        output,
        [teacher, *(ensemble or ())],
        "source",
        training_files(data),
        lambda: source_lines(data),
        part=share,
        shard_lines=shard_lines,
        batch_size=batch_size,
        engine=engine,
        source_language=source_language,
        target_language=target_language,
        imports=imports or (),
        decoding=decoding,
        columns=[c.columns and list(c.columns) for c in data.train or ()],
    )


def _languages(data: "DataSection") -> tuple[str | None, str | None]:
    """The two languages of the training text."""
    if any(corpus.prefix for corpus in data.train or ()):
        raise InputError(
            "data.train has a prefix, and distill translates lines as they are in the "
            "files; give a config without"
        )
    pairs = {(c.source_language, c.target_language) for c in data.train or ()}
    if len(pairs) > 1:
        raise InputError(
            "data.train has texts of several pairs of languages; distill one pair "
            "after the other, each with a config and an output of its own"
        )
    return next(iter(pairs), (None, None))
