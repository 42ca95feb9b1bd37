"""Packed matrix products with large weights in a traced graph, by oneDNN.

The time of a product with few rows is that of reading its weights. PyTorch reads them
at each step in their storage order; oneDNN reads a copy that is packed once in the
order of its kernels. Products of the same inputs become one, with bias and ReLU fused.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import torch

_Values: TypeAlias = dict[torch.fx.Node, torch.Tensor]

_aten = torch.ops.aten
_mkldnn = torch.ops.mkldnn

# A call of oneDNN costs some 30 microseconds: more than the product of a small matrix.
LEAST_ELEMENTS = 2**18


class PackedProduct:
    """`activation(inputs @ weights + biases)`, several weights side by side.

    Packs again once one of its tensors has changed. A write through `Tensor.data`,
    which PyTorch does not count, is not detected.

    Reference: https://uxlfoundation.github.io/oneDNN, "Memory format propagation".
    """

    def __init__(
        self, weights: list[torch.Tensor], biases: list[torch.Tensor], activation: str
    ) -> None:
        self._weights, self._biases = weights, biases
        self._activation = activation
        self._versions: list[int] | None = None

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        versions = [tensor._version for tensor in self._weights + self._biases]
        if versions != self._versions:
            weights = torch.cat([weight.t() for weight in self._weights])
            self._packed = _mkldnn._reorder_linear_weight(weights)
            self._bias = torch.cat(self._biases) if self._biases else None
            self._versions = versions
        return _mkldnn._linear_pointwise(
            inputs, self._packed, self._bias, self._activation, [], ""
        )


# Graphs of other shapes share the packed weights.
_products: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def _product(
    weights: list[torch.Tensor], biases: list[torch.Tensor], activation: str
) -> PackedProduct:
    tensors = [(t.data_ptr(), t.shape, t.stride()) for t in weights + biases]
    key = (len(weights), activation, *tensors)
    product = _products.get(key)
    if product is None:
        product = _products[key] = PackedProduct(weights, biases, activation)
    return product


def pack(module: torch.fx.GraphModule) -> None:
    """Replaces products with large parameters in the graph of an `fx.GraphModule`."""
    if not torch.backends.mkldnn.is_available():
        return
    values = _values_of_parameters(module)
    chains: dict[Any, Any] = {}
    for node in module.graph.nodes:
        if node.target is _aten.matmul.default and _is_large(values.get(node.args[1])):
            chains.setdefault(node.args[0], []).append(_chain(node, values))
    names = (f"packed_{number}" for number in itertools.count())
    for products in chains.values():
        for group in _groups(products):
            _replace(module, group, values, next(names))
    module.graph.eliminate_dead_code()


def _values_of_parameters(module: torch.fx.GraphModule) -> _Values:
    """`{node: tensor}` of parameters and of transposed ones."""
    values = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(module)
            if isinstance(value, torch.nn.Parameter):
                values[node] = value.detach()
        elif node.target is _aten.numpy_T.default and node.args[0] in values:
            values[node] = values[node.args[0]].t()
    return values


def _is_large(weight: torch.Tensor | None) -> bool:
    return (
        weight is not None
        and (weight.dim(), weight.dtype) == (2, torch.float32)
        and weight.device.type == "cpu"
        and weight.numel() >= LEAST_ELEMENTS
    )


class _Chain(NamedTuple):
    """A product with the sum and the ReLU that follow it, if any."""

    nodes: list[torch.fx.Node]
    bias: list[torch.fx.Node]  # of at most one node
    activation: str


def _chain(product: torch.fx.Node, values: _Values) -> _Chain:
    nodes, bias, activation = [product], [], "none"
    columns = values[product.args[1]].shape[1:]
    user = _only_user(product)
    if user is not None and user.target is _aten.add.Tensor and not user.kwargs:
        bias = [n for n in user.args if n in values and values[n].shape == columns]
        nodes += [user] * len(bias)
    user = _only_user(nodes[-1])
    if user is not None and user.target is _aten.relu.default:
        nodes, activation = [*nodes, user], "relu"
    return _Chain(nodes, bias, activation)


def _only_user(node: torch.fx.Node) -> torch.fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _groups(chains: list[_Chain]) -> list[list[_Chain]]:
    """Groups of chains that can become one product."""
    alike = {(len(chain.bias), chain.activation) for chain in chains}
    return [chains] if len(alike) == 1 else [[chain] for chain in chains]


def _replace(
    module: torch.fx.GraphModule, chains: list[_Chain], values: _Values, name: str
) -> None:
    graph = module.graph
    inputs = chains[0].nodes[0].args[0]
    weights = [values[chain.nodes[0].args[1]] for chain in chains]
    biases = [values[node] for chain in chains for node in chain.bias]
    setattr(module, name, _product(weights, biases, chains[0].activation))
    with graph.inserting_before(chains[0].nodes[0]):
        product = graph.create_node("get_attr", name)
        outputs = graph.call_function(operator.call, (product, inputs))
        if len(chains) > 1:
            sizes = [weight.shape[1] for weight in weights]
            parts = graph.call_function(
                _aten.split_with_sizes.default, (outputs, sizes, -1)
            )
            outputs = [
                graph.call_function(operator.getitem, (parts, index))
                for index in range(len(chains))
            ]
        else:
            outputs = [outputs]
    for chain, output in zip(chains, outputs, strict=True):
        chain.nodes[-1].replace_all_uses_with(output)
        for node in reversed(chain.nodes):
            graph.erase_node(node)
