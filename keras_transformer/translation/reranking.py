"""Reranking of hypotheses by a metric of your own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from keras_transformer import learned_metrics
from keras_transformer.learned_metrics import Metric
from keras_transformer.translation import minimum_bayes_risk

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis


def by_quality(
    rows: Sequence[list[Hypothesis]], sources: Sequence[str], path: str, metric: Metric
) -> list[list[Hypothesis]]:
    """The hypotheses of each line by a metric that needs no reference, the best first.

    The metric is called once. `utility` of each is its number; ties keep their order.

    Args:
        rows: the hypotheses of each line.
        sources: the lines.
        path: the name of the metric, for messages.
        metric: a metric that gives a number for each translation.
    """
    values = learned_metrics.of_sentences(
        path,
        metric,
        [source for source, row in zip(sources, rows, strict=True) for _ in row],
        [hypothesis.text for hypothesis in chain.from_iterable(rows)],
        None,
    )
    following = iter(values)
    valued = [
        [dataclasses.replace(h, utility=next(following)) for h in r] for r in rows
    ]
    return [sorted(row, key=lambda h: -(h.utility or 0.0)) for row in valued]


def by_risk(
    rows: Sequence[list[Hypothesis]],
    sources: Sequence[str],
    path: str,
    metric: Metric,
    *,
    sampled: bool,
) -> list[list[Hypothesis]]:
    """The hypotheses of each line by minimum Bayes risk, with a metric as its utility.

    `utility` of each is the mean of the metric with every hypothesis as reference.

    Args:
        rows: the hypotheses of each line.
        sources: the lines.
        path: the name of the metric, for messages.
        metric: a metric that gives a number for each translation.
        sampled: whether they are samples, which count equally.
    """
    return [
        [
            dataclasses.replace(row[place], utility=utility)
            for place, utility in minimum_bayes_risk.ranked(
                [hypothesis.text for hypothesis in row],
                [hypothesis.log_probability for hypothesis in row],
                metric,
                sampled=sampled,
                source=source,
                path=path,
            )
        ]
        for source, row in zip(sources, rows, strict=True)
    ]
