"""Rematerialization: blocks that the backward pass computes again.

B batch, T positions, D hidden_dim.
"""

from typing import Any

import keras

from keras_transformer import backends
from keras_transformer.tensors import Tensor


def rematerialized(block: Any, *inputs: Tensor, **arguments: Any) -> Tensor:
    """The output of a block in training, without keeping what is inside of it.

    The backward pass gets the inputs alone, and computes the block again: the memory of
    a stack becomes that of one block, and each block is computed twice. Dropout is the
    same both times.

    Args:
        block: a layer that is built.
        inputs: tensors (B, T, D) that have gradients.
        arguments: of the call, whose tensors have none.

    Returns:
        The block's output, (B, T, D).

    Reference: Chen et al., 2016, https://arxiv.org/abs/1604.06174.
    """
    weights, states = block.trainable_variables, block.non_trainable_variables
    frozen = {id(weight) for weight in block.non_trainable_weights}

    def run(values: Any, state_values: Any, tensors: Any) -> tuple[Tensor, list[Any]]:
        # Nothing is read or written outside of it, so that it can run twice.
        mapping = [*zip(weights, values, strict=True)]
        mapping += zip(states, state_values, strict=True)
        with keras.StatelessScope(state_mapping=mapping) as scope:
            output = block(*tensors, **arguments, training=True)
            return output, [scope.get_current_value(state) for state in states]

    output, new_states = backends.recomputed(
        run,
        [weight.value for weight in weights],
        [state.value for state in states],
        list(inputs),
    )
    for state, value in zip(states, new_states, strict=True):
        if id(state) not in frozen:  # the seeds of dropout
            state.assign(value)
    return output
