"""The queue: who shares a batch, what is refused, and what a stop leaves."""

import threading
import time

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.serving.batching import Batcher
from keras_transformer.serving.batching import QueueFull
from keras_transformer.serving.batching import Stopping
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.metrics import Metrics

pytestmark = pytest.mark.no_backend

OPTIONS = Options(4)


@pytest.fixture
def held():
    """`held(**limits)`: an engine that waits, and a batcher whose queue thus grows."""
    started = []

    def start(**limits):
        engine = FakeEngine()
        limits = {"wait_seconds": 0.0, "batch_size": 8, **limits}
        batcher = Batcher(engine, Limits(**limits), Metrics())
        batcher.start()
        started.append((engine, batcher))
        (first,) = batcher.submit(["wait"], [1], OPTIONS)
        while not first.running():
            time.sleep(0.001)
        return engine, batcher

    yield start
    for engine, batcher in started:
        engine.go.set()
        batcher.stop()


def submit(batcher, *texts, length=1, options=OPTIONS, client=None):
    return batcher.submit(texts, [length] * len(texts), options, client)


def test_requests_that_wait_share_a_batch(held):
    engine, batcher = held()
    futures = [submit(batcher, f"text {i}")[0] for i in range(6)]
    engine.go.set()
    assert [f.result(5)[0].text for f in futures] == [f"TEXT {i}" for i in range(6)]
    assert [len(texts) for texts, _ in engine.batches] == [1, 6]


def test_the_oldest_goes_first_with_those_that_are_not_longer(held):
    engine, batcher = held(batch_size=3)
    for text, length in (("a", 30), ("b", 5), ("c", 90), ("d", 28), ("e", 40)):
        submit(batcher, text, length=length)
    engine.go.set()
    batcher.stop()
    assert [texts for texts, _ in engine.batches] == [
        ["wait"],
        ["a", "d", "b"],
        ["c", "e"],
    ]


def test_much_shorter_sentences_do_not_enlarge_a_batch(held):
    engine, batcher = held(batch_size=64)
    (long,) = submit(batcher, "long", length=60)
    (other,) = submit(batcher, "other", length=40)
    short = submit(batcher, *(f"short {i}" for i in range(60)), length=5)
    engine.go.set()
    batcher.stop()
    assert all(future.done() for future in (long, other, *short))
    # Two of its length: the program of eight rows, which has six to spare.
    assert [len(texts) for texts, _ in engine.batches] == [1, 8, 54]
    assert engine.batches[1][0][:3] == ["long", "other", "short 0"]


def test_few_sentences_take_a_small_program_several_times(held):
    engine, batcher = held(batch_size=64)
    submit(batcher, *(f"text {i}" for i in range(15)))
    engine.go.set()
    batcher.stop()
    assert [len(texts) for texts, _ in engine.batches] == [1, 8, 7]


def test_a_batch_has_one_kind_of_search(held):
    engine, batcher = held()
    greedy = Options(1)
    submit(batcher, "a", "b")
    submit(batcher, "c", "d", options=greedy)
    engine.go.set()
    batcher.stop()
    assert engine.batches[1:] == [(["a", "b"], OPTIONS), (["c", "d"], greedy)]


def test_long_sentences_make_smaller_batches(held):
    engine, batcher = held(batch_size=64, batch_tokens=1024)
    submit(batcher, *"abcdefghij", length=128)
    submit(batcher, *"klm", length=1000)
    engine.go.set()
    batcher.stop()
    # After eight of the first request it is the second one's turn.
    assert [len(texts) for texts, _ in engine.batches] == [1, 8, 1, 2, 1, 1]


def test_a_full_queue_takes_all_of_a_request_or_nothing(held):
    _, batcher = held(queue_sentences=3)
    submit(batcher, "a", "b")
    with pytest.raises(QueueFull):
        submit(batcher, "c", "d")
    submit(batcher, "e")


def test_what_is_cancelled_is_not_translated_and_makes_room(held):
    engine, batcher = held(queue_sentences=2)
    first, second = submit(batcher, "a", "b")
    assert first.cancel()
    submit(batcher, "c")
    engine.go.set()
    assert second.result(5)[0].text == "B"
    batcher.stop()
    assert "a" not in [text for texts, _ in engine.batches for text in texts]


def test_a_sentence_that_fails_takes_no_other_with_it(held):
    engine, batcher = held()
    good, bad, other = submit(batcher, "a", "fault", "b")
    engine.go.set()
    assert [good.result(5)[0].text, other.result(5)[0].text] == ["A", "B"]
    with pytest.raises(RuntimeError, match="a fault"):
        bad.result(5)


