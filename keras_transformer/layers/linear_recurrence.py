"""Linear recurrence over the positions of a sequence, computed in parallel.

B batch, T positions, D hidden_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


def linear_recurrence(decay: Tensor, inputs: Tensor) -> Tensor:
    """The states c_t = decay_t * c_(t-1) + inputs_t of all positions, from 0.

    It takes log2(T) rounds of sums and products, of which none divides or takes a
    logarithm: products of many decays may become 0, as they do one after the other.
    The gradient is such a recurrence, too, from the last position to the first.

    Args:
        decay: (B, T, D) float32, from 0 to 1. The first has no effect.
        inputs: (B, T, D) float32.

    Returns:
        (B, T, D) float32.

    Reference: Hillis and Steele, 1986, https://doi.org/10.1145/7902.7903; of linear
    recurrences: Martin and Cundy, 2018, https://arxiv.org/abs/1709.04057.
    """
    return ops.custom_gradient(_with_gradient)(decay, inputs)


def _with_gradient(decay: Tensor, inputs: Tensor) -> tuple[Tensor, Callable[..., Any]]:
    """The states, and the gradient function in the form that Keras expects."""
    states = _states(decay, inputs)

    def gradient(
        *arguments: Tensor, upstream: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        if upstream is None:
            (upstream,) = arguments
        nothing = ops.zeros_like(decay[:, :1])
        # That of a state goes on to the state before, times the decay in between.
        later = ops.concatenate([nothing, ops.flip(decay[:, 1:], axis=1)], axis=1)
        of_inputs = ops.flip(_states(later, ops.flip(upstream, axis=1)), axis=1)
        before = ops.concatenate([nothing, states[:, :-1]], axis=1)
        return of_inputs * before, of_inputs

    return states, gradient


def _states(decay: Tensor, inputs: Tensor) -> Tensor:
    """The states: after each round, a position holds twice as many before it."""
    length = inputs.shape[1]
    if length is None:
        return _states_of_any_length(decay, inputs)
    decay, reach = decay[:, 1:], 1  # of the positions from `reach` on
    while reach < length:
        further = inputs[:, reach:] + decay * inputs[:, :-reach]
        inputs = ops.concatenate([inputs[:, :reach], further], axis=1)
        decay = decay[:, reach:] * decay[:, :-reach]
        reach *= 2
    return inputs


def _states_of_any_length(decay: Tensor, inputs: Tensor) -> Tensor:
    """The same where T is known only when the program runs."""
    length = ops.shape(inputs)[1]
    positions = ops.arange(0, length, dtype="int32")

    def further(reach: Tensor, decay: Tensor, inputs: Tensor) -> Tensors:
        places = ops.maximum(positions - reach, 0)
        is_there = ops.expand_dims(positions >= reach, 1)  # (T, 1)
        before = ops.where(is_there, ops.take(inputs, places, axis=1), 0.0)
        inputs = inputs + decay * before
        return 2 * reach, decay * ops.take(decay, places, axis=1), inputs

    return ops.while_loop(
        lambda reach, decay, inputs: reach < length,
        further,
        (ops.ones((), dtype="int32"), decay, inputs),
    )[2]
