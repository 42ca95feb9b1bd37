"""Training of several runs: one after the other, resumed as a whole, and one table."""

from __future__ import annotations

import gc
import json
import statistics
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated
from typing import Any

import pydantic

from keras_transformer import evaluation
from keras_transformer import learned_metrics
from keras_transformer.config.documented import Documented
from keras_transformer.data.corpus import read_lines
from keras_transformer.data.line_reader import record_of
from keras_transformer.errors import InputError
from keras_transformer.errors import told_of
from keras_transformer.evaluation import Score
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.folder_config import digest_of
from keras_transformer.folder_config import read_config
from keras_transformer.tables import table
from keras_transformer.training import own_callbacks
from keras_transformer.training import own_loss
from keras_transformer.training import report
from keras_transformer.training import run
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import new_bookkeeping
from keras_transformer.training.config import without_places
from keras_transformer.training.config.series import Series
from keras_transformer.training.config.series import SeriesRun
from keras_transformer.training.config.series import Translation
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import paths_of
from keras_transformer.training.corpora import read_test
from keras_transformer.training.run_folder import check_corpus
from keras_transformer.training.run_folder import write
from keras_transformer.training.run_opening import begun_with
from keras_transformer.training.run_state import newest_state
from keras_transformer.training.test_text import references
from keras_transformer.translator import Translator

_RESULTS = "series.json"
_HYPOTHESES = "test.hypotheses.txt"
_WEIGHTS = "model.weights.h5"
_LINES_AT_ONCE = 512
_VALIDATION = "validation"  # a column
_DIGITS, _OWN_DIGITS = 2, 4
#: Keys that may change when a run goes on, and make its model another one.
_OF_WEIGHTS = ("training.steps", "training.average_last", "training.average_best")


class Result(Documented):
    """What is known of a run of a series."""

    origin: str | None = None
    """Digest of the weights that it began with."""
    config: str | None = None
    """Digest of the config with which it finished; None where it has not."""
    validation: float | None = None
    """Best score of the validation."""
    scores: Annotated[
        tuple[tuple[str, float, str, float | None], ...], pydantic.Field(strict=False)
    ] = ()
    """Name, score, signature and interval of each score of the test."""


_ADAPTER = pydantic.TypeAdapter(dict[str, Result])


def train_series(
    series: Series, say: Callable[[str], None] = report.say
) -> dict[str, Result]:
    """Trains the runs of a series, or goes on where that was stopped.

    A run that has finished is passed over, if its texts have not changed; one that was
    begun is resumed. Prints a table of all scores to standard output.

    Args:
        series: of `load_runs`.
        say: a function that receives lines of progress.

    Returns:
        The `Result` of each run by its name.

    Raises:
        InputError: where a run is not valid, a text has changed since, the baseline was
            tested on another text, or the folder is of something else.
        Interrupted: where a signal stopped a run; the series can be resumed.
    """
    _check_texts(series)
    _check_code(series)
    baseline, folder = series.baseline, series.folder.absolute()
    if baseline and not baseline.absolute().is_relative_to(folder):
        _references(series, baseline)  # refused before anything is trained
    results = _opened(series)
    _check_origins(series, results)
    for number, one in enumerate(series.runs, 1):
        say(f"run {number} of {len(series.runs)}: {series.folder / one.name}")
        for translation in series.translations(one):
            translate(series, translation, say)
        config = series.config(one)
        origin = _origin(series, one)
        result = results.get(one.name, Result(origin=origin))
        if result.origin != origin:
            raise InputError(
                f"{series.folder / one.name} began with another model of {one.after}, "
                f"which has been trained on since; choose another output, or remove "
                f"{series.folder / one.name}"
            )
        digest = _digest(config)
        is_known = result.config in (digest, _former_digest(config))
        if is_known and (config.output / "averaged").exists():
            check_corpus(config.output, Corpora(config.data))
            say("finished already")
            continue
        results[one.name] = result
        _write(series, results)
        scores = run.train(config)
        results[one.name] = _result(config, origin, digest, scores or ())
        _write(series, results)
        gc.collect()  # the model, before the next one is made
    print(summary(series, results), flush=True)
    return results


