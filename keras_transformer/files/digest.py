"""The SHA-256 of a file or of JSON, by which damage to it shows."""

import hashlib
import json
from pathlib import Path
from typing import Any


def sha256_of(path: Path) -> str:
    """In hexadecimal digits, of all its bytes; `OSError` where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_json(content: Any) -> str:
    """In hexadecimal digits, of a JSON value, however it is laid out in a file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
