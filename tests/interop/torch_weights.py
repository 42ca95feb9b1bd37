"""Weights of PyTorch modules, copied into layers of this package.

PyTorch's `Linear` holds its matrix (outputs, inputs), this package (inputs, outputs).
"""

import numpy as np

from reference.weights import normal


def values(tensor):
    """A tensor or parameter as a float32 array."""
    return tensor.detach().numpy().astype("float32")


def scattered(module, seed=0, deviation=0.6):
    """The module in inference, its parameters at random; those about 1 stay there."""
    for index, parameter in enumerate(module.parameters()):
        noise = normal(*parameter.shape, seed=seed + index) * deviation
        if parameter.ndim > 1:
            noise = noise / np.sqrt(parameter.shape[-1] / 16)
        about_one = parameter.ndim == 1 and bool((parameter == 1).all())
        parameter.data.copy_(type(parameter.data)(noise + about_one))
    return module.eval()


def linear(layer, name, module):
    """Copies a `Linear` into the kernel and, if there is one, the bias of a name."""
    getattr(layer, f"{name}_kernel").assign(values(module.weight).T)
    if module.bias is not None:
        getattr(layer, f"{name}_bias").assign(values(module.bias))


def joined(layer, names, module):
    """Copies a joined projection, kept (inputs, outputs), into several of a layer."""
    kernels = np.split(values(module.weight), len(names), axis=1)
    biases = np.split(values(module.bias), len(names))
    for name, kernel, bias in zip(names, kernels, biases, strict=True):
        getattr(layer, f"{name}_kernel").assign(kernel)
        getattr(layer, f"{name}_bias").assign(bias)


def norm(layer, module):
    """Copies a layer normalization, or an RMS normalization, which has no bias."""
    weights = [module.weight]
    if getattr(module, "bias", None) is not None:
        weights.append(module.bias)
    layer.set_weights([values(weight) for weight in weights])
