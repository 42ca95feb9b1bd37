"""`keras-transformer score`."""

from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli import reading
from keras_transformer.cli import writing
from keras_transformer.waiting import waiting

_LINES_AT_ONCE = 512


def score(
    model: options.Model,
    source: options.SourceFile,
    target: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A translation of each line, plain or compressed."
        ),
    ],
    metrics: options.Metrics = None,
    format: options.Format = formats.Format.text,
    ensemble: options.Ensemble = None,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
) -> None:
    """Print the log-probability of given translations.

    The format text is one natural logarithm per line. The format jsonl is one object
    per line: 'source', 'target', 'log_probability', and 'tokens' with 'token_scores',
    the end token included. With --metric, which judges a translation without a
    reference, its number follows after a tab; in jsonl the key is 'metrics'.
    """
    from keras_transformer import learned_metrics
    from keras_transformer.data.corpus import read_parallel

    own = learned_metrics.found(metrics or (), "--metric")
    text = read_parallel([source], [target])
    translator = model_folder.load(
        model,
        *(ensemble or ()),
        source_language=source_language,
        target_language=target_language,
        imports=imports or (),
    )
    pairs = zip(text.source, text.target, strict=True)
    first = 1
    with writing.writer(None) as write:
        for piece in reading.pieces(pairs, _LINES_AT_ONCE):
            sources, targets = map(list, zip(*piece, strict=True))
            with waiting(f"scoring from line {first}", progress.say):
                scores = translator.score(sources, targets, first_line=first)
            columns = {
                path: learned_metrics.of_sentences(path, metric, sources, targets, None)
                for path, metric in own.items()
            }
            numbers = [
                {path: values[i] for path, values in columns.items()}
                for i in range(len(sources))
            ]
            rows = zip(sources, targets, scores, numbers, strict=True)
            if format is formats.Format.jsonl:
                write("".join(formats.score_line(*row) for row in rows))
            else:
                write("".join(formats.score_text(*row[2:]) for row in rows))
            first += len(piece)
