"""Cost limits of untrusted tokenizer files, checked before they are read in full.

A SentencePiece model is a Protocol Buffers message, where two bytes can expand to a
hundred. A list of pieces has a line for each piece and merge.
"""

from pathlib import Path

from keras_transformer.data import listed_pieces
from keras_transformer.data.own_tokenizers import without_name
from keras_transformer.data.protocol_buffers import fields
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file

_PIECE, _NORMALIZER, _CHARACTER_MAP = 1, 3, 2  # numbers of fields
_MOST_OTHER_BYTES = 8 * 2**20  # of everything but pieces
#: Of the replacement of one character; Unicode's own rules (NFKC) need 33.
_LONGEST_REPLACEMENT = 1024


def load_within_bounds(folder: Path, name: str, vocabulary_size: int) -> Tokenizer:
    """The tokenizer of an untrusted folder.

    Args:
        folder: where it must lie.
        name: of the file.
        vocabulary_size: V, the maximum number of pieces.

    Raises:
        InputError: where it is missing, something else, leads out of the folder, or
            would cost far more than a tokenizer of this size.
    """
    path = plain_file(folder, name, MOST_BYTES)
    _check_cost(path, vocabulary_size)
    return Tokenizer.load(path)


def _check_cost(path: Path, vocabulary_size: int) -> None:
    """Refuses a tokenizer that costs too much; other faults are left to its reader."""
    try:
        _, model = without_name(path.read_bytes())
    except (OSError, InputError):
        return
    if listed_pieces.is_listed(model):
        try:
            listed_pieces.check_cost(model, vocabulary_size)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
        return
    pieces = other_bytes = 0
    try:
        for field, content in fields(model):
            if field == _PIECE:
                pieces += 1
            else:
                other_bytes += len(content)
            if pieces > vocabulary_size:
                raise InputError(
                    f"{path}: the tokenizer has more pieces than the "
                    f"{vocabulary_size} of the model; use the model's own tokenizer"
                )
            if other_bytes > _MOST_OTHER_BYTES:
                raise InputError(
                    f"{path}: the tokenizer has more than {_MOST_OTHER_BYTES} bytes "
                    "besides its pieces; train it again or copy it again"
                )
            if field == _NORMALIZER:
                _check_replacements(content, path)
    except InputError:
        raise
    except ValueError:  # not a message at all
        return


def _check_replacements(normalizer: bytes, where: Path) -> None:
    for field, content in fields(normalizer):
        if field != _CHARACTER_MAP:
            continue
        table = int.from_bytes(content[:4], "little")
        longest = max(map(len, content[4 + table :].split(b"\0")))
        if longest > _LONGEST_REPLACEMENT:
            raise InputError(
                f"{where}: the tokenizer replaces one character by {longest} bytes, "
                f"more than {_LONGEST_REPLACEMENT}; use another normalization"
            )
