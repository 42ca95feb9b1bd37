"""What a `Translator` says of one line."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """One translation of one line.

    Args:
        text: the translation.
        tokens: its pieces, `▁` for a space, without the end token.
        ids: the same as ids, with the end token where there is one.
        log_probability: natural, of all `ids`.
        score: `log_probability` / length penalty.
        finished: False where the length limit cut it.
        attention: where asked for, float32 weights of each layer: `"encoder"`
            (N, H, S, S), `"decoder"` (N, H, T, T) and `"cross"` (N, H, T, S); row t of
            the T is what position t, which predicts `ids[t]`, attends to.
        source_tokens: the pieces of the source that the last axis of `"cross"` has.
    """

    text: str
    tokens: list[str]
    ids: list[int]
    log_probability: float
    score: float
    finished: bool
    attention: dict[str, np.ndarray] | None = None
    source_tokens: list[str] | None = None


@dataclasses.dataclass(frozen=True)
class TranslationScore:
    """What a model thinks of a given translation: natural log, end token included."""

    log_probability: float
    num_tokens: int
