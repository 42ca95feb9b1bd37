"""Validation during training: likelihood, and scores of the model's translations."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias
from typing import cast

from keras_transformer import learned_metrics
from keras_transformer.config.decoding import GREEDY
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.evaluation import evaluate
from keras_transformer.learned_metrics import Metric
from keras_transformer.training.corpora import LanguageCodes
from keras_transformer.training.report import Counting
from keras_transformer.translator import Translator

#: The step and the score of each validation; higher scores are better.
Scores: TypeAlias = Sequence[tuple[int, float]]

_SAMPLES = 5  # number of translations shown in the logs


class Validation:
    """Scores a model on the validation text, with greedy search.

    Args:
        translator: the translator of the trained model.
        text: the `ParallelText` of the validation.
        batches: the batches of the text, for `evaluate`.
        steps: the number of batches.
        metric: the metric that selects the best: `"bleu"`, `"chrf"`, `"loss"`, or the
            name of one of `metrics`.
        options: options of `evaluate`: `tokenize` and `lowercase`.
        languages: arguments of `translate`, for a multilingual model.
        metrics: metrics of the user by name.
    """

    def __init__(
        self,
        translator: Translator,
        text: ParallelText,
        batches: Any,
        steps: int,
        metric: str,
        options: Mapping[str, Any],
        languages: LanguageCodes | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        self.translator = translator
        self.text = text
        self.batches = batches
        self.steps = steps
        self.metric = metric
        self.options = options
        self.languages: LanguageCodes = languages or {}
        self.metrics = metrics or {}

    def run(
        self, say: Callable[[str], None] = lambda text: None
    ) -> tuple[dict[str, float], tuple[list[str], list[str], list[str]]]:
        """The scores, `{name: float}`, and some sources, translations, references.

        `say` receives how far the translation is.
        """
        model: Any = self.translator.model  # no ensemble, which does not learn
        text = self.text
        results = model.evaluate(
            self.batches, steps=self.steps, verbose=0, return_dict=True
        )
        # Not `loss`, which is Keras' mean of batch means.
        names = ("nll", "token_accuracy")
        values = {f"val_{name}": float(results[name]) for name in names}
        with self.translator.watched(Counting("validation", say)):
            lines = self.translator.translate(text.source, **self.languages, **GREEDY)
        hypotheses = cast(list[str], lines)
        metrics = ("bleu", "chrf") if self.metric == "chrf" else ("bleu",)
        scores = evaluate(hypotheses, text.target, metrics=metrics, **self.options)
        for name, score in zip(metrics, scores, strict=True):
            values[f"val_{name}"] = score.score
        own = learned_metrics.evaluate(
            self.metrics, text.source, hypotheses, text.target
        )
        for path, score in zip(self.metrics, own, strict=True):
            values[f"val_{path}"] = score.score
        shown = slice(None, None, max(len(text) // _SAMPLES, 1))
        return values, (text.source[shown], hypotheses[shown], text.target[shown])

    def score(self, values: Mapping[str, float]) -> float:
        """The scores of `run` as one number; higher is better."""
        if self.metric == "loss":
            return -values["val_nll"]
        return values[f"val_{self.metric}"]


def fruitless(scores: Scores, warmup_steps: int = 0) -> int:
    """The number of validations since the best one, without those of the warm-up.

    Args:
        scores: `[step, score]` of each validation.
        warmup_steps: the steps in which the learning rate rises.
    """
    if not scores:
        return 0
    start = max(best_steps(scores, 1)[0], warmup_steps)
    return sum(step > start for step, _ in scores)


def best_steps(scores: Scores, count: int) -> list[int]:
    """The steps of the `count` best of `[[step, score], ...]`, the best first.

    Ties go to the earlier one.
    """
    ranked = sorted(scores, key=lambda item: (-item[1], item[0]))
    return [step for step, _ in ranked[:count]]