def summary(series: Series, results: Mapping[str, Result]) -> str:
    """The table of the scores of a series: of each run, and the spread over seeds.

    Args:
        series: a series.
        results: what `train_series` returns.
    """
    scores = [score for result in results.values() for score in result.scores]
    columns = _columns(series, scores)
    compared = _p_values(series)
    header = ["run", *columns, *(["p"] if compared else [])]
    rows = []
    for stage, runs in _by_stage(series):
        found = {one.name: _numbers(results[one.name], columns) for one in runs}
        for name, numbers in found.items():
            cells = [
                _cell(numbers.get(column), digits) for column, digits in columns.items()
            ]
            p_value = compared.get(name)
            p = ["-" if p_value is None else f"{p_value:.4f}"] if compared else []
            rows.append([name, *cells, *p])
        if len(runs) > 1:
            prefix = f"{stage}: " if stage else ""
            for label, summarize in _SPREAD.items():
                cells = [
                    summarize(values, digits)
                    if (values := _column(found, column))
                    else "-"
                    for column, digits in columns.items()
                ]
                rows.append([f"{prefix}{label}", *cells, *([""] if compared else [])])
    lines = [table(header, rows), *signatures(results)]
    if compared:
        lines.append(
            f"p: BLEU against {series.baseline} by paired bootstrap, of runs with its "
            f"test text; below 0.05 a difference is significant"
        )
    return "\n".join(lines)


def translate(
    series: Series, translation: Translation, say: Callable[[str], None]
) -> None:
    """Translates a text by an earlier run, or goes on where that was stopped.

    Another model, other options of its search or another text begin anew.

    Args:
        series: the series.
        translation: the text, and where its translations go.
        say: a function that receives lines of progress.

    Raises:
        InputError: where the text cannot be read.
    """
    output, model = translation.output, series.folder / translation.by / "averaged"
    text = record_of(translation.text)
    codes: Any = dict(translation.languages)

    def digest_of_all(with_about: bool = False) -> str:
        model_digest = digest_of(model, with_about)
        return sha256_of_json([model_digest, text.sha256, *codes.values()])

    digest, record = digest_of_all(), output.with_name(f"{output.name}.model")
    known = _lines_of(record) if output.exists() else []
    # The weights are read once more only where the digest is another one.
    if known == [digest] or (known and known == [digest_of_all(with_about=True)]):
        return
    lines = read_lines(translation.text)
    part = output.with_name(f"{output.name}.{digest[:16]}.part")
    done = _lines_of(part)[: len(lines)]
    translator = Translator.load(model)
    with told_of(str(translation.text)):
        translator.check(lines, **codes)
    following = iter(lines[len(done) :])
    say(
        f"translating {translation.text} by {translation.by}, from line {len(done) + 1}"
    )
    watch = report.Counting(str(translation.text.name), say)
    output.parent.mkdir(parents=True, exist_ok=True)
    while piece := list(islice(following, _LINES_AT_ONCE)):
        translated = translator.translate(piece, first_line=len(done) + 1, **codes)
        # A byte piece may be one, which no text file of a run may hold.
        done += [str(line).replace("\0", " ") for line in translated]
        write(part, "".join(f"{line}\n" for line in done))
        watch(len(done), len(lines))
    write(output, "".join(f"{line}\n" for line in done))
    write(record, f"{digest}\n")
    part.unlink(missing_ok=True)


def _check_texts(series: Series) -> None:
    """Refuses a series of which a text is missing, hours before it is needed."""
    for name, config in series.configs().items():
        data = config.data
        for corpus in filter(None, (*(data.train or ()), data.validation, data.test)):
            for path in paths_of(corpus):
                own = path.is_relative_to((series.folder / "translations").absolute())
                if not own and not path.exists():
                    raise InputError(f"{name}: cannot read {path}; check the path")


