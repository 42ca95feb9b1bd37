"""`model.bin` of an export to CTranslate2, looked through before the library has it.

The library takes the shapes of the arrays for granted, and with others would read
memory that is not theirs.

D hidden_dim, F intermediate_dim, A heads times their size, V vocabulary.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from typing import BinaryIO
from typing import NamedTuple

from keras_transformer.errors import InputError

_LAYOUT = 6
_INT8 = 1
#: Number of a type -> how `struct` reads one: int8, int16; float32, float16, bfloat16.
_WHOLE = {_INT8: "b", 2: "h"}
_FLOATS = {0: "f", 4: "e", 5: "H"}
_TYPES = _WHOLE | _FLOATS

#: Numbers that an export writes; a model has no others.
_NUMBERS = {"activation": range(7), "pre_norm": (0, 1), "scale_embeddings": (0, 1)}
_NUMBERS["alignment_heads"] = (0, 1)  # all; of older exports the first


class _Array(NamedTuple):
    """What the file says of one array; `value` of a single number."""

    shape: tuple[int, ...]
    type: int
    value: float | None


def check_weights(
    path: Path, vocabulary_sizes: tuple[int, int], longest_sequence: int
) -> None:
    """Refuses a file that is not a Transformer of the given sizes; keeps nothing of it.

    Args:
        path: of `model.bin`.
        vocabulary_sizes: V of source and target.
        longest_sequence: the fewest positions that its tables must have.

    Raises:
        InputError: where it is missing, cut off or foreign.
    """
    try:
        with path.open("rb") as file:
            arrays = _table(file)
        fault = next(_faults(arrays, vocabulary_sizes, longest_sequence), None)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; export the model again"
        ) from None
    except (IndexError, KeyError, ValueError, struct.error):
        fault = "it is cut off, damaged or of another kind"
    if fault is not None:
        raise InputError(f"{path}: {fault}; export the model again")


# === The file ===


def _table(file: BinaryIO) -> dict[str, _Array]:
    """The arrays by name; of their content a single number alone."""
    if (_number(file, "I"), _name(file)) != (_LAYOUT, "TransformerSpec"):
        raise ValueError
    _number(file, "I")  # the revision, which the library knows
    arrays: dict[str, _Array] = {}
    for _ in range(_number(file, "I")):
        name = _name(file)
        if name in arrays:
            raise ValueError
        arrays[name] = _array(file)
    aliases = {}
    for _ in range(_number(file, "I")):
        alias, name = _name(file), _name(file)
        if alias in arrays:
            raise ValueError
        arrays[alias] = arrays[name]
        aliases[alias] = name
    for alias, name in aliases.items():  # two names of weights share their scales
        if f"{name}_scale" in arrays:
            arrays.setdefault(f"{alias}_scale", arrays[f"{name}_scale"])
    end = file.tell()
    if file.seek(0, 2) != end:
        raise ValueError
    return arrays


def _array(file: BinaryIO) -> _Array:
    shape = tuple(_number(file, "I") for _ in range(_number(file, "B")))
    type = _number(file, "B")
    size = math.prod(shape) * struct.calcsize(_TYPES[type])
    if _number(file, "I") != size:
        raise ValueError
    if not shape:
        return _Array(shape, type, _number(file, _TYPES[type]))
    file.seek(size, 1)
    return _Array(shape, type, None)


def _name(file: BinaryIO) -> str:
    text = file.read(_number(file, "H")).decode("ascii")
    if not text.endswith("\0"):
        raise ValueError
    return text[:-1]


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]


# === What it must hold ===


def _faults(
    arrays: dict[str, _Array], vocabulary_sizes: tuple[int, int], longest: int
) -> Iterator[str]:
    needed, allowed = _shapes(arrays, vocabulary_sizes, longest)
    yield from (f"it has no {name}" for name in needed if name not in arrays)
    shapes = needed | allowed
    for name, array in arrays.items():
        if name in shapes:
            if array.shape != shapes[name]:
                yield (
                    f"{name} has shape {array.shape}, but its place in the model needs "
                    f"{shapes[name]}"
                )
            yield from _type_faults(name, arrays)
        elif not (
            name.removesuffix("_scale") in shapes
            or _is_number_of_an_export(name, arrays)
        ):
            yield f"{name} is nothing that an export writes"


def _shapes(
    arrays: dict[str, _Array], vocabulary_sizes: tuple[int, int], longest: int
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """`{name: shape}` of what a model with these sizes needs, and of what it may have.

    D, F and A are those of one array each.
    """
    source, target = vocabulary_sizes
    dim = arrays["decoder/embeddings/weight"].shape[1]
    inner = arrays["encoder/layer_0/ffn/linear_0/weight"].shape[0]
    heads = arrays["encoder/layer_0/self_attention/linear_1/weight"].shape[1]
    if min(dim, inner, heads) < 1:
        raise ValueError
    needed: dict[str, tuple[int, ...]] = {
        "encoder/embeddings_0/weight": (source, dim),
        "decoder/embeddings/weight": (target, dim),
        "decoder/projection/weight": (target, dim),
    }
    allowed: dict[str, tuple[int, ...]] = {"decoder/projection/bias": (target,)}
    blocks = {
        "self_attention": [(3 * heads, dim), (dim, heads)],
        "ffn": [(inner, dim), (dim, inner)],
    }
    for stack in ("encoder", "decoder"):
        table = f"{stack}/position_encodings/encodings"
        needed[table] = (max(arrays[table].shape[0], longest), dim)
        for norm in ("layer_norm", "layernorm_embedding"):
            allowed |= _norm(f"{stack}/{norm}", dim)
        layer = 0
        while f"{stack}/layer_{layer}/ffn/linear_0/weight" in arrays:
            for block, linears in blocks.items():
                path = f"{stack}/layer_{layer}/{block}"
                needed |= _norm(f"{path}/layer_norm", dim)
                for number, shape in enumerate(linears):
                    needed[f"{path}/linear_{number}/weight"] = shape
                    biases = needed if block == "ffn" else allowed
                    biases[f"{path}/linear_{number}/bias"] = shape[:1]
                if block != "ffn":
                    needed[f"{path}/queries_scale"] = ()
            layer += 1
        blocks["attention"] = [(heads, dim), (2 * heads, dim), (dim, heads)]
    return needed, allowed


def _norm(path: str, dim: int) -> dict[str, tuple[int, ...]]:
    return {f"{path}/{name}": (dim,) for name in ("gamma", "beta")}


def _type_faults(name: str, arrays: dict[str, _Array]) -> Iterator[str]:
    """What is wrong with the type of weights, or with the scales of whole numbers."""
    array, scale = arrays[name], arrays.get(f"{name}_scale")
    is_whole = array.type == _INT8 and name.endswith("/weight")
    if array.type not in _FLOATS and not is_whole:
        yield f"{name} is of a type that no export writes"
    if is_whole != (scale is not None):
        yield f"{name}_scale does not go with the type of the weights"
    if scale is not None and (scale.shape, scale.type) != (array.shape[:1], 0):
        yield f"{name}_scale has shape {scale.shape}, not one for each row"


def _is_number_of_an_export(name: str, arrays: dict[str, _Array]) -> bool:
    array = arrays[name]
    stack, _, key = name.partition("/")
    if stack not in ("encoder", "decoder") or array.type not in _WHOLE:
        return False
    if key == "num_heads":
        heads = arrays["encoder/layer_0/self_attention/linear_1/weight"].shape[1]
        count = array.value or 0
        return count > 0 and heads % count == 0
    if key == "alignment_layer":  # -1, of older exports: the last
        last = array.value == -1
        return last or f"decoder/layer_{array.value}/ffn/linear_0/weight" in arrays
    if key in _NUMBERS:
        return array.value in _NUMBERS[key]
    # What a model of this package does not use is turned off.
    return "/" not in key and array.type == _INT8 and array.value == 0
