"""`keras-transformer translate`."""

from pathlib import Path
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli import reading
from keras_transformer.cli import writing
from keras_transformer.cli.decoding_flags import with_decoding_flags

_BATCHES_AT_ONCE = 8  # lines of similar length share a batch, and memory is bounded


@with_decoding_flags
def translate(
    model: options.Model,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Default: standard input."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: standard output.")
    ] = None,
    format: options.Format = formats.Format.text,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Lines translated at once.")
    ] = 64,
    prefixes: options.Prefixes = None,
    attention: options.Attention = False,
    ensemble: options.Ensemble = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Translate lines of text, in their order.

    An empty line stays empty. Text is UTF-8. The format text is one translation a line;
    with --top-beams above 1, one hypothesis a line: the number of the source line, a
    rank from 1 (samples: in the order of the draws), the score (of --mbr: the utility)
    and the translation, with tabs between. The format jsonl is one object a line:
    'source' and 'hypotheses' with 'text', 'score', 'log_probability', 'finished' (else
    cut at the length limit), 'tokens', 'token_scores' (after theirs the end's, if
    finished) and 'alignment' (pairs of words, from 0; '' where the model has no
    attention); with --mbr 'utility'; with --prefixes 'prefix_log_probability', which
    the other two leave out; with --attention 'source_tokens' and 'attention': of each
    token, the end included, to each of these, the mean of layers and heads; with a
    model that holds its words (see info), 'unknown_words', those of the source that it
    has not learned. Options
    left out are the model's; 'none' unsets one that it has.
    """
    details = formats.asked(format, attention)
    with reading.opened(source) as file, writing.writer(output) as write:
        translator = model_folder.load(model, *(ensemble or ()))
        top_beams = translator.decoding.updated(decoding).top_beams
        details["return_alignments"] &= translator.attends
        lines, ready = reading.incoming(file, source)
        lines = reading.with_prefixes(reading.decoded(lines, source), prefixes)
        unknown = progress.UnknownWords(translator.known_words)
        first = 1
        with progress.bar(file, output) as advance:
            for piece in reading.pieces(lines, _BATCHES_AT_ONCE * batch_size, ready):
                texts, starts = map(list, zip(*piece, strict=True))
                if prefixes:
                    decoding["prefixes"] = starts
                with progress.warnings_reported():
                    translations = translator.translate(
                        texts,
                        batch_size=batch_size,
                        first_line=first,
                        **details,
                        **decoding,
                    )
                progress.warn_of_cuts(translations, first)
                words = unknown.of(texts)
                write(
                    formats.written(
                        format, first, texts, translations, words, top_beams
                    )
                )
                advance(len(piece))
                first += len(piece)
        unknown.report(named=format is formats.Format.jsonl)
