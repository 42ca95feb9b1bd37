"""Training steps of PyTorch as flat graphs: forward pass, loss and gradients.

Keras runs its layers eagerly, and each operation passes through Keras and autograd:
most of the time of a step of a small model, and on a GPU of a large one, whose kernels
are over before the next one is asked for. So a step is traced once for each shape of
batch, as a function of weights, states and data, and is then plain calls of PyTorch.

On a GPU, `torch.compile` then fuses these calls. What it gets has no Python in it, so
that it compiles each graph once, and never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import torch
from torch.utils import _pytree as pytree

from keras_transformer.backends.steps import caught_gradients
from keras_transformer.backends.steps import drawn_rows
from keras_transformer.backends.torch_tracing import trace_gradients
from keras_transformer.tensors import Tensors

#: Backends of `torch.compile` by type of device; elsewhere its calls are plain.
COMPILERS = {"cuda": "inductor"}


class TracedSteps:
    """The gradients of a model's training steps, by a graph for each shape of batch.

    Args:
        model: a `FusedTraining` model that is built and compiled.

    Attributes:
        num_graphs: how many have been traced.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._graphs: dict[Any, Callable[..., Any]] = {}

    @property
    def num_graphs(self) -> int:
        return len(self._graphs)

    def gradients(self, default: Callable[..., Any], data: Tensors) -> list[Any]:
        """Those of Keras' step `default`, which also updates states and metrics.

        None for a weight that the loss does not depend on.
        """
        # The number of tokens is that of the whole batch: it comes from outside.
        leaves, structure = pytree.tree_flatten((data, self.model.step_tokens))
        present = [index for index, leaf in enumerate(leaves) if leaf is not None]
        tensors = [keras.ops.convert_to_tensor(leaves[index]) for index in present]
        weights = self.model.trainable_weights
        frozen = {id(weight) for weight in self.model.non_trainable_weights}
        states = [v for v in self.model.non_trainable_variables if id(v) not in frozen]
        states += self.model.metrics_variables
        optimizer = self.model.optimizer

        def step(weight_values: Any, values: Any, tensors: Any) -> Any:
            own = [value.detach().requires_grad_() for value in weight_values]
            mapping = [*zip(weights, own, strict=True)]
            mapping += zip(states, values, strict=True)
            filled: list[Any] = [None] * len(leaves)
            for index, tensor in zip(present, tensors, strict=True):
                filled[index] = tensor
            part, num_tokens = pytree.tree_unflatten(filled, structure)
            with (
                self.model.counting(num_tokens),
                keras.StatelessScope(state_mapping=mapping) as scope,
                caught_gradients(optimizer) as gradients,
            ):
                default(part)
            after = [scope.get_current_value(state).detach() for state in states]
            return list(gradients), after

        arguments = (
            [weight.value for weight in weights],
            [state.value for state in states],
            tensors,
        )
        shapes = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        device = tensors[0].device
        key = structure, drawn_rows(), len(weights), len(states), shapes, device
        if key not in self._graphs:
            compiler = COMPILERS.get(device.type)
            self._graphs[key] = trace_gradients(step, *arguments, compiler=compiler)
        gradients, after = self._graphs[key](*arguments)
        with torch.no_grad():
            for state, value in zip(states, after, strict=True):
                state.value.copy_(value)
        return list(gradients)
