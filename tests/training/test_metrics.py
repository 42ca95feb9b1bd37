"""Token metrics and the schedule against NumPy."""

import keras
import numpy as np
import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.training import InverseSquareRoot
from keras_transformer.training import NegativeLogLikelihood
from keras_transformer.training import Perplexity
from keras_transformer.training import TokenAccuracy
from keras_transformer.training import paper_optimizer
from keras_transformer.training.config.training_section import TrainingSection
from keras_transformer.training.model import schedule

RANDOM = np.random.default_rng(3)
LOGITS = RANDOM.normal(size=(2, 5, 7)).astype("float32")
LABELS = np.array([[3, 1, 6, 2, 0], [4, 2, 0, 0, 0]])
TOKENS = LABELS != 0


def reference():
    log_normalizer = np.log(np.exp(LOGITS).sum(-1))
    score = np.take_along_axis(LOGITS, LABELS[..., None], -1)[..., 0]
    nll = (log_normalizer - score)[TOKENS].mean()
    accuracy = (LOGITS.argmax(-1) == LABELS)[TOKENS].mean()
    return {
        NegativeLogLikelihood: nll,
        Perplexity: np.exp(nll),
        TokenAccuracy: accuracy,
    }


@pytest.mark.parametrize(
    "metric_class", [NegativeLogLikelihood, Perplexity, TokenAccuracy]
)
def test_any_split_into_batches_gives_the_same(metric_class):
    whole, parts = metric_class(), metric_class()
    whole.update_state(LABELS, LOGITS)
    for row in range(2):
        weights = np.full((1, 5), 9.0, "float32")  # weights change nothing
        parts.update_state(LABELS[row : row + 1], LOGITS[row : row + 1], weights)
    expected = reference()[metric_class]
    assert float(whole.result()) == pytest.approx(expected, rel=1e-5)
    assert float(parts.result()) == pytest.approx(expected, rel=1e-5)
    again = metric_class.from_config(whole.get_config())
    assert again.get_config() == whole.get_config()
    whole.reset_state()
    assert float(whole.num_tokens) == 0.0


@pytest.mark.one_backend
def test_the_schedule_is_equation_3():
    paper = InverseSquareRoot(hidden_dim=512, warmup_steps=4000)
    for step in (1, 2, 3999, 4000, 4001, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert float(paper(step - 1)) == pytest.approx(expected, rel=1e-5)
    again = InverseSquareRoot.from_config(paper.get_config())
    assert float(again(10)) == float(paper(10))
    peaked = InverseSquareRoot.with_peak(5e-3, hidden_dim=128, warmup_steps=200)
    rates = [float(peaked(step)) for step in range(400)]
    assert max(rates) == pytest.approx(5e-3, rel=1e-5)
    assert int(np.argmax(rates)) == 199
    with pytest.raises(ValueError, match="warmup_steps must be at least 1, got 0"):
        InverseSquareRoot(512, 0)


@pytest.mark.one_backend
def test_the_cosine_falls_to_nothing_at_the_last_step():
    training = TrainingSection(
        steps=1000, warmup_steps=200, learning_rate=4e-3, schedule="cosine"
    )
    rate = schedule(training, TransformerConfig(vocabulary_size=10))
    for step in (0, 1, 100, 199, 200, 201, 600, 999, 1000):
        progress = max(step - 200, 0) / 800
        expected = 4e-3 * min(step / 200, 0.5 * (1.0 + np.cos(np.pi * progress)))
        assert float(rate(step)) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_the_first_update_takes_the_rate_of_step_1():
    optimizer = paper_optimizer(TransformerConfig(vocabulary_size=10), warmup_steps=10)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    weight = keras.Variable([1.0])
    optimizer.apply([keras.ops.array([1.0])], [weight])
    rate = 512**-0.5 * 10**-1.5  # Adam's first update is the rate, for any gradient
    assert keras.ops.convert_to_numpy(weight)[0] == pytest.approx(1.0 - rate, rel=1e-5)
