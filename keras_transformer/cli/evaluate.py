"""`keras-transformer evaluate`."""

import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import cast

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli import writing
from keras_transformer.cli.decoding_flags import with_decoding_flags
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.engines import EngineName
from keras_transformer.waiting import waiting


# Only the best translation of each line is scored: --top-beams has no effect.
@functools.partial(
    with_decoding_flags, names=[name for name in OPTIONS if name != "top_beams"]
)
def evaluate(
    model: options.Model,
    source: options.SourceFile,
    references: options.References,
    tokenize: options.Tokenize = "13a",
    lowercase: options.Lowercase = False,
    confidence: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Bootstrap samples for 95 % confidence intervals; 1000 is usual.",
        ),
    ] = 0,
    chrf_word_order: options.WordOrder = 0,
    metrics: options.Metrics = None,
    as_json: options.Json = False,
    robustness: Annotated[
        bool,
        typer.Option(
            "--robustness",
            help=(
                "Score the source in upper, title and lower case and with typos, too: "
                "a table of scores."
            ),
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the translations to this file."),
    ] = None,
    engine: options.Engine = EngineName.keras,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Translate a file; print BLEU, chrF and TER.

    The scores are sacreBLEU's, with their signatures. Use 'compare' for files that are
    already translated. Decoding options that are not given come from the model. With
    --robustness the source is translated as it is, in upper, title and lower case, and
    with a typo in a tenth of its words.
    """
    from keras_transformer import evaluation
    from keras_transformer import learned_metrics
    from keras_transformer import tables
    from keras_transformer.data.corpus import read_together
    from keras_transformer.data.text_noise import noised

    settings = options.ScoreOptions(
        tokenize=tokenize,
        lowercase=lowercase,
        confidence=confidence,
        chrf_word_order=chrf_word_order,
    )
    evaluation.check_options(**settings)
    own = learned_metrics.found(metrics or (), "--metric")
    if own and len(references) > 1:
        raise typer.BadParameter(
            "a metric of your own takes one reference of each line; give one file",
            param_hint="'--reference'",
        )
    lines, *answers = read_together([source, *references])
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(writing.writer(output)) if output else None
        translator = model_folder.load_on(
            engine,
            model,
            source_language=source_language,
            target_language=target_language,
            imports=imports or (),
            lacking={},
            decoding=decoding,
        )
        sources = noised(lines) if robustness else {"plain": lines}
        what = f"compiling the search, and translating {len(lines)} lines"
        translations = {}
        for name, changed in sources.items():
            with waiting(what, progress.say), progress.warnings_reported():
                translations[name] = cast(
                    list[str], translator.translate(changed, **decoding, top_beams=1)
                )
            what = f"translating {len(lines)} lines again"
        if write:
            write("".join(f"{line}\n" for line in translations["plain"]))
    rows = {
        name: evaluation.evaluate(hypotheses, answers, **settings)
        + learned_metrics.evaluate(
            own, sources[name], hypotheses, answers[0], confidence=confidence
        )
        for name, hypotheses in translations.items()
    }
    if as_json:
        formats.print_json(
            {**({"source": name} if robustness else {}), **dataclasses.asdict(score)}
            for name, scores in rows.items()
            for score in scores
        )
    elif robustness:
        print(tables.of_scores("source", rows))
    else:
        print(*rows["plain"], sep="\n")
