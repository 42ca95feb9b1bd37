"""How many programs run at once is what the machine and the user allow."""

import os

import pytest

from keras_transformer.processors import num_threads

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize("wanted", [None, "1", "1000", "", "0", "all"])
def test_no_more_than_there_are_and_than_are_wanted(wanted, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wanted is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 6})
    else:
        monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert num_threads() == (1 if wanted == "1" else 3)
