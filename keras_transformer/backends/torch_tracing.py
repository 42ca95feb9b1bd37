"""Tracing of a function into a flat graph of PyTorch calls, without Keras dispatch.

Keras layers run eagerly on PyTorch, and below each operation Keras converts and checks
its arguments: most of the time of a small decode step. `trace` records the step once
with PyTorch's tracer, removes no-ops and keeps the rest as plain Python calls.
Parameters are kept by reference: assigning to them changes the graph's result.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch._guards import tracing
from torch._subclasses import FakeTensorMode
from torch.fx import Graph
from torch.fx import GraphModule
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from keras_transformer.backends.torch_in_place import write_in_place
from keras_transformer.backends.torch_packing import pack
from keras_transformer.tensors import Tensors

_aten = torch.ops.aten

# Calls that return their argument when dtype and device already match.
_CONVERSIONS = (_aten.to.dtype, _aten.to.dtype_layout, _aten.to.device)
# Constants written into the function are copied by the tracer at each run.
_COPIES = (_aten.lift_fresh_copy.default, _aten.lift_fresh.default)


def trace(
    function: Callable[..., Tensors], *arguments: Tensors
) -> Callable[..., Tensors]:
    """`function` for arguments of these shapes and dtypes.

    Args:
        function: nested tensors in, nested tensors out; its only side effects may be
            writes into its arguments. Tensors it closes over, except parameters, become
            constants.
        arguments: nested tensors for the traced run.

    Returns:
        A callable of the same arguments.
    """
    flat, structure = pytree.tree_flatten(arguments)
    result_structure = None

    def flat_function(*flat: torch.Tensor) -> list[torch.Tensor]:
        nonlocal result_structure
        results = function(*pytree.tree_unflatten(list(flat), structure))
        results, result_structure = pytree.tree_flatten(results)
        return results

    with torch.no_grad():
        # Before dispatch, so that a matmul stays one call.
        module = _graph(flat_function, flat, pre_dispatch=True)
    _drop_conversions(module.graph)
    _fold_constants(module)
    _share_equal_calls(module)
    module.graph.eliminate_dead_code()
    pack(module)
    write_in_place(module.graph)
    _use_python_bindings(module.graph)
    attributes = _attributes_as_inputs(module)
    module.recompile()
    forward = module.forward

    def run(*arguments: Tensors) -> Tensors:
        flat, _ = pytree.tree_flatten(arguments)
        return pytree.tree_unflatten(forward(*flat, *attributes), result_structure)

    return run


def trace_gradients(
    function: Callable[..., Tensors], *arguments: Tensors, compiler: Any = None
) -> Callable[..., Tensors]:
    """`trace` for a function that computes gradients by PyTorch's autograd.

    Args:
        function: nested tensors in, nested tensors and None out, without side effects.
        arguments: nested tensors for the traced run.
        compiler: a backend of `torch.compile`, for the graph; None for plain calls.

    Returns:
        A callable of the same arguments.
    """
    flat, structure = pytree.tree_flatten(arguments)
    result_structure = None

    def flat_function(*flat: torch.Tensor) -> list[Any]:
        nonlocal result_structure
        results = function(*pytree.tree_unflatten(list(flat), structure))
        results, result_structure = pytree.tree_flatten(results)
        return results

    with torch.enable_grad():
        module = _graph(flat_function, flat)
    _fold_constants(module)
    module.graph.eliminate_dead_code()
    _use_python_bindings(module.graph)
    attributes = _attributes_as_inputs(module)
    module.recompile()
    forward = module.forward
    if compiler is not None:
        forward = _Compiled(module, compiler)

    def run(*arguments: Tensors) -> Tensors:
        flat, _ = pytree.tree_flatten(arguments)
        with torch.no_grad():
            results = forward(*flat, *attributes)
        return pytree.tree_unflatten(results, result_structure)

    return run


def _graph(
    function: Callable[..., Any], arguments: Sequence[torch.Tensor], **options: Any
) -> GraphModule:
    """PyTorch's trace of a function.

    It notes the shape of each value in a tensor without data. Those of one trace belong
    together; else each has a mode of its own, which takes a third of the time.
    """
    mode = FakeTensorMode(allow_fallback_kernels=True)
    with tracing(TracingContext(mode)):
        return make_fx(function, **options)(*arguments)


class _Compiled:
    """A graph by `torch.compile`; as it is where that fails."""

    def __init__(self, module: GraphModule, compiler: Any) -> None:
        self._plain = module.forward
        self._forward = torch.compile(module, backend=compiler, dynamic=False)

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._forward(*arguments)
        except Exception as error:
            if self._forward is self._plain:
                raise
            # Nothing is written: the graph can run again.
            warnings.warn(
                f"torch.compile has failed, so training steps are not compiled: "
                f"{error}",
                stacklevel=2,
            )
            self._forward = self._plain
            return self._forward(*arguments)


def _calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


def _replace(node: Node, other: Node) -> None:
    node.replace_all_uses_with(other)
    node.graph.erase_node(node)


def _drop_conversions(graph: Graph) -> None:
    for node in _calls(graph):
        if node.target not in _CONVERSIONS:
            continue
        before, after = (n.meta.get("val") for n in (node.args[0], node))
        if before is None:  # a parameter or constant
            before = _attribute(graph.owning_module, node.args[0])
        if (before.dtype, before.device) == (after.dtype, after.device):
            _replace(node, node.args[0])


def _writes(node: Node) -> bool:
    """Whether it writes into its first argument."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _must_run(node: Node) -> bool:
    """Whether it writes, or draws random numbers."""
    tags = getattr(node.target, "tags", ())
    return _writes(node) or torch.Tag.nondeterministic_seeded in tags


