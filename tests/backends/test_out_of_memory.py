"""What a backend says when memory runs out is known as such by the program."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.cli import exit_codes

ELEMENTS = 2**45  # more bytes than a process can address


def end_of(function, capsys):
    with pytest.raises(SystemExit) as stopped, exit_codes.reported():
        function()
    return stopped.value.code, capsys.readouterr().err


def test_tensors_that_memory_does_not_hold_are_bad_input(capsys):
    def allocate():
        ops.convert_to_numpy(ops.zeros((ELEMENTS,), "float32"))

    code, error = end_of(allocate, capsys)
    assert code == 2
    assert error.startswith("error: not enough memory: ")
    assert "data.batch_tokens" in error and len(error.splitlines()) == 1


@pytest.mark.one_backend
def test_arrays_that_memory_does_not_hold_are_bad_input(capsys):
    code, error = end_of(lambda: np.zeros(ELEMENTS * 16), capsys)
    assert (code, "Traceback" in error) == (2, False)
