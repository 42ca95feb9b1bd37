"""Batch rule of a run: how it plans its batches, the same from beginning to end.

Stored in `batches.json` of the run folder, with the numbers of devices and
micro-batches at the beginning, and of what the sizes of batches are multiples. Runs
without this file, of earlier versions, have rule 1.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from keras_transformer.data.batching import RULE
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file

FILE = "batches.json"

_NUMBERS = ("rule", "devices", "micro_batches", "sizes_multiple_of")

#: Config keys that do not affect batches since rule 2.
_SHARES = ("training.distribution", "training.devices", "training.micro_batches")


def batch_rule(folder: Path) -> int:
    """The `rule` of the `TokenBatches` of a run.

    Raises:
        InputError: where the file is not one of this version.
    """
    return _read(folder)["rule"] if (folder / FILE).exists() else 1


def sizes_multiple_of(folder: Path) -> int:
    """That of the `TokenBatches` of a run: of the device that it began on.

    Raises:
        InputError: where the file is not one of this version.
    """
    return _read(folder)["sizes_multiple_of"] if (folder / FILE).exists() else 1


def new_record(
    is_under_way: bool, devices: int, micro_batches: int, sizes_multiple_of: int
) -> str:
    """The content of the file for a run that has none.

    Args:
        is_under_way: whether a version without rules began the run.
        devices: the number of devices that share a batch.
        micro_batches: the number of micro-batches of each share.
        sizes_multiple_of: what this device prefers.
    """
    rule = 1 if is_under_way else RULE
    record = {"rule": rule, "devices": devices, "micro_batches": micro_batches}
    record["sizes_multiple_of"] = 1 if is_under_way else sizes_multiple_of
    return json.dumps(record) + "\n"


def tell_changes(
    folder: Path, devices: int, micro_batches: int, say: Callable[[str], None]
) -> None:
    """Reports where a run continues with other numbers than it began with."""
    record = _read(folder)
    for name, number in (("devices", devices), ("micro_batches", micro_batches)):
        if record[name] == number:
            continue
        text = f"the run was begun with {name} {record[name]}, now it is {number}"
        if record["rule"] == 1:
            say(f"warning: {text}, which changes its batches")
        else:
            say(f"{text}; batches and results are the same, but for rounding")


def without_shares(folder: Path, differences: list[str]) -> list[str]:
    """Those lines of `config.difference` that change a run, whose batches they are."""
    if batch_rule(folder) == 1:
        return differences
    return [line for line in differences if line.partition(":")[0] not in _SHARES]


def _read(folder: Path) -> dict[str, int]:
    path = plain_file(folder, FILE, MOST_BYTES)
    try:
        record = {"sizes_multiple_of": 1}  # of runs of earlier versions
        record |= json.loads(path.read_text(encoding="utf-8"))
        numbers = [record[key] for key in _NUMBERS]
        is_valid = all(type(n) is int and n > 0 for n in numbers)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        is_valid = False
    if not is_valid or record["rule"] > RULE:
        raise InputError(
            f"{path} has no valid batch rule, or a later version wrote it; copy it "
            "again, use that version, or choose another output"
        )
    return record
