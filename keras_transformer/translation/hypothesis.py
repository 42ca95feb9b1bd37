"""Hypotheses: results of a `Translator` for one line."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.translation import minimum_bayes_risk
from keras_transformer.translation.long_lines import LinePart
from keras_transformer.translation.long_lines import space_after

#: What is wrong where a search finds no hypothesis of a sentence.
NOTHING_LEFT = (
    "the options forbid every token before a translation can end; suppress fewer, or "
    "allow repetitions"
)


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One translation of one line.

    Args:
        text: the translation.
        tokens: the subwords of the translation, `▁` for a space, without the end token.
        ids: the ids of the tokens, with the end token where there is one; for a split
            line, that of its last part.
        log_probability: natural logarithm, of all `ids` but a forced prefix, as the
            search computes it (a repetition penalty, for instance, changes it); for a
            split line, with the end tokens of all parts.
        score: the value that ranks hypotheses: `log_probability` normalized for length
            (a forced prefix counts in the length), with a coverage penalty.
        finished: False where the length limit cut it off.
        attention: if requested, float32 weights of each layer: `"encoder"` (N, H, S,
            S), `"decoder"` (N, H, T, T) and `"cross"` (N, H, T, S), as far as the model
            has them; row t of T holds the weights of position t, which predicts
            `ids[t]`. Empty for an empty line.
        source_tokens: the subwords of the source, along the last axis of `"cross"`.
        token_scores: if requested, the model's log-probability of each of `ids`.
        alignment: if requested, pairs of source and target word numbers, from 0.
        utility: with MBR, the value that ranks: the mean similarity to all candidates,
            in percent.
        prefix_log_probability: the model's log-probability of a forced prefix; None
            without one.
    """

    text: str
    tokens: list[str]
    ids: list[int]
    log_probability: float
    score: float
    finished: bool
    attention: dict[str, np.ndarray] | None = None
    source_tokens: list[str] | None = None
    token_scores: list[float] | None = None
    alignment: list[tuple[int, int]] | None = None
    utility: float | None = None
    prefix_log_probability: float | None = None

    @property
    def pharaoh(self) -> str | None:
        """The alignment as `"0-0 1-2"`."""
        if self.alignment is None:
            return None
        return " ".join(f"{i}-{j}" for i, j in self.alignment)

    @property
    def mean_attention(self) -> np.ndarray | None:
        """(T, S), the mean over layers and heads of `"cross"`, or None."""
        return self.attention["cross"].mean((0, 1)) if self.attention else None


def empty(
    token_scores: bool = False, alignment: bool = False, attention: bool = False
) -> Hypothesis:
    """The translation of an empty line, with the requested details."""
    return Hypothesis(
        *("", [], [], 0.0, 0.0, True),
        attention={} if attention else None,
        source_tokens=[] if attention else None,
        token_scores=[] if token_scores else None,
        alignment=[] if alignment else None,
    )


def ranked(hypotheses: list[Hypothesis], options: DecodingOptions) -> list[Hypothesis]:
    """The returned hypotheses of a sentence, ranked by MBR if the options say so."""
    if options.mbr is None:
        return hypotheses
    places = minimum_bayes_risk.ranked(
        [hypothesis.text for hypothesis in hypotheses],
        [hypothesis.log_probability for hypothesis in hypotheses],
        options.mbr,
        sampled=options.sampling,
    )
    return [
        dataclasses.replace(hypotheses[place], utility=utility)
        for place, utility in places[: options.top_beams]
    ]


def regrouped(flat: Iterable[Any], rows: Iterable[Iterable[Any]]) -> list[list[Any]]:
    """A flat sequence as lists with the lengths of `rows`."""
    following = iter(flat)
    return [[next(following) for _ in row] for row in rows]


def join(
    parts: Sequence[list[Hypothesis]], sources: Sequence[LinePart]
) -> list[Hypothesis]:
    """The hypotheses of a split line, joined from those of its parts by rank.

    A part with fewer hypotheses repeats its last one. Log-probabilities and scores are
    summed.

    Args:
        parts: the hypotheses of each part, best first.
        sources: the parts of the source.
    """
    if len(parts) == 1:
        return parts[0]
    ranks = range(max(map(len, parts)))
    rows = [[part[min(rank, len(part) - 1)] for part in parts] for rank in ranks]
    return [_joined(row, sources) for row in rows]


def _joined(row: list[Hypothesis], sources: Sequence[LinePart]) -> Hypothesis:
    source, text, alignment = "", "", set()
    for hypothesis, part in zip(row, sources, strict=True):
        separator = part.separator.replace("\n", " ")  # a translation is one line
        offsets = _next_word(source), _next_word(text)
        for i, j in hypothesis.alignment or ():
            alignment.add((i + offsets[0], j + offsets[1]))
        source += part.text + separator
        text += hypothesis.text + (separator or space_after(hypothesis.text))
    # End tokens inside the line are dropped: ids and scores match the tokens.
    counts = [*(len(h.tokens) for h in row[:-1]), len(row[-1].ids)]
    scores = [
        h.token_scores[:count]
        for h, count in zip(row, counts, strict=True)
        if h.token_scores is not None
    ]
    ids = [h.ids[:count] for h, count in zip(row, counts, strict=True)]
    utilities = [h.utility for h in row if h.utility is not None]
    return Hypothesis(
        text=text.removesuffix(separator or space_after(row[-1].text)),
        tokens=[token for hypothesis in row for token in hypothesis.tokens],
        ids=list(chain(*ids)),
        log_probability=sum(hypothesis.log_probability for hypothesis in row),
        score=sum(hypothesis.score for hypothesis in row),
        finished=all(hypothesis.finished for hypothesis in row),
        token_scores=list(chain(*scores)) if len(scores) == len(row) else None,
        alignment=None if row[0].alignment is None else sorted(alignment),
        utility=float(np.mean(utilities)) if len(utilities) == len(row) else None,
        # The prefix of a line is that of its first part.
        prefix_log_probability=row[0].prefix_log_probability,
    )


def _next_word(text: str) -> int:
    """The number of the word that follows a text."""
    return len(text.split()) - (text != "" and not text[-1].isspace())


@dataclasses.dataclass(frozen=True)
class TranslationScore:
    """The score of a given translation: natural logarithm, end token included.

    Args:
        log_probability: the log-probability of the whole translation.
        num_tokens: the number of tokens, with the end token.
        token_scores: the log-probability of each token.
        tokens: the subwords, with the end token.
    """

    log_probability: float
    num_tokens: int
    token_scores: list[float] = dataclasses.field(default_factory=list)
    tokens: list[str] = dataclasses.field(default_factory=list)
