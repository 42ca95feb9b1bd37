"""Evaluation metrics BLEU, chrF and TER of translations, by sacreBLEU."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest
from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from keras_transformer.arguments import check_texts
from keras_transformer.errors import InputError

__all__ = [
    "METRICS",
    "TOKENIZATIONS",
    "Comparison",
    "Score",
    "compare",
    "evaluate",
]

METRICS = ("bleu", "chrf", "ter")

#: One reference per sentence, or a list of such lists.
References = Sequence[str] | Sequence[Sequence[str]]

#: Tokenizations of BLEU: `"13a"` for European languages, `"zh"` and `"char"` for
#: Chinese, `"none"` for tokenized text; `"ja-mecab"` and `"ko-mecab"` need
#: `sacrebleu[ja]` and `sacrebleu[ko]`, `"flores..."` a download. Besides these,
#: `"moses-de"` normalizes and tokenizes as Moses does for a language, and needs
#: `sacremoses`.
TOKENIZATIONS = tuple(sacrebleu.BLEU.TOKENIZERS)
_MOSES = "moses-"


@dataclasses.dataclass(frozen=True)
class Score:
    """One corpus score, with all that is needed to compare it.

    Args:
        name: as sacreBLEU spells it: `"BLEU"`, `"chrF2"`, `"chrF2++"` or `"TER"`.
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

    @property
    def rounded(self) -> str:
        """The score and its interval, as reports show them."""
        interval = "" if self.interval is None else f" ± {self.interval:.2f}"
        return f"{self.score:.2f}{interval}"

    def __str__(self) -> str:
        return f"{self.name} = {self.rounded} ({self.signature})"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two systems by one metric, on the same sentences.

    Args:
        baseline: the score of the one.
        score: the score of the other.
        p_value: how likely so large a difference is if there is none between them;
            below 0.05 it is called significant.
    """

    baseline: Score
    score: Score
    p_value: float


def evaluate(
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    metrics: Sequence[str] = METRICS,
    confidence: int = 0,
    chrf_word_order: int = 0,
) -> list[Score]:
    """Scores translations against one reference each, or several.

    The scores are sacreBLEU's, with its defaults: TER ignores case whatever `lowercase`
    is, as its signature shows.

    Args:
        hypotheses: the translations, one string per sentence.
        references: the reference translations, in the same order; or a list of several
            such lists, each with a reference of every hypothesis, as in sacreBLEU.
        tokenize: how BLEU splits text into words: one of `TOKENIZATIONS`, or
            `"moses-de"`, with any language that Moses knows. Lower-cased,
            Moses-tokenized BLEU ("lc.tok") of papers is this with `lowercase`; for text
            that is already lower-cased and tokenized use `"none"`.
        lowercase: BLEU and chrF ignore case.
        metrics: which of `METRICS`, in the order of the result.
        confidence: the number of bootstrap samples for `Score.interval`; 0 for none,
            1000 is usual.
        chrf_word_order: the longest word n-grams that chrF counts besides its character
            n-grams; 2 is chrF++.

    Returns:
        One `Score` per metric.

    Raises:
        InputError: where there are no sentences, counts differ, or an option is
            unknown.

    Example:

    >>> bleu, = evaluate(["Ein Mann schläft ."], ["Ein Mann schläft ."],
    ...                  metrics=["bleu"])
    >>> bleu.name, round(bleu.score, 2)
    ('BLEU', 100.0)
    >>> evaluate(["Ein Mann ruht ."], [["Ein Mann schläft ."], ["Ein Mann ruht ."]],
    ...          metrics=["bleu"])[0].signature.partition("|")[0]
    'nrefs:2'

    Reference: Post, 2018, [A Call for Clarity in Reporting BLEU Scores](
    https://arxiv.org/abs/1804.08771).
    """
    (hypotheses,), references = _texts(references, hypotheses=hypotheses)
    selected = _chosen(metrics, tokenize, lowercase, confidence, chrf_word_order)
    if confidence:
        results = _bootstrap([hypotheses], references, selected, confidence)
        return [scores[0] for scores, _ in results]
    return [_score(metric, hypotheses, references) for metric in selected.values()]


def check_options(
    *, tokenize: str, lowercase: bool, confidence: int = 0, chrf_word_order: int = 0
) -> None:
    """Checks options of `evaluate` early, before long work.

    Args:
        tokenize: see `evaluate`, like the others.
        lowercase: see `tokenize`.
        confidence: see `tokenize`.
        chrf_word_order: see `tokenize`.

    Raises:
        InputError: as `evaluate` does.
    """
    _chosen(["bleu"], tokenize, lowercase, confidence, chrf_word_order)


def check_tokenization(name: str) -> None:
    """Refuses an unknown name for `tokenize`; does not check what is installed.

    Raises:
        InputError: for a name that is neither in `TOKENIZATIONS` nor Moses'.
    """
    if name not in TOKENIZATIONS and not name.startswith(_MOSES):
        raise InputError(
            f"unknown tokenization {name!r} for BLEU; use one of "
            f"{', '.join(TOKENIZATIONS)}, or {_MOSES} and a language"
        )


def compare(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: References,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    metrics: Sequence[str] = METRICS,
    confidence: int = 1000,
    chrf_word_order: int = 0,
) -> list[Comparison]:
    """Compares the translations of two systems by paired bootstrap, with sacreBLEU.

    Each sample draws sentences with replacement, the same for both systems. The random
    seed is fixed, unless the variable `SACREBLEU_SEED` sets it.

    Args:
        hypotheses: the translations of one system, one string per sentence.
        baseline: the translations of the system to compare with.
        references: see `evaluate`.
        tokenize: see `evaluate`.
        lowercase: see `evaluate`.
        metrics: see `evaluate`.
        confidence: the number of bootstrap samples.
        chrf_word_order: see `evaluate`.

    Returns:
        One `Comparison` per metric.

    Raises:
        InputError: where there are no sentences, counts differ, or an option is
            unknown.

    Example:

    >>> bleu, = compare(["Ein Mann schläft ."] * 9, ["Ein Mann ruht ."] * 9,
    ...                 ["Ein Mann schläft ."] * 9, metrics=["bleu"])
    >>> bleu.score.score > bleu.baseline.score, bleu.p_value < 0.05
    (True, True)

    Reference: Koehn, 2004, [Statistical Significance Tests for Machine Translation
    Evaluation](https://aclanthology.org/W04-3250).
    """
    (hypotheses, baseline), references = _texts(
        references, hypotheses=hypotheses, baseline=baseline
    )
    if confidence < 2:
        raise InputError(
            f"confidence {confidence} is not a number of bootstrap samples; use 1000"
        )
    selected = _chosen(metrics, tokenize, lowercase, confidence, chrf_word_order)
    results = _bootstrap([baseline, hypotheses], references, selected, confidence)
    return [
        Comparison(baseline_score, score, p_value)
        for (baseline_score, score), p_value in results
    ]


def _chosen(
    metrics: Sequence[str],
    tokenize: str,
    lowercase: bool,
    confidence: int,
    chrf_word_order: int,
) -> dict[str, Metric]:
    if not isinstance(confidence, int) or confidence < 0 or confidence == 1:
        raise InputError(
            f"confidence {confidence} is not a number of bootstrap samples; use 0 for "
            f"none, or 1000"
        )
    if isinstance(metrics, str):
        raise InputError(f"metrics must be a list of names, got {metrics!r}")
    if chrf_word_order < 0:
        raise InputError(
            f"chrf_word_order {chrf_word_order} is below 0; use 0 for chrF, 2 for "
            f"chrF++"
        )
    return {
        name: _metric(name, tokenize, lowercase, chrf_word_order) for name in metrics
    }


def _score(metric: Metric, hypotheses: list[str], references: list[list[str]]) -> Score:
    result = metric.corpus_score(hypotheses, references)
    return Score(result.name, float(result.score), str(metric.get_signature()))


def _bootstrap(
    systems: Sequence[Sequence[str]],
    references: list[list[str]],
    metrics: Mapping[str, Metric],
    num_samples: int,
) -> Iterator[tuple[list[Score], Any]]:
    """The scores of one or two systems by metric, and the p-value of two."""
    test: Any = PairedTest(  # whose results may be text by their type alone
        [(str(number), system) for number, system in enumerate(systems)],
        metrics,
        references,
        test_type="bs",
        n_samples=num_samples,
    )
    signatures, results = test()
    for name, signature in signatures.items():
        scores = [
            Score(name, float(result.score), str(signature), float(result.ci))
            for result in results[name]
        ]
        p_value = results[name][-1].p_value
        # sacreBLEU counts samples that differ by more than the systems do. Equal
        # systems never differ, so its p-value would call them different.
        if p_value is not None and scores[0].score == scores[1].score:
            p_value = 1.0
        yield scores, p_value


def _texts(
    references: References, **columns: Sequence[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """The columns and the references as lists, which sacreBLEU expects."""
    answers = {"references": references}
    if _are_several(references):
        answers = {f"references[{i}]": texts for i, texts in enumerate(references)}
    check_texts(**columns, **answers)
    if not all(map(len, columns.values())):
        raise InputError("there is nothing to score; give at least one hypothesis")
    return _lists(columns), _lists(answers)


def _lists(texts: Mapping[str, Any]) -> list[list[str]]:
    return [list(lines) for lines in texts.values()]


def _are_several(references: References) -> bool:
    return (
        isinstance(references, Collection)
        and len(references) > 0
        and all(
            isinstance(item, Collection) and not isinstance(item, str | bytes)
            for item in references
        )
    )


def _metric(name: str, tokenize: str, lowercase: bool, chrf_word_order: int) -> Metric:
    if name == "bleu":
        return _bleu(tokenize, lowercase)
    if name == "chrf":
        return sacrebleu.CHRF(lowercase=lowercase, word_order=chrf_word_order)
    if name == "ter":
        return sacrebleu.TER()
    raise InputError(f"unknown metric {name!r}; use one of {', '.join(METRICS)}")


def _bleu(tokenize: str, lowercase: bool) -> sacrebleu.BLEU:
    check_tokenization(tokenize)
    try:
        if tokenize.startswith(_MOSES):
            moses = _MosesTokenizer(tokenize.removeprefix(_MOSES))
            bleu = sacrebleu.BLEU(tokenize="none", lowercase=lowercase, force=True)
            bleu.tokenizer, bleu.tokenizer_signature = moses, moses.signature()
            return bleu
        # Without force, sacreBLEU warns about tokenized text, which is the purpose of
        # "none".
        force = tokenize == "none"
        return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=force)
    except (ImportError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"tokenization {tokenize!r} is not installed ({reason}); install what it "
            f"needs, or use another one"
        ) from error


class _MosesTokenizer(BaseTokenizer):
    """Moses' scripts `normalize-punctuation` and `tokenizer` as a sacreBLEU tokenizer.

    Args:
        language: a code that Moses knows, such as `"de"`.

    Raises:
        InputError: where Moses has no rules for the language.
        ImportError: without `sacremoses`.
    """

    def __init__(self, language: str) -> None:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes

        languages = set(NonbreakingPrefixes().available_langs.values())
        if language not in languages:  # sacremoses would fall back to English
            raise InputError(
                f"Moses has no rules for the language {language!r}; use one of "
                f"{', '.join(sorted(languages))}"
            )
        self._signature = f"moses-{language}-{sacremoses.__version__}"
        self._normalizer = sacremoses.MosesPunctNormalizer(language)
        self._tokenizer = sacremoses.MosesTokenizer(language)

    def signature(self) -> str:
        """The name and version, for a signature of sacreBLEU."""
        return self._signature

    def __call__(self, line: str) -> str:
        """The line with its tokens separated by spaces."""
        # The scripts read a line with its line end, which one of their rules needs.
        normal = self._normalizer.normalize(f"{line}\n")
        return self._tokenizer.tokenize(normal, return_str=True)
