"""`keras-transformer compare`."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import options


def compare(
    baseline: Annotated[
        Path,
        typer.Argument(
            metavar="BASELINE",
            help="Translations of the first system, plain or compressed.",
        ),
    ],
    systems: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="HYPOTHESES",
            help="Translations of other systems, each compared with the first.",
        ),
    ] = None,
    *,
    references: options.References,
    tokenize: options.Tokenize = "13a",
    lowercase: options.Lowercase = False,
    confidence: Annotated[
        int, typer.Option(metavar="N", help="Number of bootstrap samples.")
    ] = 1000,
    chrf_word_order: options.WordOrder = 0,
    as_json: options.Json = False,
) -> None:
    """Score translated files, and compare systems by paired bootstrap.

    Prints BLEU, chrF and TER of each file with 95 % confidence intervals, and for each
    file but the first the p-value of its difference: below 0.05 it is significant.
    """
    from keras_transformer import evaluation
    from keras_transformer.data.corpus import read_together

    settings = options.ScoreOptions(
        tokenize=tokenize,
        lowercase=lowercase,
        confidence=confidence,
        chrf_word_order=chrf_word_order,
    )
    other_systems = systems or []
    texts = read_together([baseline, *other_systems, *references])
    first, answers = texts[0], texts[1 + len(other_systems) :]
    scores = evaluation.evaluate(first, answers, **settings)
    rows: list[tuple[Path, evaluation.Score, float | None]]
    rows = [(baseline, score, None) for score in scores]
    for path, lines in zip(other_systems, texts[1:], strict=False):
        comparisons = evaluation.compare(lines, first, answers, **settings)
        rows += [(path, result.score, result.p_value) for result in comparisons]
    if as_json:
        formats.print_json(
            {"file": str(path), **dataclasses.asdict(score), "p_value": p_value}
            for path, score, p_value in rows
        )
        return
    for path, score, p_value in rows:
        compared = "" if p_value is None else f", p = {p_value:.4f}"
        print(f"{path}: {score}{compared}")
