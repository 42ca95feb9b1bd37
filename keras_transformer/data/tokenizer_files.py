"""File names of the tokenizers of model folders, exports and runs."""

_SHARED = "tokenizer.model"
_OWN = ("source.model", "target.model")

#: All file names that there may be.
TOKENIZER_FILES = (_SHARED, *_OWN)


def tokenizer_files(shared: bool) -> tuple[str, str]:
    """The files of source and target; the same file for a shared tokenizer."""
    return (_SHARED, _SHARED) if shared else _OWN
