"""`keras-transformer translate`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Annotated
from typing import Any
from typing import cast

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli import reading
from keras_transformer.cli import reranked
from keras_transformer.cli import writing
from keras_transformer.cli.decoding_flags import with_decoding_flags
from keras_transformer.engines import EngineName
from keras_transformer.errors import InputError
from keras_transformer.waiting import waiting

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis

_BATCHES_AT_ONCE = 8  # groups lines of similar length, within bounded memory


def _first(line: int) -> str:
    """What the first lines wait for."""
    if line == 1:
        return "compiling the search, and translating the first lines"
    return f"translating from line {line}"


@with_decoding_flags
def translate(
    model: options.Model,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The lines. Default: standard input."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="The same as FILE."),
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
    split_sentences: Annotated[
        bool,
        typer.Option(
            "--split-sentences",
            help="Translate each sentence of a line by itself. Needs sentencex.",
        ),
    ] = False,
    rerank: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Choose among the candidates by a metric of your own.",
        ),
    ] = None,
    mbr_metric: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Choose by minimum Bayes risk, with a metric of your own.",
        ),
    ] = None,
    engine: options.Engine = EngineName.keras,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Translate lines of text, in order.

    Text is UTF-8; an empty line stays empty. Decoding options that are not given come
    from the model; 'none' unsets one.

    --format text: one translation per line. With --top-beams above 1, one hypothesis
    per line, its parts separated by tabs: number of the source line, rank from 1
    (samples: in the order drawn), score (with --mbr: the utility) and translation.

    --format jsonl: one object per line, with 'source' and 'hypotheses'. Of these each
    has 'text', 'score', 'log_probability', 'finished' (false: cut off at the length
    limit), 'tokens', 'token_scores' (followed by the end token's, if finished) and
    'alignment' (pairs of word numbers from 0; '' where the model has no attention).

    Further keys of jsonl: with --mbr 'utility'; with --prefixes
    'prefix_log_probability', which 'score' and 'log_probability' exclude; with
    --attention 'source_tokens' and 'attention', the mean over layers and heads from
    each target token, the end token included, to each source token; with a model that
    lists its words (see info) 'unknown_words', the source words that it has not
    learned.

    --engine ctranslate2: the library of that name runs the model, which it converts
    once, into the user's cache. It refuses options that it lacks.

    --rerank and --mbr-metric: the score is the metric's number, 'utility' in jsonl.
    There are as many candidates as with --mbr.
    """
    details = formats.asked(format, attention)
    reranking = reranked.asked(rerank, mbr_metric, decoding)
    if file is not None and source is not None:
        raise typer.BadParameter(f"give the input once, got {file} and {source}")
    if file is not None and " " in str(file) and not os.path.exists(file):
        raise InputError(
            f"there is no file {str(file)!r}; to translate a sentence, pipe it: "
            f"echo {shlex.quote(str(file))} | keras-transformer translate {model}"
        )
    source = source or file
    with reading.opened(source) as opened, writing.writer(output) as write:
        translator = model_folder.load_on(
            engine,
            model,
            *(ensemble or ()),
            source_language=source_language,
            target_language=target_language,
            imports=imports or (),
            lacking={"attention": attention, "prefixes": prefixes is not None},
            decoding=decoding,
        )
        if reranking:
            top_beams = decoding.pop("top_beams", None) or translator.decoding.top_beams
            options_of_search = translator.decoding.updated(decoding)
            decoding |= reranking.candidates(options_of_search, top_beams)
        else:
            top_beams = translator.decoding.updated(decoding).top_beams
        details["return_alignments"] &= translator.attends
        lines, ready = reading.incoming(opened, source)
        lines = reading.with_prefixes(reading.decoded(lines, source), prefixes)
        unknown = progress.UnknownWords(translator.known_words)
        first = 1
        with progress.bar(opened, output) as advance:
            for piece in reading.pieces(lines, _BATCHES_AT_ONCE * batch_size, ready):
                texts, starts = map(list, zip(*piece, strict=True))
                if prefixes:
                    decoding["prefixes"] = starts
                with waiting(_first(first), progress.say), progress.warnings_reported():
                    translations = cast(
                        "list[list[Hypothesis]]",
                        translator.translate(
                            texts,
                            batch_size=batch_size,
                            first_line=first,
                            split_sentences=split_sentences,
                            **details,
                            **decoding,
                        ),
                    )
                if reranking:
                    translations = reranking(texts, translations, top_beams)
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
