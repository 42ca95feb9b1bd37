"""Moving average of the weights (EMA), beside the weights that learn.

Keras' optimizers keep one (`use_ema`) and put it into the model where `fit` ends. A run
begins `fit` many times and needs both: the weights to go on, the mean to translate.

Reference: Polyak and Juditsky, 1992, https://doi.org/10.1137/0330046.
"""

import contextlib

from keras_transformer import backends


def keep_weights(optimizer):
    """`fit` leaves the weights as they are; returns the optimizer."""
    optimizer.finalize_variable_values = lambda variables: None
    return optimizer


@contextlib.contextmanager
def averaged(model):
    """Within it, the model has the running mean as its weights, if it keeps one."""
    optimizer = model.optimizer
    if not optimizer.use_ema:
        yield
        return
    # Keras' own callback, which swaps them, does so by sums and rounds the weights.
    means = optimizer._model_variables_moving_average
    weights = [backends.to_numpy(weight) for weight in model.trainable_variables]
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(backends.to_numpy(mean))
    try:
        yield
    finally:
        for weight, value in zip(model.trainable_variables, weights, strict=True):
            weight.assign(value)
