"""Validation of an export's `model.bin` before CTranslate2 loads it.

The library does not check the shapes of arrays, and with wrong ones reads memory out of
bounds.

D hidden_dim, F intermediate_dim, H heads, G heads of keys and values, K size of a head,
V vocabulary.
"""

import struct
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.ctranslate2_file import Array
from keras_transformer.importing.reading.ctranslate2_file import read_table

_LAYOUT = 6
_WHOLE = ("int8", "int16", "int32")

#: Numbers of a stack, by the values that an export writes.
_NUMBERS: dict[str, Sequence[int]] = {
    "activation": range(7),
    "alignment_heads": (0, 1),  # all; of older exports the first
    "pre_norm": (0, 1),
    "scale_embeddings": (0, 1),
}


def check_weights(
    path: Path, vocabulary_sizes: tuple[int, int], longest_sequence: int
) -> None:
    """Refuses a file that is not a Transformer of the given sizes.

    Args:
        path: the path of `model.bin`.
        vocabulary_sizes: V of source and target.
        longest_sequence: the minimum number of positions of its tables.

    Raises:
        InputError: where it is missing, truncated or foreign.
    """
    try:
        arrays = _table(path)
        fault = next(_faults(arrays, vocabulary_sizes, longest_sequence), None)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; export the model again"
        ) from None
    except (IndexError, KeyError, ValueError, struct.error):
        fault = "it is truncated, damaged or of another kind"
    if fault is not None:
        raise InputError(f"{path}: {fault}; export the model again")


def _table(path: Path) -> dict[str, Array]:
    """The arrays by name; only scalars are read."""
    table = read_table(path)
    if (table.layout, table.specification) != (_LAYOUT, "TransformerSpec"):
        raise ValueError
    return table.arrays


# === What it must hold ===


class _Layout(NamedTuple):
    """What a model needs and what it may have: shapes, and the values of numbers."""

    needed: dict[str, tuple[int, ...]]
    allowed: dict[str, tuple[int, ...]]
    numbers: dict[str, Sequence[int]]


class _Stack(NamedTuple):
    """The sizes of the blocks of a stack."""

    dim: int  # D
    inner: int  # F
    heads: int  # H
    groups: int  # G
    size: int  # K


def _faults(
    arrays: dict[str, Array], vocabulary_sizes: tuple[int, int], longest: int
) -> Iterator[str]:
    layout = _layout(arrays, vocabulary_sizes, longest)
    yield from (f"it has no {name}" for name in layout.needed if name not in arrays)
    shapes = layout.needed | layout.allowed
    for name, array in arrays.items():
        if name in layout.numbers:
            if _whole(array) not in layout.numbers[name]:
                yield f"{name} is {array.value}, which is nothing that fits the model"
        elif name in shapes:
            if array.shape != shapes[name]:
                yield (
                    f"{name} has shape {array.shape}, but its place in the model needs "
                    f"{shapes[name]}"
                )
            yield from _type_faults(name, arrays)
        elif not (name.removesuffix("_scale") in shapes or _is_off(name, array)):
            yield f"{name} is not part of an export"


def _layout(
    arrays: dict[str, Array], vocabulary_sizes: tuple[int, int], longest: int
) -> _Layout:
    source, target = vocabulary_sizes
    dim = arrays["decoder/embeddings/weight"].shape[1]
    needed: dict[str, tuple[int, ...]] = {
        "encoder/embeddings_0/weight": (source, dim),
        "decoder/embeddings/weight": (target, dim),
        "decoder/projection/weight": (target, dim),
    }
    allowed: dict[str, tuple[int, ...]] = {
        "decoder/projection/bias": (target,),
        "decoder/scale_outputs": (),
    }
    layout = _Layout(needed, allowed, {})
    for name in ("encoder", "decoder"):
        _add_stack(layout, arrays, name, _stack(arrays, name, dim), longest)
    return layout


