"""What a tokenizer file of a stranger would cost, told before SentencePiece reads it.

The file is a message of Protocol Buffers, in which two bytes can ask for a hundred.
"""

from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES

_PIECE, _NORMALIZER, _CHARACTER_MAP = 1, 3, 2  # numbers of fields
_MOST_OTHER_BYTES = 8 * 2**20  # of all that is no piece
#: Of what one character becomes; Unicode's own rules (NFKC) need 33.
_LONGEST_REPLACEMENT = 1024
_FIXED = {1: 8, 5: 4}  # bytes of a value, by its kind on the wire


def check_tokenizer(path: Path, vocabulary_size: int) -> None:
    """Refuses a file that would cost far more than a tokenizer of this size does.

    What is no SentencePiece model, or is missing, is left to `Tokenizer.load`.

    Args:
        path: of the file.
        vocabulary_size: V, the most pieces that it may have.

    Raises:
        InputError: naming the file, what is too much, and the bound.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(
                f"{path} is too large for a tokenizer: more than {MOST_BYTES} bytes"
            )
        model = path.read_bytes()
    except OSError:
        return
    pieces = others = 0
    try:
        for field, content in _fields(model):
            if field == _PIECE:
                pieces += 1
            else:
                others += len(content)
            if pieces > vocabulary_size:
                raise InputError(
                    f"{path}: the tokenizer has more pieces than the "
                    f"{vocabulary_size} of the model; use the model's own tokenizer"
                )
            if others > _MOST_OTHER_BYTES:
                raise InputError(
                    f"{path}: the tokenizer has more than {_MOST_OTHER_BYTES} bytes "
                    f"beside its pieces; train it again or copy it again"
                )
            if field == _NORMALIZER:
                _check_replacements(content, path)
    except InputError:
        raise
    except (IndexError, KeyError, ValueError):
        return


def _check_replacements(normalizer: bytes, where: Path) -> None:
    for field, content in _fields(normalizer):
        if field != _CHARACTER_MAP:
            continue
        table = int.from_bytes(content[:4], "little")
        longest = max(map(len, content[4 + table :].split(b"\0")))
        if longest > _LONGEST_REPLACEMENT:
            raise InputError(
                f"{where}: the tokenizer replaces one character by {longest} bytes, "
                f"more than {_LONGEST_REPLACEMENT}; use another normalization"
            )


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the content of each field; a plain number has its bytes."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            _, end = _number(message, at)
        elif kind == 2:
            size, at = _number(message, at)
            end = at + size
        else:
            end = at + _FIXED[kind]
        if end > len(message):
            raise ValueError
        yield field, message[at:end]
        at = end


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while shift < 70:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError
