"""A corpus that a command translates into a folder: `distill` and `backtranslate`."""

import functools
import importlib.metadata
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal
from typing import cast

import typer

from keras_transformer import __version__
from keras_transformer.cli import model_folder
from keras_transformer.cli import progress
from keras_transformer.cli.decoding_flags import with_decoding_flags
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.engines import EngineName

Output = Annotated[
    Path,
    typer.Option(metavar="FOLDER", help="The folder to write, or to go on with."),
]
ShardLines = Annotated[
    int, typer.Option(metavar="N", min=1, help="Lines of a shard, a file of its own.")
]
Part = Annotated[
    str,
    typer.Option(
        metavar="K/N",
        help="Write the K-th of N parts, one of N processes that share the folder.",
    ),
]
BatchSize = Annotated[
    int, typer.Option(metavar="N", min=1, help="Lines translated at once.")
]

#: Wraps a command: one translation of each line, so `--top-beams` has no effect.
with_search_flags = functools.partial(
    with_decoding_flags, names=[name for name in OPTIONS if name != "top_beams"]
)


def part_of(text: str) -> tuple[int, int]:
    """The two numbers of `--part`."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise typer.BadParameter(
            f"expected K/N with K from 1 to N, such as 1/4, got {text!r}",
            param_hint="'--part'",
        )
    return int(match[1]), int(match[2])


def translate_into(
    output: Path,
    models: Sequence[Path],
    input_side: Literal["source", "target"],
    files: Sequence[Path],
    read: Callable[[], Iterable[str]],
    *,
    part: tuple[int, int],
    shard_lines: int,
    batch_size: int,
    engine: EngineName,
    source_language: str | None,
    target_language: str | None,
    imports: Sequence[str],
    decoding: dict[str, Any],
    columns: Sequence[Any] = (),
) -> None:
    """Translates the lines of `read` into a folder.

    Args:
        output: the folder.
        models: a model folder, and further members of an ensemble.
        input_side: the side of the corpus that `read` gives.
        files: what it reads, in order.
        read: a function that reads the lines.
        part: of the shards, see `translate_corpus`.
        shard_lines: lines of a shard.
        batch_size: lines translated at once.
        engine: what runs the model.
        source_language: of a multilingual model.
        target_language: in the same way.
        imports: the modules of `--import`.
        decoding: the options that were given.
        columns: of each corpus that `read` takes; None for those of its format.
    """
    from keras_transformer.corpus_translation import Request
    from keras_transformer.corpus_translation import translate_corpus
    from keras_transformer.data.line_reader import record_of
    from keras_transformer.engines.ctranslate2_translator import CTranslate2Translator
    from keras_transformer.folder_config import digest_of

    for path in models:
        model_folder.check(path, "a model folder")
    digests = {str(path): digest_of(path) for path in models}
    inputs = {str(path): record_of(path).sha256 for path in files}
    num_lines = sum(1 for _ in read())
    translator = model_folder.load_on(
        engine,
        *models,
        source_language=source_language,
        target_language=target_language,
        imports=imports,
        lacking={},
        decoding=decoding,
    )
    decoding = {**decoding, "top_beams": 1}
    resolved = translator.decoding.updated(decoding)
    library = "ctranslate2"
    if not isinstance(translator, CTranslate2Translator):
        import keras

        library = keras.backend.backend()
    request = Request(
        input_side,
        digests,
        inputs,
        num_lines,
        {
            **resolved.model_dump(mode="json"),
            "engine": "ctranslate2" if library == "ctranslate2" else "keras",
            "batch_size": batch_size,
            "source_language": source_language,
            "target_language": target_language,
            **({"columns": list(columns)} if any(columns) else {}),
        },
        shard_lines,
    )

    def translate(lines: list[str], first_line: int) -> list[str]:
        with progress.warnings_reported():
            found = translator.translate(
                lines, batch_size=batch_size, first_line=first_line, **decoding
            )
        return cast(list[str], found)

    translate_corpus(
        output,
        read(),
        translate,
        request,
        {
            "keras_transformer": __version__,
            library: importlib.metadata.version(library),
        },
        part=part,
        say=progress.say,
    )
