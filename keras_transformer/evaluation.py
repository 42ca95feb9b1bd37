"""Strings to BLEU, chrF and TER, through sacreBLEU and with its signatures."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

import sacrebleu
from sacrebleu.metrics.base import Metric

from keras_transformer.errors import InputError

METRICS = ("bleu", "chrf", "ter")

#: How BLEU can split text into words: `"13a"` for European languages, `"zh"` and
#: `"char"` for Chinese, `"none"` for text that is tokenized already; `"ja-mecab"` and
#: `"ko-mecab"` need `sacrebleu[ja]` and `sacrebleu[ko]`, `"flores..."` a download.
TOKENIZATIONS = tuple(sacrebleu.BLEU.TOKENIZERS)


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score, with all that is needed to compare it.

    Args:
        name: as sacreBLEU spells it: `"BLEU"`, `"chrF2"` or `"TER"`.
        score: in percent; higher is better, but for TER.
        signature: sacreBLEU's: how the score was computed, and by which version.
        interval: half the width of the 95 % confidence interval; None without
            bootstrap.

    `str` of it is one line for a report:

    >>> print(Score("BLEU", 38.9312, "nrefs:1|case:mixed"))
    BLEU = 38.93 (nrefs:1|case:mixed)
    """

    name: str
    score: float
    signature: str
    interval: float | None = None

    def __str__(self) -> str:
        interval = "" if self.interval is None else f" ± {self.interval:.2f}"
        return f"{self.name} = {self.score:.2f}{interval} ({self.signature})"


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    metrics: Sequence[str] = METRICS,
    confidence: int = 0,
) -> list[Score]:
    """Scores translations against one reference each.

    The scores are sacreBLEU's, with its defaults. TER therefore ignores case
    whatever `lowercase` says; its signature shows that.

    Args:
        hypotheses: the translations, one string a sentence.
        references: the right answers, in the same order.
        tokenize: how BLEU splits text into words: one of `TOKENIZATIONS`.
        lowercase: BLEU and chrF ignore case.
        metrics: which of `METRICS`, in the order of the result.
        confidence: samples of the bootstrap that estimates `Score.interval`; 0 for
            none, 1000 is usual.

    Returns:
        One `Score` a metric.

    Raises:
        InputError: no sentences, unequal counts, or an unknown option.

    Example:

    >>> bleu, = evaluate(["Ein Mann schläft ."], ["Ein Mann schläft ."],
    ...                  metrics=["bleu"])
    >>> bleu.name, round(bleu.score, 2)
    ('BLEU', 100.0)

    Reference: Post, 2018, [A Call for Clarity in Reporting BLEU Scores](
    https://arxiv.org/abs/1804.08771).
    """
    _check_texts(hypotheses, references)
    if tokenize not in TOKENIZATIONS:
        raise InputError(
            f"unknown tokenization {tokenize!r} for BLEU; use one of "
            f"{', '.join(TOKENIZATIONS)}"
        )
    if confidence < 0 or confidence == 1:
        raise InputError(
            f"confidence {confidence} is not a number of bootstrap samples; use 0 for "
            f"none, or 1000"
        )
    return [
        _score(_metric(name, tokenize, lowercase), hypotheses, references, confidence)
        for name in metrics
    ]


def _check_texts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise InputError(
            "hypotheses and references are lists with one string a sentence, but one "
            "of them is a single string; put it into a list"
        )
    if len(hypotheses) != len(references):
        raise InputError(
            f"{len(hypotheses)} hypotheses but {len(references)} references; give one "
            f"reference for each hypothesis, in the same order"
        )
    if not hypotheses:
        raise InputError("there is nothing to score; give at least one hypothesis")


def _metric(name: str, tokenize: str, lowercase: bool) -> Metric:
    if name == "bleu":
        # Without force, sacreBLEU logs a warning where the text is tokenized, which
        # is just what "none" is for.
        force = tokenize == "none"
        try:
            return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=force)
        except (ImportError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"tokenization {tokenize!r} is not installed ({reason}); install what "
                f"it needs, or use another one"
            ) from error
    if name == "chrf":
        return sacrebleu.CHRF(lowercase=lowercase)
    if name == "ter":
        return sacrebleu.TER()
    raise InputError(f"unknown metric {name!r}; use one of {', '.join(METRICS)}")


def _score(
    metric: Metric,
    hypotheses: Sequence[str],
    references: Sequence[str],
    confidence: int,
) -> Score:
    result = metric.corpus_score(hypotheses, [references], n_bootstrap=confidence)
    signature = str(metric.get_signature())
    interval = None
    if confidence:
        # sacreBLEU tells the interval in its printed forms alone, and leaves it out
        # where the mean of all samples is zero.
        printed = json.loads(result.format(6, signature=signature, is_json=True))
        interval = printed.get("confidence_var", 0.0)
    return Score(result.name, result.score, signature, interval)
