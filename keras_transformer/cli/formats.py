"""Output formats of commands: text, JSON lines, and one JSON list."""

import enum
import json
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import TypedDict

from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis
    from keras_transformer.translation.hypothesis import TranslationScore


class Format(enum.StrEnum):
    """The output format: text or JSON lines."""

    text = "text"
    jsonl = "jsonl"


class Details(TypedDict):
    """Arguments of `Translator.translate` that an output needs."""

    return_details: bool
    return_token_scores: bool
    return_alignments: bool
    return_attention_weights: bool


def asked(format: Format, attention: bool) -> Details:
    """The details that an output shows."""
    if attention and format is Format.text:
        raise InputError("--attention needs JSON lines; add --format jsonl")
    is_full = format is Format.jsonl
    return Details(
        return_details=True,
        return_token_scores=is_full,
        return_alignments=is_full,
        return_attention_weights=attention,
    )


def _as_text(number: int, hypotheses: "list[Hypothesis]", top_beams: int) -> str:
    """The translation; several come with line number, rank and score before each.

    With MBR the score is the utility, by which it ranks.
    """
    if top_beams == 1:
        return f"{hypotheses[0].text}\n"
    rows = []
    for rank, hypothesis in enumerate(hypotheses, 1):
        by = hypothesis.score if hypothesis.utility is None else hypothesis.utility
        text = hypothesis.text.replace("\t", " ")  # of a line that was split
        rows.append(f"{number}\t{rank}\t{by:.6f}\t{text}\n")
    return "".join(rows)


def written(
    format: Format,
    first_line: int,
    sources: list[str],
    hypotheses: "list[list[Hypothesis]]",
    unknown: list[list[str] | None],
    top_beams: int,
) -> str:
    """The output for consecutive lines."""
    rows = zip(sources, hypotheses, unknown, strict=True)
    return "".join(
        _translation_line(source, row, words)
        if format is Format.jsonl
        else _as_text(number, row, top_beams)
        for number, (source, row, words) in enumerate(rows, first_line)
    )


def _translation_line(
    source: str, hypotheses: "list[Hypothesis]", unknown_words: list[str] | None = None
) -> str:
    """A line of text and its translations, best first, as one JSON object.

    Includes the words that the model has not learned, where its vocabulary of words is
    known.
    """
    row = {"source": source, "hypotheses": list(map(_hypothesis, hypotheses))}
    if unknown_words is not None:
        row["unknown_words"] = unknown_words
    return _line(row)


def score_line(
    source: str, target: str, score: "TranslationScore", metrics: Mapping[str, float]
) -> str:
    """A line of text, a given translation and its scores, as one JSON object."""
    keys = ("log_probability", "tokens", "token_scores")
    values = {key: getattr(score, key) for key in keys}
    if metrics:
        values["metrics"] = metrics
    return _line({"source": source, "target": target, **values})


def score_text(score: "TranslationScore", metrics: Mapping[str, float]) -> str:
    """The log-probability of a translation, and the numbers of metrics."""
    values = (score.log_probability, *metrics.values())
    return "\t".join(f"{value:.6f}" for value in values) + "\n"


def _hypothesis(hypothesis: "Hypothesis") -> dict[str, Any]:
    keys = ("text", "score", "log_probability", "finished", "tokens", "token_scores")
    row = {key: getattr(hypothesis, key) for key in keys}
    row["token_scores"] = row["token_scores"] or []
    row["alignment"] = hypothesis.pharaoh or ""
    for key in ("utility", "prefix_log_probability"):
        if getattr(hypothesis, key) is not None:
            row[key] = getattr(hypothesis, key)
    if hypothesis.attention is not None:
        row["source_tokens"] = hypothesis.source_tokens
        row["attention"] = []  # of an empty line
        if (mean := hypothesis.mean_attention) is not None:
            # As float64, a rounded number has few digits in JSON.
            mean = mean.astype("float64")
            row["attention"] = mean.round(4).tolist()
    return row


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Prints one indented JSON list."""
    print(json.dumps(list(rows), indent=2, ensure_ascii=False))
