"""`keras-transformer backtranslate`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import corpus
from keras_transformer.cli import options
from keras_transformer.engines import EngineName


@corpus.with_search_flags
def backtranslate(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A model folder, from the target to the source."
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Text of the target language, plain or compressed."
        ),
    ],
    output: corpus.Output,
    part: corpus.Part = "1/1",
    shard_lines: corpus.ShardLines = 10_000,
    batch_size: corpus.BatchSize = 64,
    ensemble: options.Ensemble = None,
    engine: options.Engine = EngineName.keras,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Translate text of the target language back.

    The lines become the target of a corpus, and their translations its source. A config
    takes it by 'data: {train: [..., {manifest: FOLDER, tag: "<bt>"}]}', beside the real
    text. What was stopped goes on when the same command is given again, and ends with
    the same text. FOLDER/manifest.json says which model wrote it, how, and from what.
    Decoding options that are not given come from the model; --sampling draws
    translations.
    """
    share = corpus.part_of(part)
    from keras_transformer.data.corpus import stream_lines

    def read() -> Iterator[str]:
        for path in files:
            yield from stream_lines(path, refuses_nul=True)

    corpus.translate_into(
        output,
        [model, *(ensemble or ())],
        "target",
        files,
        read,
        part=share,
        shard_lines=shard_lines,
        batch_size=batch_size,
        engine=engine,
        source_language=source_language,
        target_language=target_language,
        imports=imports or (),
        decoding=decoding,
    )