def _check_code(series: Series) -> None:
    """Refuses a series of which a module or a teacher is missing, in the same way."""
    for config in series.configs().values():
        own_callbacks.factories(config)
        own_loss.loss_factory(config)
        learned_metrics.found(config.evaluation.metrics, "evaluation.metrics")
        distillation = config.training.distillation
        own = series.folder.absolute()
        if distillation and not distillation.teacher.absolute().is_relative_to(own):
            read_config(distillation.teacher)


def _check_origins(series: Series, results: Mapping[str, Result]) -> None:
    """Refuses steps of a run from whose model a later one has begun already.

    Its model would be another one then, and the later run could not go on.
    """
    for later in series.runs:
        begun = results.get(later.name)
        if begun is None or later.after is None:
            continue
        if not (series.folder / later.after / "averaged" / _WEIGHTS).exists():
            continue  # it is written anew
        if begun.origin != _origin(series, later):
            continue  # which is refused when its turn comes
        before = series.run(later.after)
        config = series.config(before)
        state = newest_state(config.output)
        keys = [*_OF_WEIGHTS]
        if state is not None and state.ended:  # by its patience
            keys.append("training.patience")
        lines = [
            line
            for line in new_bookkeeping(begun_with(config), config)
            if line.partition(":")[0] in keys
        ]
        if lines:
            raise InputError(
                f"{series.folder / later.name} began with the model of {before.name}, "
                f"which would become another one ({'; '.join(lines)}); choose another "
                f"output, or go back to that config"
            )


def _lines_of(path: Path) -> list[str]:
    if not path.exists():
        return []
    return path.read_bytes().decode("utf-8").split("\n")[:-1]


def _opened(series: Series) -> dict[str, Result]:
    """The results so far; refuses a folder of something else."""
    folder, path = series.folder, series.folder / _RESULTS
    if path.exists():
        try:
            content = plain_file(folder, _RESULTS, MOST_BYTES).read_text("utf-8")
            return _ADAPTER.validate_json(content)
        except (OSError, ValueError):
            raise InputError(
                f"{path} is damaged; remove it: runs that have finished then only test "
                f"again"
            ) from None
    if folder.exists():
        known = {one.name.partition("/")[0] for one in series.runs} | {"translations"}
        own = folder.is_dir() and {path.name for path in folder.iterdir()} <= known
        if not own:
            raise InputError(
                f"{folder} exists and is not of these runs; choose another output, or "
                f"remove it"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror}; choose another output"
        ) from None
    return {}


def _write(series: Series, results: Mapping[str, Result]) -> None:
    content = {name: result.model_dump() for name, result in results.items()}
    write(series.folder / _RESULTS, json.dumps(content, indent=1) + "\n")


def _origin(series: Series, one: SeriesRun) -> str | None:
    if one.after is None:
        return None
    return sha256_of(series.folder / one.after / "averaged" / _WEIGHTS)


def _digest(config: RunConfig) -> str:
    """The digest of what of a config decides its results, wherever things lie.

    Texts, and the model that it began with, are known by their content.
    """
    return sha256_of_json(without_places(config))


def _former_digest(config: RunConfig) -> str:
    """The digest of a config in versions where it depended on places."""
    content = config.plain()
    return sha256_of_json({k: content[k] for k in content if k != "output"})


def _result(
    config: RunConfig, origin: str | None, digest: str, scores: Sequence[Score]
) -> Result:
    state = newest_state(config.output)
    best = max((score for _, score in state.scores), default=None) if state else None
    if best is not None and config.training.best_metric == "loss":
        best = -best  # higher is better there
    rows = [(s.name, s.score, s.signature, s.interval) for s in scores]
    return Result(origin=origin, config=digest, validation=best, scores=tuple(rows))


