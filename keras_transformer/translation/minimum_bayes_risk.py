"""Minimum Bayes risk (MBR) decoding: ranking of candidates by mutual similarity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from keras_transformer.learned_metrics import Metric

UTILITIES = ("chrf", "bleu")


def expected_utilities(
    texts: Sequence[str], weights: Sequence[float], utility: str
) -> list[float]:
    """The mean similarity of each candidate to all candidates.

    Args:
        texts: the candidates.
        weights: the probability of each as a reference: equal for samples, the
            probabilities for an n-best list.
        utility: `"chrf"` or `"bleu"`, sacreBLEU's scores of single sentences, in
            percent.

    Returns:
        For each candidate the weighted mean of its score with every candidate, itself
        included, as reference.

    Example:

    >>> utilities = expected_utilities(["a b c", "a b d", "x"], [1, 1, 1], "chrf")
    >>> utilities[2] < min(utilities[:2])
    True

    Reference: Kumar and Byrne, 2004, https://aclanthology.org/N04-1022; Eikema and
    Aziz, 2020, https://arxiv.org/abs/2005.10283.
    """
    import sacrebleu

    if utility not in UTILITIES:
        raise ValueError(f"utility must be one of {UTILITIES}, got {utility!r}")
    # Most pairs of single sentences have no four-word sequence in common.
    metric = (
        sacrebleu.CHRF() if utility == "chrf" else sacrebleu.BLEU(effective_order=True)
    )
    shares: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        shares[text] = shares.get(text, 0.0) + float(weight)
    total = sum(shares.values())
    means = {
        text: sum(
            share * metric.sentence_score(text, [reference]).score
            for reference, share in shares.items()
        )
        / total
        for text in shares
    }
    return [means[text] for text in texts]


def expected_metric(
    texts: Sequence[str],
    weights: Sequence[float],
    utility: Metric,
    source: str,
    path: str = "utility",
) -> list[float]:
    """Like `expected_utilities`, by a metric of your own.

    Args:
        texts: the candidates.
        weights: the probability of each as a reference.
        utility: a metric that gives a number for each translation; it is called once,
            with each pair of different candidates.
        source: the sentence that they translate.
        path: the name of the metric, for messages.
    """
    from keras_transformer import learned_metrics

    shares: dict[str, float] = {}
    for text, weight in zip(texts, weights, strict=True):
        shares[text] = shares.get(text, 0.0) + float(weight)
    count, different = len(shares), list(shares)
    values = learned_metrics.of_sentences(
        path,
        utility,
        [source] * count**2,
        [text for text in different for _ in different],
        different * count,
    )
    weighed = np.reshape(values, (count, count)) @ np.array([*shares.values()])
    means = dict(zip(different, weighed / sum(shares.values()), strict=True))
    return [float(means[text]) for text in texts]


def ranked(
    texts: Sequence[str],
    log_probabilities: Sequence[float],
    utility: str | Metric,
    *,
    sampled: bool,
    source: str = "",
    path: str = "utility",
) -> list[tuple[int, float]]:
    """Indices of the candidates and their utilities, the best first.

    Ties go to the more probable candidate, then to the earlier one.

    Args:
        texts: the candidates.
        log_probabilities: the model's log-probabilities of the candidates.
        utility: see `expected_utilities`, or `expected_metric`.
        sampled: whether they are samples.
        source: the sentence that they translate, for a metric.
        path: the name of the metric, for messages.
    """
    logs = np.asarray(log_probabilities, "float64")
    weights = np.ones(len(texts)) if sampled else np.exp(logs - logs.max())
    if isinstance(utility, str):
        means = expected_utilities(texts, weights.tolist(), utility)
    else:
        means = expected_metric(texts, weights.tolist(), utility, source, path)
    order = sorted(range(len(texts)), key=lambda i: (-round(means[i], 9), -logs[i], i))
    return [(place, means[place]) for place in order]
