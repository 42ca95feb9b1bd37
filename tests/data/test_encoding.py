"""Text to ids: what is kept, what is dropped and why, in one process or several."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.encoding import encode_stream
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.filters import Filters
from keras_transformer.data.filters import SeenPairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["a b c d e f g h"], 268 + 1)


def test_encoded_pairs_hold_the_tokens_of_the_kept_pairs(tokenizer):
    source = ["a b", "", "c", "d", "a b c d e f g h", "h", " \t", "g"]
    target = ["A", "B", "f e", "\u3000", "x", "a b c d e f g h" * 9, "a", "g"]
    pairs, report = encode_pairs(ParallelText(source, target), tokenizer, tokenizer, 9)
    kept = [0, 2, 7]
    for rows, lines in ((pairs.source, source), (pairs.target, target)):
        assert rows.ids.dtype == np.int32
        expected = tokenizer.encode([lines[row] for row in kept])
        assert [row.tolist() for row in rows] == expected
        assert rows.lengths.tolist() == [len(row) for row in expected]
    assert len(pairs) == report.kept == 3
    assert (report.empty, report.too_long) == (3, 2)
    assert str(report) == ("3 pairs kept, 5 dropped: 3 empty, 2 longer than 9 tokens")


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_limit_counts_the_end_token(tokenizer, side):
    (ids,) = tokenizer.encode(["a b c"])
    lines = {"source": ["a", "a"], "target": ["b", "b"], side: ["a b c", "a"]}
    kept = {
        limit: encode_pairs(ParallelText(**lines), tokenizer, tokenizer, limit)[1].kept
        for limit in (len(ids), len(ids) + 1)
    }
    assert kept == {len(ids): 1, len(ids) + 1: 2}


def test_a_line_of_100_000_characters_is_dropped_and_counted(tokenizer):
    text = ParallelText(["a", "x" * 100_000, "b " * 50_000], ["A", "B", "C"])
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert (len(pairs), report.too_long) == (1, 2)


def test_space_marks_are_counted(tokenizer):
    text = ParallelText(["a\u2581b", "c"], ["\u2581e", "d\u2581"])
    _, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert report.space_marks == 3
    assert str(report) == "2 pairs kept, 0 dropped; U+2581 became a space in 3 lines"


def test_nothing_left_is_refused(tokenizer):
    text = ParallelText(["", "a b c d"], ["a", "b"])
    with pytest.raises(
        InputError, match=r"no usable pair .*1 empty, 1 longer than 2 tokens"
    ):
        encode_pairs(text, tokenizer, tokenizer, 2)
    with pytest.raises(InputError, match="no usable pair"):
        encode_pairs(ParallelText([], []), tokenizer, tokenizer, 2)


def test_large_corpora_are_encoded_in_order(tokenizer):
    lines = [f"{number} a" for number in range(25_000)]
    text = ParallelText(lines, lines[::-1])
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert report.kept == 25_000
    for row in (0, 9_999, 10_000, 20_001, 24_999):
        ids = [pairs.source[row], pairs.target[row]]
        assert tokenizer.decode(ids) == [lines[row], lines[::-1][row]]


def test_a_lone_surrogate_far_into_the_text_is_named(tokenizer):
    text = ParallelText(["a"] * 12_000, [*["b"] * 11_999, "\ud800"])
    with pytest.raises(InputError, match="line 12000 holds the lone surrogate"):
        encode_pairs(text, tokenizer, tokenizer, 128)


def test_two_tokenizers(tokenizer):
    other = Tokenizer.train(["x y z"], 264)
    pairs, _ = encode_pairs(ParallelText(["a"], ["z y"]), tokenizer, other, 9)
    assert tokenizer.decode([pairs.source[0]]) == ["a"]
    assert other.decode([pairs.target[0]]) == ["z y"]


def test_real_corpus(shared_data):
    folder = shared_data / "multi30k" / "raw"
    text = read_parallel([folder / "train.en.gz"], [folder / "train.de.gz"])
    tokenizer = Tokenizer.train(text.source + text.target, 8000)
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert len(text) == len(pairs) == 29_000
    assert str(report) == "29000 pairs kept, 0 dropped"


# === Filters ===


def pairs_of(*lengths):
    """Texts of so many tokens each: every digit is one."""
    sides = zip(*lengths, strict=True)
    return ParallelText(*(["1" * length for length in side] for side in sides))


LENGTHS = [(1, 1), (2, 2), (2, 4), (4, 2), (2, 5), (5, 2), (1, 5), (9, 3), (9, 9)]


@pytest.mark.parametrize(
    ("options", "kept", "why"),
    [
        ({}, range(9), ""),
        ({"min_length": 2}, [1, 2, 3, 4, 5, 7, 8], "2 shorter than 2 tokens"),
        ({"max_ratio": 2.0}, [0, 1, 2, 3, 8], "4 with a length ratio above 2.0"),
        ({"max_ratio": 2.5}, [0, 1, 2, 3, 4, 5, 8], "2 with a length ratio above 2.5"),
    ],
)
def test_filters_count_tokens(tokenizer, options, kept, why):
    text = pairs_of(*LENGTHS)
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 99, **options)
    found = zip(pairs.source.lengths, pairs.target.lengths, strict=True)
    assert list(found) == [LENGTHS[row] for row in kept]
    assert report.kept == len(kept)
    assert why in str(report)


def test_a_pair_is_counted_for_the_first_reason(tokenizer):
    text = pairs_of((0, 1), (9, 1), (1, 3), (1, 7), (3, 7), (5, 5), (5, 5))
    options = {"min_length": 2, "max_ratio": 2.0, "unique": True}
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 8, **options)
    assert len(pairs) == 1
    assert str(report) == (
        "1 pairs kept, 6 dropped: 1 empty, 1 longer than 8 tokens, 2 shorter than 2 "
        "tokens, 1 with a length ratio above 2.0, 1 duplicates"
    )


def test_only_the_same_pair_is_a_duplicate(tokenizer):
    source = ["a", "a", "b", "a", "ab", "a", "A"]
    target = ["b", "c", "b", "b", "", "bc", "b"]
    text = ParallelText([*source, "b"], [*target, "b"])
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 9, unique=True)
    assert tokenizer.decode(list(pairs.source)) == ["a", "a", "b", "a", "A"]
    assert tokenizer.decode(list(pairs.target)) == ["b", "c", "b", "bc", "b"]
    assert (report.duplicates, report.empty) == (2, 1)


def test_seen_pairs_are_a_set():
    generator = np.random.default_rng(1)
    seen, known = SeenPairs(), set()
    for _ in range(60):
        size = int(generator.integers(0, 500))
        hashes = generator.integers(0, 9000, size).astype(np.uint64) << np.uint64(40)
        expected = []
        for value in hashes.tolist():
            expected.append(value not in known)
            known.add(value)
        assert seen.add(hashes).tolist() == expected
    assert len(seen._runs) < 12
    assert sum(map(len, seen._runs)) == len(known)


def test_reports_add_up():
    one = CorpusReport(5, 1, 2, 9, 3, 4, 2, 6, 3.0, 7)
    both = CorpusReport.total([one, one])
    assert both == CorpusReport(10, 2, 4, 9, 6, 8, 2, 12, 3.0, 14)


# === Several processes ===


def same(one, other):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in ((one.source, other.source), (one.target, other.target))
        for name in ("ids", "offsets")
    )


def test_processes_change_nothing_but_the_time(tokenizer):
    lines = [f"{number} a b {'c' * (number % 40)}" for number in range(600)]
    text = ParallelText(lines, lines[::-1])
    encoder = PairEncoder(tokenizer, tokenizer, Filters(30, unique=True))
    here, there = (
        list(encode_stream(text.chunks(25), encoder, workers)) for workers in (1, 2)
    )
    assert len(here) == 24
    for one, other in zip(here, there, strict=True):
        assert same(one.pairs, other.pairs)
        assert one.report == other.report
        assert np.array_equal(one.hashes, other.hashes)
    assert any(chunk.report.too_long for chunk in here)


def test_the_stream_is_not_read_ahead(tokenizer):
    read = []

    def texts():
        for number in range(1000):
            read.append(number)
            yield ParallelText(["a"], ["b"])

    encoder = PairEncoder(tokenizer, tokenizer, Filters(30))
    stream = encode_stream(texts(), encoder, workers=2)
    for _ in range(12):
        next(stream)
    assert len(read) < 30
    stream.close()


def test_an_error_in_a_process_arrives(tokenizer):
    texts = [ParallelText(["a"], ["b"])] * 20 + [ParallelText(["\ud800"], ["b"])]
    encoder = PairEncoder(tokenizer, tokenizer, Filters(30))
    with pytest.raises(InputError, match="lone surrogate"):
        list(encode_stream(iter(texts), encoder, workers=2))


_ENDLESS = """
import itertools
from keras_transformer.data.encoding import *
if __name__ == "__main__":
    tokenizer = Tokenizer.train(["a b c"], 264)
    encoder = PairEncoder(tokenizer, tokenizer, Filters(9))
    texts = itertools.repeat(ParallelText(["a"], ["b"]))
    for number, chunk in enumerate(encode_stream(texts, encoder, workers=2)):
        if number == 20:
            children = multiprocessing.active_children()
            print(*(child.pid for child in children), flush=True)
"""


def _is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_no_process_outlives_a_parent_that_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_ENDLESS)
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as parent:
        try:
            children = parent.stdout.readline().split()
        finally:
            parent.send_signal(signal.SIGKILL)
    assert len(children) == 2
    for _ in range(200):
        if not any(_is_alive(int(child)) for child in children):
            return
        time.sleep(0.05)
    pytest.fail(f"processes {children} are still there after ten seconds")