def test_an_engine_that_gives_too_few_rows_ends_nothing(held):
    engine, batcher = held()
    good, lost = submit(batcher, "a", "lost")
    engine.go.set()
    assert good.result(5)[0].text == "A"
    with pytest.raises(RuntimeError, match="the engine gave 0 rows for 1 sentences"):
        lost.result(5)
    assert submit(batcher, "b")[0].result(5)[0].text == "B"


def test_a_fault_that_goes_away_is_told_once(held, monkeypatch, capsys):
    engine, batcher = held()
    translate = engine.translate

    def too_large(texts, options):
        if len(texts) > 1:
            raise MemoryError("a fault of many")
        return translate(texts, options)

    monkeypatch.setattr(engine, "translate", too_large)
    futures = submit(batcher, "a", "b", "c")
    engine.go.set()
    assert [future.result(5)[0].text for future in futures] == ["A", "B", "C"]
    assert capsys.readouterr().err.count("MemoryError: a fault of many") == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_where_the_thread_ends_nobody_waits(held):
    engine, batcher = held(batch_size=2)
    futures = submit(batcher, "end", "a", "b")
    assert not batcher.ended
    engine.go.set()
    for future in futures:
        with pytest.raises(Stopping):
            future.result(5)
    with pytest.raises(Stopping):
        submit(batcher, "late")
    batcher.stop()
    assert batcher.ended


def test_a_stop_finishes_what_was_taken_and_takes_nothing_new(held):
    engine, batcher = held()
    futures = submit(batcher, *"abcdefghijkl")
    stopping = threading.Thread(target=batcher.stop)
    stopping.start()
    while not batcher._stopping:
        time.sleep(0.001)
    with pytest.raises(Stopping):
        submit(batcher, "late")
    engine.go.set()
    stopping.join(5)
    assert [f.result(0)[0].text for f in futures] == list("ABCDEFGHIJKL")


def test_the_first_sentence_waits_for_company_but_not_for_ever():
    engine = FakeEngine()
    batcher = Batcher(engine, Limits(wait_seconds=0.2, batch_size=2), Metrics())
    batcher.start()
    start = time.monotonic()
    for future in [submit(batcher, text)[0] for text in "ab"]:
        future.result(5)
    assert time.monotonic() - start < 0.2  # a full batch does not wait
    submit(batcher, "c")[0].result(5)
    batcher.stop()
    assert [texts for texts, _ in engine.batches] == [["a", "b"], ["c"]]


# === Turns ===


def test_a_client_of_one_sentence_does_not_wait_for_one_of_thousands(held):
    engine, batcher = held(queue_sentences=8000)
    for _ in range(28):
        submit(batcher, *["many"] * 128, length=40, client="a")
    for text, length in (("short", 5), ("long", 90)):
        submit(batcher, text, length=length, client="b")
    engine.go.set()
    batcher.stop()
    places = {
        text: next(i for i, (texts, _) in enumerate(engine.batches) if text in texts)
        for text in ("short", "long")
    }
    assert places["short"] <= 2 and places["long"] <= 3


def test_a_request_does_not_wait_for_another_large_one_of_the_same_client(held):
    engine, batcher = held(queue_sentences=8000)
    submit(batcher, *["many"] * 128, length=40)
    submit(batcher, "long", length=90)
    engine.go.set()
    batcher.stop()
    assert "long" in engine.batches[2][0]


def test_clients_of_as_much_get_as_much(held):
    engine, batcher = held(batch_size=1, queue_sentences=8000)
    for client, count in (("a", 30), ("b", 10), ("c", 10)):
        submit(batcher, *[client] * count, length=20, client=client)
    for text in "dd":  # a second request of a client is no second client
        submit(batcher, text, length=20, client="b")
    engine.go.set()
    batcher.stop()
    order = "".join(texts[0] for texts, _ in engine.batches[1:])
    assert sorted(order[:30]) == [*"a" * 10, *"b" * 8, *"c" * 10, *"dd"]
    assert order[-20:] == "bb" + "a" * 18 or order.endswith("a" * 18)


def test_one_client_does_not_fill_the_queue(held):
    _, batcher = held(queue_sentences=8)
    submit(batcher, *"abcdef", client="a")
    with pytest.raises(QueueFull):
        submit(batcher, "g", client="a")
    submit(batcher, "g", "h", client="b")
    with pytest.raises(QueueFull):
        submit(batcher, "i", client="c")
