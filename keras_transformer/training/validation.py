"""Validation during training: likelihood, and scores of the model's translations."""

from keras_transformer.config.decoding import GREEDY
from keras_transformer.evaluation import evaluate

_SAMPLES = 5  # translations shown in the logs


class Validation:
    """Scores a model on the validation text, with greedy search.

    Args:
        translator: of the model that learns.
        text: `ParallelText`.
        batches: of it, for `evaluate`.
        steps: how many.
        metric: what is best: `"bleu"`, `"chrf"` or `"loss"`.
        options: of `evaluate`: `tokenize` and `lowercase`.
    """

    def __init__(self, translator, text, batches, steps, metric, options):
        self.translator = translator
        self.text = text
        self.batches = batches
        self.steps = steps
        self.metric = metric
        self.options = options

    def run(self):
        """The scores, `{name: float}`, and some sources, translations, references."""
        model, text = self.translator.model, self.text
        values = model.evaluate(
            self.batches, steps=self.steps, verbose=0, return_dict=True
        )
        # Not `loss`, which is Keras' mean of batch means.
        names = ("nll", "token_accuracy")
        values = {f"val_{name}": float(values[name]) for name in names}
        hypotheses = self.translator.translate(text.source, **GREEDY)
        metrics = ("bleu", "chrf") if self.metric == "chrf" else ("bleu",)
        scores = evaluate(hypotheses, text.target, metrics=metrics, **self.options)
        for name, score in zip(metrics, scores, strict=True):
            values[f"val_{name}"] = score.score
        every = slice(None, None, max(len(text) // _SAMPLES, 1))
        return values, (text.source[every], hypotheses[every], text.target[every])

    def score(self, values):
        """What `run` gave as one number; higher is better."""
        if self.metric == "loss":
            return -values["val_nll"]
        return values[f"val_{self.metric}"]


def fruitless(scores, warmup_steps=0):
    """Validations since the best one; those of the warm-up do not count.

    Args:
        scores: `[step, score]` of each validation.
        warmup_steps: steps in which the learning rate rises.
    """
    if not scores:
        return 0
    start = max(best_steps(scores, 1)[0], warmup_steps)
    return sum(step > start for step, _ in scores)


def best_steps(scores, count):
    """The steps of the `count` best of `[[step, score], ...]`, the best first.

    The earlier of two equal ones is the better.
    """
    ranked = sorted(scores, key=lambda item: (-item[1], item[0]))
    return [step for step, _ in ranked[:count]]
