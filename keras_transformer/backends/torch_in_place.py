"""Element-wise operations of a traced graph that overwrite what nobody reads again.

PyTorch gives each result memory of its own. What is as large as the scores of a whole
vocabulary then costs more in memory than in arithmetic: the system hands out new pages,
and processor caches hold both, the old values and the new.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph
from torch.fx import Node

_aten = torch.ops.aten
#: Besides element-wise operations, those whose result is memory of its own.
_MAKE_NEW = {
    _aten.matmul.default,
    _aten.mm.default,
    _aten.bmm.default,
    _aten.addmm.default,
    _aten.linear.default,
    _aten.softmax.int,
    _aten.log_softmax.int,
}
#: Whose arguments may change places.
_COMMUTATIVE = {_aten.add.Tensor, _aten.mul.Tensor}


def write_in_place(graph: Graph) -> None:
    """Replaces `y = x + 1` by `x += 1` where nothing else reads x; equal to the bit."""
    new: set[Any] = set()  # nodes whose result is memory of its own
    for node in graph.nodes:
        in_place = _in_place_form(node)
        if in_place is not None:
            swaps = node.target in _COMMUTATIVE and not node.kwargs
            for place in range(2 if swaps else 1):
                held = node.args[place]
                if isinstance(held, Node) and held in new and _can_hold(held, node):
                    node.target = in_place
                    if place == 1:
                        node.args = (held, node.args[0])
                    break
        if node.target in _MAKE_NEW or _is_elementwise(node) or node.target is in_place:
            new.add(node)


def _in_place_form(node: Node) -> Any:
    """`aten.add_.Tensor` of `aten.add.Tensor`; None without such a form."""
    if not node.args or not _is_elementwise(node):
        return None
    packet = getattr(_aten, node.target._schema.name.partition("::")[2] + "_", None)
    overload = node.target._overloadname
    if packet is None or overload not in packet.overloads():
        return None
    return getattr(packet, overload)


def _is_elementwise(node: Node) -> bool:
    """Whether it computes each entry by itself and writes a new tensor."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.pointwise not in tags or node.target.namespace != "aten":
        return False
    # Of such a one, the result may be its argument.
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        node.target.name(), "CompositeImplicitAutograd"
    )
    returns = node.target._schema.returns
    return not composite and all(part.alias_info is None for part in returns)


def _can_hold(argument: Node, node: Node) -> bool:
    """Whether the result of `node` may be written into this argument of it."""
    if list(argument.users) != [node]:
        return False
    before, after = (n.meta.get("val") for n in (argument, node))
    if not (isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor)):
        return False
    return _layout(before) == _layout(after)


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype
