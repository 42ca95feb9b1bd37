"""The choice of what is kept from training, by a hash: the same on every machine."""

import hashlib
from collections.abc import Mapping


def split_by_hash(salted_mark: str, shares: Mapping[str, float]) -> str:
    """The split that a mark is held out for, or `"train"`.

    Args:
        salted_mark: what is held out, behind a word of one's own, such as
            `"everyday drink milk"`: another word makes another choice.
        shares: of all marks, by the split that gets them.
    """
    digest = hashlib.sha256(salted_mark.encode()).digest()
    draw = int.from_bytes(digest[:8], "big") / 2**64
    for split, share in shares.items():
        if draw < share:
            return split
        draw -= share
    return "train"
