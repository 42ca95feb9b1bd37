"""What a cache of encoded text holds."""

import os

WORDS = "a b c d e f g h"


def lists(pairs):
    return list(zip(pairs.source.lists(), pairs.target.lists(), strict=True))


def folders(tmp_path):
    names = os.listdir(tmp_path / "cache")
    return [name for name in names if not name.endswith(".lock")]
