"""The exception for input that a person can mend, and a sentence for one more.

Everything that reads what somebody wrote (files, configs, arguments) raises
`InputError` with one sentence that says what is wrong, where (file, line or key)
and how to mend it. The command line prints it as one line and exits with 2.
"""

import contextlib
from collections.abc import Iterator


class InputError(ValueError):
    """Bad input: the message says what, where and how to mend it."""


class ModelError(InputError):
    """A model that cannot translate, whatever the text: it computes NaN, say."""


#: Parts of what PyTorch on a processor, JAX, TensorFlow and CUDA raise.
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "RESOURCE_EXHAUSTED",
    "ResourceExhaustedError",
    "OutOfMemoryError",
)


def out_of_memory(error: Exception) -> str | None:
    """One sentence for a person where Python or a backend says that memory ran out."""
    text = f"{type(error).__name__}: {error}"
    known = isinstance(error, MemoryError) or any(p in text for p in _OUT_OF_MEMORY)
    if not known:
        return None
    reason = str(error).strip().partition("\n")[0]
    return (
        f"not enough memory: {reason}; lower the size of a batch "
        f"(data.batch_tokens in training), the beam or max_length"
    )


@contextlib.contextmanager
def told_of(subject: str) -> Iterator[None]:
    """Context in which messages of `InputError` begin with what they are about.

    Args:
        subject: such as a key of a config, or a file.
    """
    try:
        yield
    except InputError as error:
        raise InputError(f"{subject}: {error}") from None