def _written(graph: Graph) -> set[Node]:
    """Tensors that are written into, or that these may view: new at each run."""
    nodes = set()
    for node in filter(_writes, _calls(graph)):
        while node.op == "call_function" and node.all_input_nodes:
            node = node.all_input_nodes[0]
            nodes.add(node)
    return nodes


def _attribute(module: GraphModule, node: Node) -> Any:
    return operator.attrgetter(node.target)(module)


def _fold_constants(module: GraphModule) -> None:
    """Computes operations that depend only on constants (not on parameters) once."""
    values = {}
    written = _written(module.graph)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = _attribute(module, node)
            if not isinstance(value, torch.nn.Parameter):
                values[node] = value
    for index, node in enumerate(_calls(module.graph)):
        inputs = node.all_input_nodes
        fresh = _must_run(node) or node in written
        if fresh or any(i not in values for i in inputs):
            continue
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.get)
        value = args[0] if node.target in _COPIES else node.target(*args, **kwargs)
        name = f"folded_{index}"
        module.register_buffer(name, value, persistent=False)
        with module.graph.inserting_before(node):
            constant = module.graph.get_attr(name)
        values[constant] = value
        _replace(node, constant)


def _share_equal_calls(module: GraphModule) -> None:
    seen: dict[Any, Any] = {}
    written = _written(module.graph)
    for node in list(module.graph.nodes):
        key = (node.op, node.target, repr(node.args), repr(node.kwargs))
        if node.op == "get_attr":
            value = _attribute(module, node)
            if not isinstance(value, torch.nn.Parameter):
                key = (value.device, value.dtype, value.shape, _bytes(value))
        elif node.op != "call_function" or _must_run(node) or node in written:
            continue
        if key in seen:
            _replace(node, seen[key])
        else:
            seen[key] = node


def _bytes(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor; NumPy has no bfloat16."""
    rows = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return rows.reshape(-1).view(torch.uint8).numpy().tobytes()


def _attributes_as_inputs(module: GraphModule) -> list[Any]:
    """Turns module attributes, which are slow to read, into arguments of the graph."""
    nodes = [node for node in module.graph.nodes if node.op == "get_attr"]
    last_input = [node for node in module.graph.nodes if node.op == "placeholder"][-1]
    for node in reversed(nodes):
        with module.graph.inserting_after(last_input):
            _replace(node, module.graph.placeholder(f"attribute_{node.name}"))
    return [_attribute(module, node) for node in nodes]


def _use_python_bindings(graph: Graph) -> None:
    """Replaces `torch.ops.aten.matmul` by `torch.matmul`, which is faster to call."""
    for node in _calls(graph):
        packet = getattr(node.target, "overloadpacket", None)
        if packet is None or node.target.namespace != "aten":
            continue
        owner = torch.Tensor if _must_run(node) else torch
        node.target = getattr(owner, packet.__name__, node.target)
