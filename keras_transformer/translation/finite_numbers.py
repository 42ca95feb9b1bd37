"""Check of model outputs for NaN, which an overflow gives."""

from typing import Any

import numpy as np
from keras import tree

from keras_transformer.errors import ModelError
from keras_transformer.models.weights import first_broken
from keras_transformer.models.weights import weight_values


def require_numbers(values: Any, name: str, model: Any) -> None:
    """Refuses NaN in the results of a search or score.

    Args:
        values: nested arrays of one sentence.
        name: the name of the sentence in the message.
        model: the model, or `Ensemble`, whose weights are checked for the cause.

    Raises:
        ModelError: where a value is NaN.
    """
    if not any(np.isnan(part).any() for part in tree.flatten(values)):
        return
    for member in getattr(model, "models", [model]):
        if broken := first_broken(weight_values(member)):
            raise ModelError(
                f"{name}: the model gives NaN because its weight {broken!r} holds "
                "numbers that are not finite; train it again, or use an earlier "
                "checkpoint"
            )
    raise ModelError(
        f"{name}: the model gives NaN although all its weights are finite: "
        "intermediate values overflow; load it with a dtype of larger range, such "
        "as float32"
    )
