"""The rule by which a run plans its batches, kept from its beginning to its end.

`batches.json` in the run folder: the rule, and on how many devices and in how many
micro-batches the run was begun. Runs of versions that kept none have rule 1.
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

#: Keys of a config that no batch depends on since rule 2.
_SHARES = ("training.distribution", "training.devices", "training.micro_batches")


def batch_rule(folder: Path) -> int:
    """The `rule` of the `TokenBatches` of a run.

    Raises:
        InputError: where the file is not one of this version.
    """
    return _read(folder)["rule"] if (folder / FILE).exists() else 1


def new_record(is_under_way: bool, devices: int, micro_batches: int) -> str:
    """The content of the file, of a run that has none.

    Args:
        is_under_way: whether a version without rules began the run.
        devices: that share a batch.
        micro_batches: in which each of them works its share off.
    """
    rule = 1 if is_under_way else RULE
    record = {"rule": rule, "devices": devices, "micro_batches": micro_batches}
    return json.dumps(record) + "\n"


def tell_changes(
    folder: Path, devices: int, micro_batches: int, say: Callable[[str], None]
) -> None:
    """Says where a run goes on with other numbers than it was begun with."""
    begun = _read(folder)
    for name, now in (("devices", devices), ("micro_batches", micro_batches)):
        if begun[name] == now:
            continue
        text = f"the run was begun with {name} {begun[name]}, now it is {now}"
        if begun["rule"] == 1:
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
        record = json.loads(path.read_text(encoding="utf-8"))
        numbers = [record[key] for key in ("rule", "devices", "micro_batches")]
        known = all(type(n) is int and n > 0 for n in numbers)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        known = False
    if not known or record["rule"] > RULE:
        raise InputError(
            f"{path} does not say how to plan batches, or a later version wrote it; "
            f"copy it again, use that version, or choose another output"
        )
    return record
