"""Corpus files: what is read, what is dropped, what is refused."""

import gzip

import numpy as np
import pytest

from keras_transformer.data.corpus import EncodedPairs
from keras_transformer.data.corpus import ParallelText
from keras_transformer.data.corpus import TokenRows
from keras_transformer.data.corpus import encode_pairs
from keras_transformer.data.corpus import read_lines
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.corpus import read_tsv
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["a b c d e f g h"], 268 + 1)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        ("\n\na\n\n", ["", "", "a", ""]),
        ("\ufeffa\n\ufeffb\n", ["a", "\ufeffb"]),
        (" a \t\n", [" a \t"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf\x00g\n", ["a\u2028b\x85c\x0bd\x0ce\x1cf\x00g"]),
    ],
)
def test_lines_end_at_line_feeds_only(write, content, lines):
    assert read_lines(write("plain", content)) == lines
    assert read_lines(write("packed", gzip.compress(content.encode()))) == lines


def test_gzip_is_known_by_its_content(write):
    assert read_lines(write("text.gz", "not packed\n")) == ["not packed"]
    packed = gzip.compress(b"a\n") + gzip.compress(b"b\n")
    assert read_lines(write("text.txt", packed)) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (gzip.compress(b""), "is empty"),
        (gzip.compress(b"text " * 999)[:-9], "cut off or damaged"),
        (gzip.compress(b"text " * 999)[:20] + bytes(60), "cut off or damaged"),
        (b"\x1f\x8b", "cut off or damaged"),
        (b"fine\nfine\n\xff\n", "line 3: not UTF-8"),
        (b"\xef\xbb\xbffine\n\xe4\n", "line 2: not UTF-8"),
        ("fine\n".encode("utf-16"), "line 1: not UTF-8"),
        (b"cesu \xed\xa0\x80\n", "line 1: not UTF-8"),
    ],
)
def test_damaged_files_are_refused(write, content, message):
    path = write("corpus", content)
    with pytest.raises(InputError, match=message) as caught:
        read_lines(path)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*absent.*; check the path"):
        read_lines(tmp_path / "absent")
    with pytest.raises(InputError, match="cannot read"):
        read_lines(tmp_path)


def test_parallel_files_follow_each_other(write):
    sources = [write("1.en", "a\nb\n"), write("2.en", gzip.compress(b"c\n"))]
    targets = [write("1.de", "A\nB\n"), write("2.de", "C\n")]
    text = read_parallel(sources, targets)
    assert text == ParallelText(["a", "b", "c"], ["A", "B", "C"])
    assert len(text) == 3


def test_parallel_files_must_match(write):
    short, long = write("short", "a\nb\n"), write("long", "A\nB\nC\n")
    with pytest.raises(InputError, match=r"short has 2 lines but .*long has 3"):
        read_parallel([short], [long])
    with pytest.raises(InputError, match=r"2 source files .* 1 target"):
        read_parallel([short, short], [long])
    with pytest.raises(InputError, match=r"2 source lines .* 1 target"):
        ParallelText(["a", "b"], ["A"])


def test_tsv(write):
    paths = [write("1.tsv", "a b\tA\n\tB\n"), write("2.tsv", "c\tC\r\n")]
    assert read_tsv(paths) == ParallelText(["a b", "", "c"], ["A", "B", "C"])


@pytest.mark.parametrize(("line", "columns"), [("b", 1), ("b\tB\tx", 3), ("", 1)])
def test_tsv_lines_have_two_columns(write, line, columns):
    path = write("pairs.tsv", f"a\tA\n{line}\n")
    with pytest.raises(InputError, match=rf"pairs.tsv, line 2: .* found {columns}"):
        read_tsv([path])


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
    text = ParallelText(["a\u2581b", "c"], ["\u2581\u2581", "d\u2581"])
    _, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert report.space_marks == 3
    assert str(report) == "2 pairs kept, 0 dropped; U+2581 became a space in 3 lines"


def test_nothing_left_is_refused(tokenizer):
    text = ParallelText(["", "a b c d"], ["a", "b"])
    with pytest.raises(InputError, match=r"no pair .*1 empty, 1 longer than 2 tokens"):
        encode_pairs(text, tokenizer, tokenizer, 2)
    with pytest.raises(InputError, match="no pair"):
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


def test_token_rows_take_and_concatenate():
    lists = [[1, 2], [], [3], [4, 5, 6]]
    rows = TokenRows.from_lists(lists)
    taken = rows.take(np.array([3, 1, 0, 3]))
    assert [row.tolist() for row in taken] == [[4, 5, 6], [], [1, 2], [4, 5, 6]]
    assert len(rows.take(np.array([], int))) == 0
    both = TokenRows.concatenate([rows, taken])
    assert [row.tolist() for row in both] == [*lists, *(row.tolist() for row in taken)]
    assert rows[-1].tolist() == [4, 5, 6]
    with pytest.raises(IndexError):
        rows[4]


def test_encoded_pairs_must_match():
    one, two = TokenRows.from_lists([[1]]), TokenRows.from_lists([[1], [2]])
    with pytest.raises(InputError, match=r"1 source rows .* 2 target"):
        EncodedPairs(one, two)


def test_real_corpus(shared_data):
    folder = shared_data / "multi30k" / "raw"
    text = read_parallel([folder / "train.en.gz"], [folder / "train.de.gz"])
    tokenizer = Tokenizer.train(text.source + text.target, 8000)
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 128)
    assert len(text) == len(pairs) == 29_000
    assert str(report) == "29000 pairs kept, 0 dropped"
