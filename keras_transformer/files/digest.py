"""The SHA-256 of a file or of JSON, by which damage to it shows."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """That of a file, in hexadecimal digits; `OSError` where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(content: Any) -> str:
    """That of a JSON value, however it is laid out, in hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
