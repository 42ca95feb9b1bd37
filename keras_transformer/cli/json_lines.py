"""JSON lines: what commands write as one JSON object on one line."""

import json
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis
    from keras_transformer.translation.hypothesis import TranslationScore


def of_translation(
    source: str, hypotheses: "list[Hypothesis]", unknown_words: list[str] | None = None
) -> str:
    """A line of text and its translations, best first.

    With the words that the model has not learned, where that is known.
    """
    row = {"source": source, "hypotheses": list(map(_hypothesis, hypotheses))}
    if unknown_words is not None:
        row["unknown_words"] = unknown_words
    return _line(row)


def of_score(source: str, target: str, score: "TranslationScore") -> str:
    """A line of text, a translation that was given, and what the model says of it."""
    keys = ("log_probability", "tokens", "token_scores")
    found = {key: getattr(score, key) for key in keys}
    return _line({"source": source, "target": target, **found})


def _hypothesis(hypothesis: "Hypothesis") -> dict[str, Any]:
    keys = ("text", "score", "log_probability", "finished", "tokens", "token_scores")
    found = {key: getattr(hypothesis, key) for key in keys}
    found["token_scores"] = found["token_scores"] or []
    found["alignment"] = hypothesis.pharaoh or ""
    for key in ("utility", "prefix_log_probability"):
        if getattr(hypothesis, key) is not None:
            found[key] = getattr(hypothesis, key)
    if hypothesis.attention is not None:
        found["source_tokens"] = hypothesis.source_tokens
        found["attention"] = []  # of an empty line
        if hypothesis.attention:
            # In float64 a rounded number has few digits in JSON.
            mean = hypothesis.mean_attention.astype("float64")
            found["attention"] = mean.round(4).tolist()
    return found


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
