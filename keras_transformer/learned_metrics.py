"""Metrics of your own, such as learned ones (COMET, MetricX): any callable."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol
from typing import cast

import numpy as np

from keras_transformer.arguments import check_texts
from keras_transformer.errors import InputError
from keras_transformer.errors import out_of_memory
from keras_transformer.evaluation import Score
from keras_transformer.user_modules import named

_SEED = 12345  # that of sacreBLEU


class Metric(Protocol):
    """A metric of translations; higher is better.

    Called with lists of one length. `references` is None where translations are judged
    by their sources alone, as `translate --rerank` and `score --metric` do. Returns a
    number for each translation, or one for all of them.
    """

    def __call__(
        self,
        sources: list[str],
        hypotheses: list[str],
        references: list[str] | None,
    ) -> Sequence[float] | float: ...


class MetricScore(Score):
    """The score of a metric of your own; its digits are those of a scale of 1."""

    @property
    def rounded(self) -> str:
        """The score and its interval, as reports show them."""
        interval = "" if self.interval is None else f" ± {self.interval:.4f}"
        return f"{self.score:.4f}{interval}"


def check_path(path: str) -> str:
    """Refuses what is no `module:function`.

    Raises:
        ValueError: saying what is expected.
    """
    module, colon, name = path.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
        raise ValueError(
            f"expected module:function, such as my_metrics:comet, got {path!r}"
        )
    return path


def found(paths: Iterable[str], where: str) -> dict[str, Metric]:
    """The metrics that a person names as `module:function`; imports the modules.

    Args:
        paths: their names.
        where: what named them, for messages, such as `--metric`.

    Raises:
        InputError: where there is no such module or function.
    """
    metrics: dict[str, Metric] = {}
    for path in paths:
        try:
            check_path(path)
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        metric = named(path, where)
        if not callable(metric):
            raise InputError(
                f"{where}: {path} is {type(metric).__name__}, not a function; name a "
                f"function of sources, hypotheses and references"
            )
        metrics[path] = cast(Metric, metric)
    return metrics


def evaluate(
    metrics: Mapping[str, Metric],
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    confidence: int = 0,
) -> list[Score]:
    """Scores translations by metrics of your own.

    Args:
        metrics: the metrics by name.
        sources: the sources, one string per sentence.
        hypotheses: the translations, in the same order.
        references: the reference translations, in the same order.
        confidence: the number of bootstrap samples for `Score.interval`, of a metric
            that gives a number for each sentence; 0 for none.

    Raises:
        InputError: where a metric raises an error or returns something else than
            numbers, or counts differ.

    Example:

    >>> from keras_transformer.learned_metrics import evaluate
    >>> def brevity(sources, hypotheses, references):
    ...     return [len(r) / len(h) for h, r in zip(hypotheses, references)]
    >>> print(*evaluate({"brevity": brevity}, ["a b"], ["x y z"], ["x z"]))
    brevity = 0.6000 (brevity)
    """
    texts = {"sources": sources, "hypotheses": hypotheses, "references": references}
    check_texts(**texts)
    columns = [list(lines) for lines in texts.values()]
    scores: list[Score] = []
    for path, metric in metrics.items():
        values = _values(path, metric, *columns)
        signature, interval = path, None
        if confidence and isinstance(values, np.ndarray):
            interval = _interval(values, confidence)
            signature = f"{path}|bs:{confidence}|seed:{_SEED}"
        name = path.rpartition(":")[2]
        scores.append(MetricScore(name, float(np.mean(values)), signature, interval))
    return scores


def of_sentences(
    path: str,
    metric: Metric,
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[str] | None,
) -> list[float]:
    """A number for each translation.

    Args:
        path: the name of the metric, for messages.
        metric: the metric.
        sources: the source of each translation.
        hypotheses: the translations.
        references: the reference of each, or None.

    Raises:
        InputError: where the metric raises an error, or returns something else, or
            one number for all.
    """
    others = None if references is None else list(references)
    values = _values(path, metric, list(sources), list(hypotheses), others)
    if not isinstance(values, np.ndarray):
        raise InputError(
            f"the metric {path} returned one number for all translations; here it must "
            f"return a list with a number for each"
        )
    return values.tolist()


def _values(
    path: str,
    metric: Metric,
    sources: list[str],
    hypotheses: list[str],
    references: list[str] | None,
) -> np.ndarray | float:
    """What a metric returns: a number for each sentence, or one."""
    try:
        returned: Any = metric(sources, hypotheses, references)
    except Exception as error:
        if out_of_memory(error):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        frames = frames[1:] or frames  # without this one
        own = [frame for frame in frames if frame.filename == frames[0].filename]
        raise InputError(
            f"the metric {path} failed in {own[-1].filename}, line {own[-1].lineno}: "
            f"{type(error).__name__}: {error}; mend the metric"
        ) from error
    try:
        values = np.asarray(returned, float)
    except (TypeError, ValueError):
        raise InputError(
            f"the metric {path} returned {type(returned).__name__} that holds no "
            f"numbers; return a list of numbers, or one number"
        ) from None
    if values.ndim and values.shape != (len(hypotheses),):
        raise InputError(
            f"the metric {path} returned numbers of shape {values.shape} for "
            f"{len(hypotheses)} translations; return one for each"
        )
    if not np.isfinite(values).all():
        raise InputError(
            f"the metric {path} returned a number that is not finite; mend it there"
        )
    return values if values.ndim else float(values)


def _interval(values: np.ndarray, samples: int) -> float:
    """Half the width of the 95 % confidence interval of the mean."""
    random = np.random.default_rng(_SEED)
    count = len(values)
    means = [values[random.integers(count, size=count)].mean() for _ in range(samples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(high - low) / 2
