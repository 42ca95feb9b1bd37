"""How `translate` writes the hypotheses of a line."""

import enum
import json
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis


class Format(enum.StrEnum):
    """What is written of each line."""

    text = "text"
    jsonl = "jsonl"


def as_json(source: str, hypotheses: "list[Hypothesis]") -> str:
    """One JSON object on one line."""
    found = [_as_object(hypothesis) for hypothesis in hypotheses]
    row = {"source": source, "hypotheses": found}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _as_object(hypothesis: "Hypothesis") -> dict[str, Any]:
    keys = ("text", "score", "log_probability", "finished", "tokens", "token_scores")
    found = {key: getattr(hypothesis, key) for key in keys}
    found["token_scores"] = found["token_scores"] or []
    found["alignment"] = hypothesis.pharaoh or ""
    if hypothesis.utility is not None:
        found["utility"] = hypothesis.utility
    return found


def as_text(number: int, hypotheses: "list[Hypothesis]", top_beams: int) -> str:
    """The translation; of several, each with line number, rank and score before it."""
    if top_beams == 1:
        return f"{hypotheses[0].text}\n"
    return "".join(
        f"{number}\t{rank}\t{h.score:.6f}\t{h.text}\n"
        for rank, h in enumerate(hypotheses, 1)
    )


def written(
    format: Format,
    first_line: int,
    sources: list[str],
    found: "list[list[Hypothesis]]",
    top_beams: int,
) -> str:
    """What is written of consecutive lines."""
    rows = zip(sources, found, strict=True)
    return "".join(
        as_json(source, hypotheses)
        if format is Format.jsonl
        else as_text(number, hypotheses, top_beams)
        for number, (source, hypotheses) in enumerate(rows, first_line)
    )