def _stack(arrays: dict[str, Array], name: str, dim: int) -> _Stack:
    """What the first block of a stack says of them all."""
    attention = f"{name}/layer_0/self_attention"
    inner = arrays[f"{name}/layer_0/ffn/linear_0/weight"].shape[0]
    width = arrays[f"{attention}/linear_1/weight"].shape[1]
    heads = groups = _whole(arrays[f"{name}/num_heads"])
    if f"{attention}/num_heads_kv" in arrays:
        groups = _whole(arrays[f"{attention}/num_heads_kv"])
    if min(dim, inner, width, heads, groups) < 1 or width % heads or heads % groups:
        raise ValueError
    return _Stack(dim, inner, heads, groups, width // heads)


def _add_stack(
    layout: _Layout, arrays: dict[str, Array], name: str, stack: _Stack, longest: int
) -> None:
    needed, allowed, numbers = layout
    dim, inner = stack.dim, stack.inner
    for norm in ("layer_norm", "layernorm_embedding"):
        for part in ("gamma", "beta"):
            allowed[f"{name}/{norm}/{part}"] = (dim,)
    layers = 0
    while f"{name}/layer_{layers}/ffn/linear_0/weight" in arrays:
        path = f"{name}/layer_{layers}"
        _add_attention(layout, arrays, f"{path}/self_attention", stack)
        if name == "decoder":
            _add_attention(layout, arrays, f"{path}/attention", stack)
        linears = {"linear_0": (inner, dim), "linear_1": (dim, inner)}
        if f"{path}/ffn/linear_0_noact/weight" in arrays:
            linears["linear_0_noact"] = (inner, dim)
        _add_sublayer(layout, f"{path}/ffn", dim, linears)
        layers += 1
    table = f"{name}/position_encodings/encodings"
    attention = f"{name}/layer_0/self_attention"
    in_attention = ("rotary_dim", "relative_attention_bias")
    if not any(f"{attention}/{part}" in arrays for part in in_attention):
        needed[table] = (max(arrays[table].shape[0], longest), dim)
    values = {**_NUMBERS, "num_heads": (stack.heads,)}
    values["alignment_layer"] = range(-1, layers)  # -1, of older exports: the last
    numbers |= {
        f"{name}/{key}": allowed_values for key, allowed_values in values.items()
    }


def _add_attention(
    layout: _Layout, arrays: dict[str, Array], path: str, stack: _Stack
) -> None:
    needed, allowed, numbers = layout
    dim, heads, groups, size = stack.dim, stack.heads, stack.groups, stack.size
    queries, others = heads * size, 2 * groups * size
    is_self = path.endswith("self_attention")
    shapes = [(queries + others, dim)] if is_self else [(queries, dim), (others, dim)]
    shapes.append((dim, queries))
    linears = {f"linear_{number}": shape for number, shape in enumerate(shapes)}
    _add_sublayer(layout, path, dim, linears)
    needed[f"{path}/queries_scale"] = ()
    numbers |= {f"{path}/num_heads_kv": (groups,), f"{path}/head_dim": (size,)}
    if groups < heads:
        needed |= {f"{path}/num_heads_kv": (), f"{path}/head_dim": ()}
    if not is_self:
        return
    numbers[f"{path}/rotary_dim"] = range(2, size + 1, 2)
    numbers[f"{path}/rotary_interleave"] = (0, 1)
    allowed[f"{path}/rotary_base"] = ()
    bias = f"{path}/relative_attention_bias"
    if bias in arrays:
        buckets = arrays[bias].shape[0]
        # Half of those of a direction hold one distance each. From twice as many on,
        # the library's logarithms cannot lead out of the others.
        exact = buckets // (2 if path.startswith("decoder") else 4)
        if exact < 1:
            raise ValueError
        needed |= {
            bias: (buckets, heads),
            f"{path}/relative_attention_max_distance": (),
        }
        numbers[f"{path}/relative_attention_max_distance"] = range(2 * exact, 2**31)


def _add_sublayer(
    layout: _Layout, path: str, dim: int, linears: Mapping[str, tuple[int, ...]]
) -> None:
    """Its matrices, biases and normalization; RMS normalization has no `beta`."""
    layout.needed[f"{path}/layer_norm/gamma"] = (dim,)
    layout.allowed[f"{path}/layer_norm/beta"] = (dim,)
    for name, shape in linears.items():
        layout.needed[f"{path}/{name}/weight"] = shape
        layout.allowed[f"{path}/{name}/bias"] = shape[:1]


def _whole(array: Array) -> int:
    if array.shape or array.dtype not in _WHOLE or array.value is None:
        raise ValueError
    return int(array.value)


def _type_faults(name: str, arrays: dict[str, Array]) -> Iterator[str]:
    """The faults of the types of weights, or of the scales of integers."""
    array, scale = arrays[name], arrays.get(f"{name}_scale")
    is_whole = array.dtype == "int8" and name.endswith("/weight")
    if array.dtype in _WHOLE and not is_whole:
        yield f"{name} has a type that exports do not use"
    if is_whole != (scale is not None):
        yield f"{name}_scale does not go with the type of the weights"
    if scale is not None and (scale.shape, scale.dtype) != (array.shape[:1], "float32"):
        yield f"{name}_scale has shape {scale.shape}, not one for each row"


def _is_off(name: str, array: Array) -> bool:
    """Whether it is the number of a part that a model of this package does not use."""
    stack, _, key = name.partition("/")
    if stack not in ("encoder", "decoder") or "/" in key:
        return False
    return array.dtype == "int8" and array.value == 0
