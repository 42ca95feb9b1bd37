"""Warnings about settings with which a run learns less than it could."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence

from keras_transformer.training.config.training_section import TrainingSection

_MANY = 3  # validations with BLEU 0 before the warning
_FAR_BELOW = 0.9


def of_training(training: TrainingSection) -> Iterator[str]:
    """Warnings about the `training` section of a config, before the first step."""
    if training.warmup_steps > training.steps:
        yield (
            f"training.warmup_steps {training.warmup_steps} is beyond the "
            f"{training.steps} training.steps: the learning rate never reaches its "
            f"peak; lower warmup_steps"
        )


def of_bleu(values: Sequence[float | None], is_done: bool, is_warm: bool) -> str | None:
    """A warning where BLEU was 0 in all validations, or None.

    Args:
        values: BLEU of each validation so far; None of steps without one.
        is_done: whether the training has ended.
        is_warm: whether the warm-up is over.
    """
    scores = [value for value in values if value is not None]
    is_time = is_done or (is_warm and len(scores) == _MANY)
    if not scores or any(scores) or not is_time:
        return None
    return (
        f"BLEU was 0 in all {len(scores)} validations; look at the translations in "
        "logs/, check that source and target lines match, and check "
        "training.learning_rate and training.warmup_steps"
    )


def of_the_end(scores: Sequence[tuple[int, float]], metric: str) -> str | None:
    """A warning where the last validation is far below the best one, or None.

    Args:
        scores: `(step, value)` of each validation, higher is better.
        metric: what the values are; only BLEU and chrF have a zero to compare with.
    """
    if len(scores) < 2 or metric not in ("bleu", "chrf"):
        return None
    best, (last, value) = max(scores, key=lambda score: score[1]), scores[-1]
    if value >= _FAR_BELOW * best[1]:
        return None
    return (
        f"val_{metric} is {value:.4g} at step {last} and was {best[1]:.4g} at step "
        f"{best[0]}, of which best/ has the model; a lower training.learning_rate or a "
        f"longer training.warmup_steps may help"
    )
