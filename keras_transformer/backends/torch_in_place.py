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
    _aten._softmax.default,
    _aten.log_softmax.int,
    _aten._log_softmax.default,
}
#: Whose arguments may change places.
_COMMUTATIVE = {_aten.add.Tensor, _aten.mul.Tensor}


def write_in_place(graph: Graph) -> None:
    """Replaces `y = x + 1` by `x += 1` where nothing else reads x; equal to the bit."""
    new: set[Node] = set()  # whose result is memory of its own
    for node in graph.nodes:
        in_place = _in_place_form(node)
        if in_place is not None:
            first, *others = node.args
            swaps = node.target in _COMMUTATIVE and not node.kwargs
            if first in new and _can_hold(first, node):
                node.target = in_place
            elif swaps and others[0] in new and _can_hold(others[0], node):
                node.target, node.args = in_place, (others[0], first)
        if node.target in _MAKE_NEW or _is_elementwise(node) or node.target is in_place:
            new.add(node)


def _in_place_form(node: Node) -> Any:
    """`aten.add_.Tensor` of `aten.add.Tensor`; None without such a form."""
    if not _is_elementwise(node):
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
