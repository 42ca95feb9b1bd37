"""Batches that a thread builds ahead of the steps."""

import threading

import pytest

from keras_transformer.data.ahead import AheadBatches
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


class Numbers:
    """Batches that are their own numbers; `events` has the index of each, as built."""

    def __init__(self, broken=None):
        self.special_ids = {"pad_id": 0}
        self.is_packed = False
        self.broken, self.events, self.begun = broken, [], 0
        self.grown = threading.Condition()

    def __getitem__(self, index):
        if index == self.broken:
            raise InputError(f"batch {index} is damaged")
        with self.grown:
            self.events.append((index, threading.current_thread()))
            self.grown.notify_all()
        return index

    def on_epoch_begin(self):
        self.begun += 1

    def on_epoch_end(self):
        pass

    def wait_for(self, count):
        with self.grown:
            assert self.grown.wait_for(lambda: len(self.events) >= count, timeout=60)


def test_a_thread_builds_them_ahead_in_order():
    numbers = Numbers()
    with AheadBatches(numbers, lambda batch: batch * 10, depth=2) as ahead:
        assert ahead[0] == 0  # for its shapes: the epoch has not begun
        assert numbers.events.pop() == (0, threading.current_thread())
        ahead.on_epoch_begin()
        assert numbers.begun == 1
        numbers.wait_for(2)  # before any is read
        assert [ahead[index] for index in range(5)] == [0, 10, 20, 30, 40]
        numbers.wait_for(7)
        indices, threads = zip(*numbers.events, strict=True)
        assert indices == tuple(range(7))
        (thread,) = set(threads)
        assert thread is not threading.current_thread() and thread.daemon
    assert not thread.is_alive()


def test_what_is_read_out_of_order_is_the_same():
    """Keras reads a batch for its shapes, and TensorFlow beyond the last step."""
    with AheadBatches(Numbers(), int) as ahead:
        ahead.on_epoch_begin()
        assert [ahead[index] for index in (0, 1, 0, 2, 7, 3, 8)] == [
            0,
            1,
            0,
            2,
            7,
            3,
            8,
        ]
        ahead.on_epoch_end()
        assert ahead[9] == 9
        assert ahead.shapes[9] == ((),)
        ahead.on_epoch_begin()
        assert [ahead[index] for index in range(3)] == [0, 1, 2]


def test_an_error_comes_where_its_batch_would_be_trained():
    numbers = Numbers(broken=3)
    with AheadBatches(numbers, int, depth=8) as ahead:
        ahead.on_epoch_begin()
        numbers.wait_for(3)
        assert [ahead[index] for index in range(3)] == [0, 1, 2]
        assert ahead.error is None
        for _ in range(2):  # again, rather than wait for a thread that has ended
            with pytest.raises(InputError, match="batch 3 is damaged"):
                ahead[3]
        assert str(ahead.error) == "batch 3 is damaged"
        assert ahead[4] == 4
