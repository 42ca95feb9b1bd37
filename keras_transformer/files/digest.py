"""The SHA-256 of a file, by which damage to it shows."""

import hashlib
from pathlib import Path


def sha256_of(path: Path) -> str:
    """In hexadecimal digits, of all its bytes; `OSError` where it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
