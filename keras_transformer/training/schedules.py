"""Learning rate schedules and optimizers: the paper's, linear ones, and Adam."""

from __future__ import annotations

from typing import Any
from typing import Self

import keras
from keras import ops

from keras_transformer.config import TranslationConfig
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """scale * D^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), steps from 1.

    The rate rises linearly for `warmup_steps`, then falls with the square root of the
    step. Keras counts steps from 0, the paper from 1: update number k, from 1, has the
    paper's rate of step k.

    Args:
        hidden_dim: the D of the model.
        warmup_steps: the paper's is 4000.
        scale: the factor of the whole curve.

    Example:

    >>> from keras_transformer.training import InverseSquareRoot
    >>> schedule = InverseSquareRoot(hidden_dim=512)
    >>> round(float(schedule(3999)), 7)  # the peak, at update 4000
    0.0006988

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, equation 3.
    """

    def __init__(
        self, hidden_dim: int, warmup_steps: int = 4000, scale: float = 1.0
    ) -> None:
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, got {warmup_steps}")
        super().__init__()
        self.hidden_dim = hidden_dim
        self.warmup_steps = warmup_steps
        self.scale = scale

    @classmethod
    def with_peak(
        cls, learning_rate: float, hidden_dim: int, warmup_steps: int = 4000
    ) -> Self:
        """The curve whose peak, after the warm-up, is `learning_rate`."""
        scale = learning_rate * (hidden_dim * warmup_steps) ** 0.5
        return cls(hidden_dim, warmup_steps, scale)

    def __call__(self, step: Tensor) -> Tensor:
        step = ops.cast(step, "float32") + 1.0
        rising = step * self.warmup_steps**-1.5
        return self.scale * self.hidden_dim**-0.5 * ops.minimum(step**-0.5, rising)

    def get_config(self) -> dict[str, Any]:
        return {
            "hidden_dim": self.hidden_dim,
            "warmup_steps": self.warmup_steps,
            "scale": self.scale,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class LinearWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up to a peak, then a constant rate or a linear decay.

    Update number k, from 1, has the rate `learning_rate * min(k / warmup_steps, 1)`, or
    with decay `learning_rate * min(k / warmup_steps, (steps + 1 - k) / (steps + 1 -
    warmup_steps))`: the peak at `warmup_steps`, and 0 after `steps`.

    Args:
        learning_rate: the peak.
        warmup_steps: the number of updates up to the peak, at least 1.
        steps: the number of all updates, for a linear decay; None for a constant rate.

    Example:

    >>> from keras_transformer.training import LinearWarmup
    >>> schedule = LinearWarmup(0.1, warmup_steps=2, steps=5)
    >>> [round(float(schedule(step)), 3) for step in range(6)]
    [0.05, 0.1, 0.075, 0.05, 0.025, 0.0]

    Reference: Devlin et al., 2019, https://arxiv.org/abs/1810.04805, appendix A.2.
    """

    def __init__(
        self, learning_rate: float, warmup_steps: int, steps: int | None = None
    ) -> None:
        if warmup_steps < 1:
            raise ValueError(f"warmup_steps must be at least 1, got {warmup_steps}")
        super().__init__()
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.steps = steps

    def __call__(self, step: Tensor) -> Tensor:
        number = ops.cast(step, "float32") + 1.0
        share = ops.minimum(number / self.warmup_steps, 1.0)
        if self.steps is not None:
            falling_steps = max(self.steps + 1 - self.warmup_steps, 1)
            falling = ops.maximum(self.steps + 1 - number, 0.0) / falling_steps
            share = ops.minimum(share, falling)
        return self.learning_rate * share

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate,
            "warmup_steps": self.warmup_steps,
            "steps": self.steps,
        }


def paper_optimizer(
    config: TranslationConfig,
    warmup_steps: int = 4000,
    scale: float = 1.0,
    **kwargs: Any,
) -> Any:
    """Adam with the paper's constants and learning rate.

    Args:
        config: the config of any kind of model; its `hidden_dim` scales the rate.
        warmup_steps: of the schedule.
        scale: of the schedule.
        kwargs: further arguments of `keras.optimizers.Adam`.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.3.
    """
    schedule = InverseSquareRoot(config.hidden_dim, warmup_steps, scale)
    return adam(schedule, **kwargs)


def adam(learning_rate: Any, **kwargs: Any) -> Any:
    """`keras.optimizers.Adam` with the paper's β1 0.9, β2 0.98 and ε 1e-9."""
    return keras.optimizers.Adam(
        learning_rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, **kwargs
    )
