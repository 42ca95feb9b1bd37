"""Corpus files: what is read, what is dropped, what is refused."""

import gzip
import hashlib
import os

import pytest

from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.corpus import read_lines
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.corpus import read_shards
from keras_transformer.data.corpus import read_tsv
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.line_reader import record_of
from keras_transformer.data.line_reader import same_content_now
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.parallel_text import spread
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


def gzipped(data):
    """The same at any time: such data names tests, which processes share."""
    return gzip.compress(data, mtime=0)


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


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
        (gzipped(b""), "is empty"),
        (gzipped(b"text " * 999)[:-9], "truncated or damaged"),
        (gzipped(b"text " * 999)[:20] + bytes(60), "truncated or damaged"),
        (b"\x1f\x8b", "truncated or damaged"),
        (b"fine\nfine\n\xff\n", "line 3: not UTF-8"),
        (b"\xef\xbb\xbffine\n\xe4\n", "line 2: not UTF-8"),
        ("fine\n".encode("utf-16"), "is UTF-16, not UTF-8; convert it"),
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


@pytest.mark.parametrize(("line", "columns"), [("b", 1), ("b\tB\tx", 3)])
def test_tsv_lines_have_two_columns(write, line, columns):
    path = write("pairs.tsv", f"a\tA\n{line}\n")
    with pytest.raises(InputError, match=rf"pairs.tsv, line 2: .* found {columns}"):
        read_tsv([path])


@pytest.mark.parametrize("blank", ["", " ", "\t", "\r"])
def test_a_blank_line_of_tsv_is_an_empty_pair(write, blank):
    text = read_tsv([write("pairs.tsv", f"a\tA\n{blank}\nb\tB\n{blank}\n")])
    assert [side.strip() for side in text.source] == ["a", "", "b", ""]
    assert [side.strip() for side in text.target] == ["A", "", "B", ""]


# === Streams ===


def numbered(first, end):
    return "".join(f"{number}\n" for number in range(first, end))


def test_a_stream_is_the_text_in_chunks(write):
    sources = (write("1.en", numbered(0, 7)), write("2.en", numbered(7, 9)))
    targets = (write("1.de", numbered(100, 107)), write("2.de", numbered(107, 109)))
    columns = write("3.tsv", "9\t109\n10\t110\n")
    texts = list(read_shards(CorpusFiles(sources, targets, (columns,)).shards(), 3))
    assert [len(text) for text in texts] == [3, 3, 1, 2, 2]
    whole = ParallelText.concatenate(texts)
    assert whole.source == [str(number) for number in range(11)]
    assert whole.target == [str(number) for number in range(100, 111)]


def test_a_stream_reads_no_more_than_it_needs(write):
    path = write("long", "a line of text\n" * 400_000)
    with LineReader(path) as reader:
        assert reader.read(2) == ["a line of text"] * 2
        assert 0 < reader.bytes_read < path.stat().st_size / 2
        assert reader.lines == 2


@pytest.mark.parametrize("lines", [(4, 9), (9, 4), (6, 7), (6, 3)])
def test_a_stream_counts_both_files_where_they_do_not_match(write, lines):
    source, target = (write(f"f{i}", numbered(0, n)) for i, n in enumerate(lines))
    stream = read_shards(CorpusFiles((source,), (target,)).shards(), 3)
    message = rf"f0 has {lines[0]} lines but .*f1 has {lines[1]}; line i of one must"
    with pytest.raises(InputError, match=message):
        list(stream)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\n" * 8 + b"\xff\tb\n", "line 9: not UTF-8"),
        (b"a\tb\n" * 7 + b"a\n", "line 8: expected 2 columns"),
        (gzipped(b"a\tb\n" * 9)[:-9], "truncated or damaged"),
        (b"", "is empty"),
    ],
)
def test_a_fault_is_named_when_the_stream_meets_it(write, content, message):
    stream = read_shards(CorpusFiles(tsv=(write("pairs.tsv", content),)).shards(), 2)
    with pytest.raises(InputError, match=message):
        list(stream)


def test_every_nth_pair_is_kept_of_a_long_stream():
    lines = [str(number) for number in range(1000)]
    text = ParallelText(lines, lines)
    for most in (1000, 999, 100, 7, 1):
        kept = spread(text.chunks(13), most)
        assert kept.source == kept.target
        numbers = list(map(int, kept.source))
        assert most / 2 < len(numbers) <= most
        interval = numbers[1] - numbers[0] if most > 1 else 1024
        assert numbers == list(range(0, 1000, interval))


# === Records ===


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_record_says_what_a_file_was(write, pack):
    content = pack(b"a\nb\nc")
    path = write("file", content)
    record = record_of(path)
    assert record.path == str(path)
    assert (record.size, record.lines) == (len(content), 3)
    assert record.sha256 == hashlib.sha256(content).hexdigest()
    assert record.is_untouched()
    assert same_content_now(record) is record


def test_the_content_decides_where_the_time_differs(write):
    record = record_of(write("file", "one\n"))
    os.utime(record.path, ns=(5, 5))
    assert not record.is_untouched()
    again = same_content_now(record)
    assert (again.mtime_ns, again.sha256) == (5, record.sha256)
    for content in ("two\n", "one\ntwo\n"):
        write("file", content)
        assert same_content_now(record) is None
    os.remove(record.path)
    assert same_content_now(record) is None


def test_a_file_that_changes_while_it_is_read_is_refused(write):
    path = write("file", "one\n")
    with LineReader(path) as reader:
        reader.count()
        path.write_text("two\nthree\n")
    with pytest.raises(InputError, match="changed while it was being read"):
        reader.record()
