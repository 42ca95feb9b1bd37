"""Moving average of the weights (EMA), beside the trained weights.

Keras' optimizers keep one (`use_ema`) and move it into the model at the end of `fit`. A
run calls `fit` many times and needs both: the weights to continue, the mean to
translate.

Reference: Polyak and Juditsky, 1992, https://doi.org/10.1137/0330046.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from keras_transformer import backends
from keras_transformer.models.translation_model import TranslationModel


def keep_weights(optimizer: Any) -> Any:
    """Keeps `fit` from overwriting the weights with the mean; returns the optimizer."""
    optimizer.finalize_variable_values = lambda variables: None
    return optimizer


@contextlib.contextmanager
def averaged(model: TranslationModel) -> Iterator[None]:
    """Context in which the model has the moving average as its weights, if any."""
    optimizer = model.optimizer
    if not optimizer.use_ema:
        yield
        return
    # Keras' callback swaps them by sums, which rounds the weights.
    means = optimizer._model_variables_moving_average
    weights = [backends.to_numpy(weight) for weight in model.trainable_variables]
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(backends.to_numpy(mean))
    try:
        yield
    finally:
        for weight, value in zip(model.trainable_variables, weights, strict=True):
            weight.assign(value)
