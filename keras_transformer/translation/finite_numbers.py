"""A check that what a model says are numbers: one that overflows says NaN."""

from typing import Any

import numpy as np
from keras import tree

from keras_transformer.errors import ModelError
from keras_transformer.models.weights import first_broken
from keras_transformer.models.weights import weight_values


def require_numbers(values: Any, name: str, model: Any) -> None:
    """Refuses NaN, which no search or score has from a model that works.

    Args:
        values: of one sentence, nested arrays.
        name: what the message calls it.
        model: whose weights are looked at for the cause; an `Ensemble` too.

    Raises:
        ModelError: where one is NaN.
    """
    if not any(np.isnan(part).any() for part in tree.flatten(values)):
        return
    for member in getattr(model, "models", [model]):
        if broken := first_broken(weight_values(member)):
            raise ModelError(
                f"{name}: the model gives NaN, for its weight {broken!r} holds numbers "
                f"that are not finite; train it anew, or take an earlier checkpoint"
            )
    raise ModelError(
        f"{name}: the model gives NaN, though all its weights are finite: numbers on "
        f"the way are too large; load it with a dtype of more range, such as float32"
    )
