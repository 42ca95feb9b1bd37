"""Output formats of `translate`: the hypotheses of a line as text, JSON or a list."""

import enum
from typing import TYPE_CHECKING

from keras_transformer.cli import json_lines
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.translation.hypothesis import Hypothesis


class Format(enum.StrEnum):
    """What is written of each line."""

    text = "text"
    jsonl = "jsonl"


def asked(format: Format, attention: bool) -> dict[str, bool]:
    """What `Translator.translate` must return, for it to be written."""
    if attention and format is Format.text:
        raise InputError("--attention is written as JSON alone; add --format jsonl")
    details = format is Format.jsonl
    return {
        "return_details": True,
        "return_token_scores": details,
        "return_alignments": details,
        "return_attention_weights": attention,
    }


def as_text(number: int, hypotheses: "list[Hypothesis]", top_beams: int) -> str:
    """The translation; of several, each with line number, rank and score before it.

    The score of MBR is the utility, by which it ranks.
    """
    if top_beams == 1:
        return f"{hypotheses[0].text}\n"
    rows = []
    for rank, hypothesis in enumerate(hypotheses, 1):
        by = hypothesis.score if hypothesis.utility is None else hypothesis.utility
        rows.append(f"{number}\t{rank}\t{by:.6f}\t{hypothesis.text}\n")
    return "".join(rows)


def written(
    format: Format,
    first_line: int,
    sources: list[str],
    found: "list[list[Hypothesis]]",
    unknown: list[list[str] | None],
    top_beams: int,
) -> str:
    """What is written of consecutive lines."""
    rows = zip(sources, found, unknown, strict=True)
    return "".join(
        json_lines.of_translation(source, hypotheses, words)
        if format is Format.jsonl
        else as_text(number, hypotheses, top_beams)
        for number, (source, hypotheses, words) in enumerate(rows, first_line)
    )
