"""`keras-transformer compare`."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import formats
from keras_transformer.cli import options
from keras_transformer.errors import InputError

_HYPOTHESES = "test.hypotheses.txt"


def compare(
    baseline: Annotated[
        Path,
        typer.Argument(
            metavar="BASELINE",
            help="Translations of the first system, plain or compressed; or a run.",
        ),
    ],
    systems: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="HYPOTHESES",
            help="Translations of others, or runs, each compared with the first.",
        ),
    ] = None,
    *,
    references: options.ReferencesOrNone = None,
    tokenize: options.Tokenize = "13a",
    lowercase: options.Lowercase = False,
    confidence: Annotated[
        int, typer.Option(metavar="N", help="Number of bootstrap samples.")
    ] = 1000,
    chrf_word_order: options.WordOrder = 0,
    as_json: options.Json = False,
) -> None:
    """Score translated files, and compare systems.

    Prints BLEU, chrF and TER of each file with 95 % confidence intervals, and for each
    file but the first the p-value of its difference, by paired bootstrap: below 0.05 it
    is significant. Of a run folder the translations of its test text are taken, and its
    references where --reference is left out.
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
    paths = [baseline, *other_systems]
    files = list(map(_translations, paths))
    if references:
        texts = read_together([*files, *references])
    else:
        texts = [*read_together(files), _references(paths)]
        _check_lines(baseline, texts)
    first, answers = texts[0], texts[len(paths) :]
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


def _translations(path: Path) -> Path:
    """A file of translations; of a run folder, those of its test text."""
    if not path.is_dir():
        return path
    file = path / _HYPOTHESES
    if not file.is_file():
        raise InputError(
            f"{path} has no {_HYPOTHESES}; give runs that have data.test and have "
            f"finished, or files of translations"
        )
    return file


def _references(paths: list[Path]) -> list[str]:
    """The references of the test text of runs; all have the same."""
    files = [path for path in paths if not path.is_dir()]
    if files:
        raise typer.BadParameter(
            f"{files[0]} is a file of translations; give its references",
            param_hint="'--reference'",
        )
    from keras_transformer.training.test_text import references

    first, *others = map(references, paths)
    for path, lines in zip(paths[1:], others, strict=True):
        if lines != first:
            raise InputError(
                f"{path} was tested on another text than {paths[0]}; give --reference, "
                f"or compare runs with the same data.test"
            )
    return first


def _check_lines(path: Path, texts: list[list[str]]) -> None:
    if len(texts[0]) != len(texts[-1]):
        raise InputError(
            f"{path / _HYPOTHESES} has {len(texts[0])} lines, but the test text of the "
            f"run now has {len(texts[-1])}; give --reference"
        )
