"""`keras-transformer translate`."""

from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import reading
from keras_transformer.cli import writing

_BATCHES_AT_ONCE = 8  # lines of similar length share a batch, and memory is bounded


def translate(
    model: options.Model,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="Default: standard input."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: standard output.")
    ] = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    top_beams: Annotated[
        int, typer.Option(metavar="N", min=1, help="Hypotheses written of each line.")
    ] = 1,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Lines translated at once.")
    ] = 64,
    format: Annotated[
        formats.Format, typer.Option(metavar="text|jsonl", help="See above.")
    ] = formats.Format.text,
) -> None:
    """Translate lines of text, in their order.

    Text is UTF-8, and an empty line stays empty. The format text is one translation a
    line; with --top-beams above 1, one hypothesis a line: the number of the source
    line, a rank from 1, the score and the translation, with tabs between. The format
    jsonl is one object a line: 'source' and, best first, 'hypotheses' with 'text',
    'score', 'log_probability' and 'tokens'.
    """
    with reading.opened(source) as file, writing.writer(output) as write:
        options.check_length_penalty(length_penalty)
        translator = model_folder.load(model)
        options.check_top_beams(top_beams, beam_size or translator.beam_size)
        # Whoever types lines wants each answered.
        size = 1 if file.isatty() else _BATCHES_AT_ONCE * batch_size
        first = 1
        for piece in reading.pieces(reading.decoded(file, source), size):
            found = translator.translate(
                piece,
                beam_size=beam_size,
                length_penalty=length_penalty,
                top_beams=top_beams,
                batch_size=batch_size,
                return_details=True,
                first_line=first,
            )
            formats.warn_of_cuts(found, first)
            rows = zip(piece, found, strict=True)
            write(
                "".join(
                    formats.as_json(line, hypotheses)
                    if format is formats.Format.jsonl
                    else formats.as_text(number, hypotheses, top_beams)
                    for number, (line, hypotheses) in enumerate(rows, first)
                )
            )
            first += len(piece)
