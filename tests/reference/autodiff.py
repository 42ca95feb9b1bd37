"""Values and gradients by each backend's own automatic differentiation."""

import keras
import numpy as np
from keras import ops

from reference.weights import numpy


def of_tensors(function, arrays):
    """`function(*tensors)` -> loss or (loss, others); (outputs, gradients) in NumPy.

    Call arguments:
        function: gives a scalar, or a tuple whose first entry is one.
        arrays: what to differentiate for.
    """
    tensors = [ops.convert_to_tensor(array) for array in arrays]
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            outputs = _pair(function(*tensors))
        gradients = tape.gradient(outputs[0], tensors)
    elif backend == "jax":
        import jax

        both = jax.value_and_grad(
            lambda *tensors: _pair(function(*tensors)),
            argnums=tuple(range(len(tensors))),
            has_aux=True,
        )
        outputs, gradients = jax.jit(both)(*tensors)  # compiled sooner than its parts
    else:
        import torch

        tensors = [tensor.detach().clone().requires_grad_() for tensor in tensors]
        outputs = _pair(function(*tensors))
        gradients = torch.autograd.grad(outputs[0], tensors)
    outputs = keras.tree.map_structure(numpy, outputs)
    return outputs, [numpy(gradient) for gradient in gradients]


def of_variables(function, variables):
    """The gradients of the scalar `function()`, one a Keras variable, in NumPy."""

    def stateless(*values):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function()

    values = [np.asarray(numpy(variable)) for variable in variables]
    return of_tensors(stateless, values)[1]


def _pair(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs, ())