def _by_stage(series: Series) -> Iterator[tuple[str, list[SeriesRun]]]:
    stages = dict.fromkeys(one.stage for one in series.runs)
    for stage in stages:
        yield stage, [one for one in series.runs if one.stage == stage]


def _columns(
    series: Series, scores: Sequence[tuple[str, float, str, float | None]]
) -> dict[str, int]:
    """The columns of the table and their decimals, four where a scale may be of 1."""
    usual = ("bleu", "chrf")
    best = {config.training.best_metric for config in series.configs().values()}
    columns = {_VALIDATION: _DIGITS if best <= {*usual} else _OWN_DIGITS}
    paths = [(name, _own_path(name, signature)) for name, _, signature, _ in scores]
    for name, path in paths:
        is_ambiguous = any(name == other and path != at for other, at in paths)
        column = path if path and is_ambiguous else name
        columns[column] = _OWN_DIGITS if path else _DIGITS
    return columns


def _own_path(name: str, signature: str) -> str | None:
    """`module:function` of a metric of the user; None for those of this package."""
    path = signature.partition("|")[0]
    return path if path.endswith(f":{name}") else None


def _numbers(result: Result, columns: Mapping[str, int]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {_VALIDATION: result.validation}
    for name, score, signature, _ in result.scores:
        path = _own_path(name, signature)
        numbers[path if path in columns and path is not None else name] = score
    return numbers


def _column(found: Mapping[str, Mapping[str, float | None]], name: str) -> list[float]:
    values = [numbers.get(name) for numbers in found.values()]
    return [value for value in values if value is not None]


def _cell(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _deviation(values: list[float], digits: int) -> str:
    return _cell(statistics.stdev(values), digits) if len(values) > 1 else "-"


#: What is said of the scores of several seeds.
_SPREAD: dict[str, Callable[[list[float], int], str]] = {
    "mean": lambda values, digits: _cell(statistics.mean(values), digits),
    "standard deviation": _deviation,
    "range": lambda values, digits: (
        f"{min(values):.{digits}f} to {max(values):.{digits}f}"
    ),
}


def signatures(results: Mapping[str, Result]) -> list[str]:
    """The lines of the signatures of scores.

    Where a score has several, its signatures name their runs: they do not compare.

    Args:
        results: what `train_series` returns.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for run_name, result in results.items():
        for short, _, signature, _ in result.scores:
            name = _own_path(short, signature) or short
            found.setdefault(name, {}).setdefault(signature, []).append(run_name)
    lines = []
    for name, several in found.items():
        for signature, runs in several.items():
            of_runs = f" ({', '.join(runs)})" if len(several) > 1 else ""
            lines.append(f"{name}{of_runs}: {signature}")
    return lines


def _references(series: Series, baseline: Path) -> list[str]:
    """The references of the baseline, which are those of one of the runs at least."""
    if not (baseline / _HYPOTHESES).is_file():
        raise InputError(
            f"the baseline {baseline} has no {_HYPOTHESES}; give the folder of a run "
            f"that has data.test and has finished"
        )
    tested = references(baseline)
    texts = [read_test(config.data) for config in series.configs().values()]
    if not any(text is not None and text.target == tested for text in texts):
        raise InputError(
            f"the baseline {baseline} was tested on another text than these runs; give "
            f"a run with the same data.test"
        )
    return tested


def _p_values(series: Series) -> dict[str, float]:
    """By how much chance each run differs from the baseline, in BLEU; by name."""
    if series.baseline is None:
        return {}
    baseline, found = series.baseline / _HYPOTHESES, {}
    tested = _references(series, series.baseline)
    for one in series.runs:
        path = series.folder / one.name / _HYPOTHESES
        config = series.config(one)
        text = read_test(config.data)
        if text is None or text.target != tested or not path.is_file():
            continue
        options = config.evaluation.options
        (bleu,) = evaluation.compare(
            read_lines(path),
            read_lines(baseline),
            text.target,
            metrics=["bleu"],
            **options,
        )
        found[one.name] = bleu.p_value
    return found
