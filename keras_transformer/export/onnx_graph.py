"""From a TensorFlow function to an ONNX graph that is small, named and checked."""

import contextlib
import logging
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from onnx import helper
from onnx import numpy_helper
from tf2onnx import optimizer

OPSET = 18


def convert(
    function: Callable[..., Any], signature: list[Any], facts: dict[str, Any]
) -> onnx.ModelProto:
    """The graph of a function, its inputs and outputs as `facts` describe them.

    Args:
        function: of tensors, with a dictionary of tensors as result.
        signature: a `tf.TensorSpec` with a name for each argument.
        facts: an entry of `graphs` in `model.json`.
    """
    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    with _reshapes_apart():
        model, _ = tf2onnx.convert.from_function(
            tf.function(function, autograph=False),
            signature,
            opset=OPSET,
            custom_op_handlers={"SelectV2": (_select, []), "Erfc": (_erfc, [])},
        )
    for values, described in (
        (model.graph.input, facts["inputs"]),
        (model.graph.output, facts["outputs"]),
    ):
        shapes = {tensor["name"]: tensor["shape"] for tensor in described}
        for value in values:
            kind = value.type.tensor_type.elem_type
            named = helper.make_tensor_value_info(value.name, kind, shapes[value.name])
            value.CopyFrom(named)
    return model


def write(model: onnx.ModelProto, path: Path) -> None:
    """Writes the graph; a matrix that is another one transposed is not kept twice."""
    onnx.checker.check_model(model)
    smaller = onnx.ModelProto()
    smaller.CopyFrom(model)
    _share_transposed(smaller.graph)
    onnx.save(smaller, path)


def write_int8(model: onnx.ModelProto, path: Path) -> None:
    """Writes the graph with matrices and embeddings in 8 bits.

    Weights have 7 bits a column: on processors that add two products of 8 bits in 16,
    full range overflows.
    """
    from onnxruntime.quantization import QuantType
    from onnxruntime.quantization import quantize_dynamic

    logger = logging.getLogger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # it recommends a step that changes nothing here
    try:
        quantize_dynamic(
            model,
            path,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
        )
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _reshapes_apart() -> Iterator[None]:
    """Keeps tf2onnx from making one reshape of two.

    It would keep the second one's zeros, which mean "as in the input", though they
    spoke of the result of the first. ONNX Runtime merges them itself, and rightly.
    """
    steps = optimizer._optimizers
    every_step = steps.copy()
    steps.pop("remove_back_to_back", None)
    try:
        yield
    finally:
        steps.clear()
        steps.update(every_step)


def _select(context: Any, node: Any, name: str, arguments: Any) -> None:
    """`tf.where` is ONNX's; tf2onnx's own way multiplies with zeros and ones."""
    node.type = "Where"


def _erfc(context: Any, node: Any, name: str, arguments: Any) -> None:
    """1 - erf(x), of which gelu is made; ONNX has erf alone."""
    dtypes, shapes = node.output_dtypes, node.output_shapes
    one = context.make_const(f"{name}/one", np.ones((), np.float32)).output[0]
    erf = context.make_node("Erf", node.input, dtypes=dtypes, shapes=shapes).output[0]
    outputs = list(node.output)
    context.remove_node(name)
    context.make_node(
        "Sub", [one, erf], name=name, outputs=outputs, dtypes=dtypes, shapes=shapes
    )


def _share_transposed(graph: onnx.GraphProto) -> None:
    """The output matrix is the embedding read backwards: one constant is enough."""
    matrices = {
        constant.name: numpy_helper.to_array(constant)
        for constant in graph.initializer
        if len(constant.dims) == 2 and min(constant.dims) > 1
    }
    kept: dict[str, np.ndarray] = {}
    for name, matrix in matrices.items():
        twin = next(
            (other for other, seen in kept.items() if np.array_equal(seen.T, matrix)),
            None,
        )
        if twin is None:
            kept[name] = matrix
            continue
        constant = next(c for c in graph.initializer if c.name == name)
        graph.initializer.remove(constant)
        graph.node.insert(0, helper.make_node("Transpose", [twin], [name], perm=[1, 0]))
