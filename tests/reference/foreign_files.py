"""Files of weights of other toolkits, for tests that read or spoil them."""

import json
import struct

import numpy as np
import safetensors.numpy

#: NumPy's dtypes in the order of CTranslate2's numbers.
CTRANSLATE2_DTYPES = ["float32", "int8", "int16", "int32", "float16", "bfloat16"]
MARIAN_TYPES = {"float32": 0x404, "float16": 0x402, "int8": 0x101, "int32": 0x104}


def write_safetensors(path, arrays):
    arrays = {name: np.asarray(values, order="C") for name, values in arrays.items()}
    path.write_bytes(safetensors.numpy.save(arrays))


def write_header(path, header, body=b"", size=None):
    """A .safetensors of any header, as JSON or bytes, of any declared size."""
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    size = len(header) if size is None else size
    path.write_bytes(struct.pack("<Q", size) + header + body)


def marian_item(values):
    """`(type, shape, bytes)` of a plain array."""
    return MARIAN_TYPES[values.dtype.name], values.shape, values.tobytes()


def multiplied_item(values, factor, kind, transposed=True):
    """`(type, shape, bytes)` of integers that stand for `values / factor`."""
    stored = values.T if transposed else values
    return kind, values.shape, stored.tobytes() + struct.pack("<f", factor)


def write_marian(path, items, version=1, end=b""):
    """A `.bin` of `{name: (type, shape, bytes)}`."""
    heads = names = shapes = data = b""
    for name, (kind, shape, content) in items.items():
        content += bytes(-len(content) % 256)
        encoded = name.encode() + b"\0"
        heads += struct.pack("<QQQQ", len(encoded), kind, len(shape), len(content))
        names += encoded
        shapes += struct.pack(f"<{len(shape)}i", *shape)
        data += content
    start = struct.pack("<QQ", version, len(items)) + heads + names + shapes
    padding = -(len(start) + 8) % 256
    start += struct.pack("<Q", padding) + bytes(padding)
    path.write_bytes(start + data + end)


def write_ctranslate2(path, arrays, layout=6, aliases=(), name="TransformerSpec"):
    """A `model.bin`; aliases are pairs of a name and what it stands for."""

    def text(value):
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    content = (
        struct.pack("<I", layout) + text(name) + struct.pack("<II", 7, len(arrays))
    )
    for key, values in arrays.items():
        shape, size = values.shape, values.dtype.itemsize
        content += text(key) + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
        if layout >= 4:
            code = CTRANSLATE2_DTYPES.index(values.dtype.name)
            content += struct.pack("<BI", code, values.nbytes)
        else:
            content += struct.pack("<BI", size, values.size)
        content += values.tobytes()
    if layout >= 3:
        content += struct.pack("<I", len(aliases))
        content += b"".join(text(part) for pair in aliases for part in pair)
    path.write_bytes(content)
