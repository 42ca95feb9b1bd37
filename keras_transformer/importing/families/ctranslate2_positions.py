"""Positions of a CTranslate2 model: which the files have, in the words of a config.

D hidden_dim, H heads, L the longest distance that has a number of its own.
"""

from __future__ import annotations

import functools
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_transformer.config.translation import MOST_POSITIONS
from keras_transformer.errors import InputError
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File
from keras_transformer.position_tables import LAYOUTS
from keras_transformer.position_tables import bucket_starts
from keras_transformer.position_tables import sinusoidal_table

STACKS = {"encoder": "source", "decoder": "target"}
TABLE = "position_encodings/encodings"
#: Of relative positions and RoPE, within self-attention.
BIAS = "relative_attention_bias"
DISTANCE = "relative_attention_max_distance"
ROTARY = ("rotary_dim", "rotary_interleave", "rotary_base")
#: Sinusoids of a file without a table.
_DEFAULT = {"position": "sinusoidal_halves_t2t", "position_offset": 1}
#: Offsets that toolkits have: their ids of padding, or one.
_OFFSETS = range(4)
#: What angles in float32 and tables in bfloat16 lose.
_TOLERANCE = 3e-3


class Positions(NamedTuple):
    """What the files say of positions.

    Attributes:
        fields: of `TransformerConfig`.
        weights: by path.
        unused: names of tables that the fields say too.
    """

    fields: dict[str, Any]
    weights: dict[str, Weight]
    unused: tuple[str, ...] = ()


def positions(file: CTranslate2File) -> Positions:
    """The positions of a model, by its first layers and its tables.

    Raises:
        InputError: where this package has no such positions.
    """
    first = "encoder/layer_0/self_attention"
    if f"{first}/{BIAS}" in file.tensors:
        return _relative(file)
    if file.number(f"{first}/{ROTARY[0]}") is not None:
        return _rotary(file, first)
    names = [f"{stack}/{TABLE}" for stack in STACKS]
    held = [name for name in names if name in file.tensors]
    if not held:
        return Positions(dict(_DEFAULT), {})
    tables = [_matrix(file, name) for name in held]
    if len(held) < len(names):
        raise refused(file, f"a table of positions in {held[0]} alone")
    longest = min(map(len, tables))
    limit = {"max_sequence_length": longest}
    if not any(table.any() for table in tables):
        return Positions({"position": "none", **limit}, {}, tuple(names))
    found = [_sinusoids(table) for table in tables]
    if found[0] is not None and found[0] == found[1]:
        return Positions({**found[0], **limit}, {}, tuple(names))
    rows = functools.partial(_rows, np.arange(longest))
    weights = {
        f"{side}_position/embeddings": Weight((name,), rows)
        for side, name in zip(STACKS.values(), names, strict=True)
    }
    return Positions({"position": "learned", **limit}, weights)


def refused(file: CTranslate2File, what: str) -> InputError:
    """The error of a model with a part that this package has not."""
    return InputError(
        f"{file.path}: a CTranslate2 model with {what} cannot be imported; translate "
        f"with CTranslate2"
    )


def _matrix(file: CTranslate2File, name: str) -> np.ndarray:
    if name not in file.tensors or len(file.tensors[name].shape) != 2:
        raise refused(file, f"no matrix {name}")
    return file.read(name)


def _rows(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values[rows]


def _sinusoids(table: np.ndarray) -> dict[str, Any] | None:
    """The fields of sinusoids that give this table; None where none do."""
    longest, dim = table.shape
    if longest == 0 or dim == 0 or dim % 2:
        return None
    for position, layout in LAYOUTS.items():
        for offset in _OFFSETS:
            for rows in (table[:2], table):  # few tables are looked at whole
                ours = sinusoidal_table(len(rows), dim, layout, offset)
                if not np.allclose(rows, ours, rtol=0, atol=_TOLERANCE):
                    break
            else:
                return {"position": position, "position_offset": offset}
    return None


def _rotary(file: CTranslate2File, first: str) -> Positions:
    interleave, base = (file.number(f"{first}/{name}") for name in ROTARY[1:])
    interleaved = interleave is None or bool(interleave)
    return Positions(
        {
            "position": "rotary" if interleaved else "rotary_halves",
            "rotary_base": 10_000.0 if base is None else base,
        },
        {},
    )


# === Relative positions ===


def _relative(file: CTranslate2File) -> Positions:
    names = {stack: f"{stack}/layer_0/self_attention/{BIAS}" for stack in STACKS}
    tables = {stack: _matrix(file, name) for stack, name in names.items()}
    distances = {
        file.number(f"{stack}/layer_0/self_attention/{DISTANCE}") for stack in STACKS
    }
    distance = distances.pop()
    if distances or distance is None:
        raise refused(file, f"{DISTANCE} that encoder and decoder do not share")
    if not 0 < distance <= MOST_POSITIONS:
        raise refused(file, f"{DISTANCE} {distance}")
    encoder, decoder = tables["encoder"], tables["decoder"]
    if len(encoder) == len(decoder):
        fields = {
            "num_relative_buckets": len(encoder),
            "max_relative_distance": int(distance),
        }
        rows = {stack: np.arange(len(table)) for stack, table in tables.items()}
    elif _is_of_distances(encoder, decoder):
        fields, rows = _of_distances(encoder, decoder)
    else:
        raise refused(
            file,
            f"{len(encoder)} relative buckets in its encoder and {len(decoder)} in "
            f"its decoder",
        )
    return Positions(
        {"position": "relative_buckets", **fields},
        {
            f"{side}_position/embeddings": Weight(
                (names[stack],), functools.partial(_rows, rows[stack])
            )
            for stack, side in STACKS.items()
        },
    )


def _is_of_distances(encoder: np.ndarray, decoder: np.ndarray) -> bool:
    """Whether the tables are those of an export of this package.

    They have a row for each distance, and rows behind it that are all alike.
    """
    size = len(decoder)
    if size < 4 or size % 2 or len(encoder) != 2 * size:
        return False
    halves = (decoder, encoder[:size], encoder[size:])
    return all((half[size // 2 :] == half[-1]).all() for half in halves)


def _of_distances(
    encoder: np.ndarray, decoder: np.ndarray
) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The fields, and the row of each bucket of encoder and decoder.

    The buckets that the export began with, where the rows show them all; else a bucket
    for each distance.
    """
    size = len(decoder)
    longest = size // 2
    changes = (decoder[1:] != decoder[:-1]).any(axis=1)
    starts = np.flatnonzero([True, *changes])
    count = len(starts)
    if count % 4 == 0 and longest > count // 2:
        half = bucket_starts(count // 2, longest)
        bucket = np.searchsorted(half, np.arange(size), side="right") - 1
        sides = np.concatenate([half, half + size])
        same = encoder[sides][np.concatenate([bucket, bucket + len(half)])] == encoder
        if same.all() and np.array_equal(bucket_starts(count, longest), starts):
            return (
                {"num_relative_buckets": count, "max_relative_distance": longest},
                {"encoder": sides, "decoder": starts},
            )
    # Twice as many buckets as distances: of the second half, none is needed.
    behind = np.full(size, size - 1)
    return (
        {"num_relative_buckets": 2 * size, "max_relative_distance": size + 1},
        {
            "encoder": np.arange(2 * size),
            "decoder": np.concatenate([np.arange(size), behind]),
        },
    )
