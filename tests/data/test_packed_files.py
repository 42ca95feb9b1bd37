"""Packed files: read like plain ones, and never larger in memory than what is read."""

import bz2
import gzip
import lzma
import struct
import tracemalloc
import zlib

import pytest

from keras_transformer.data.corpus import read_lines
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.line_reader import record_of
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


def zstd(data):
    return pytest.importorskip("zstandard").compress(data)


PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zstd": zstd,
}


@pytest.fixture(params=PACKERS)
def pack(request):
    PACKERS[request.param](b"")  # skips where it is not installed
    return PACKERS[request.param]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "text"


TEXT = "".join(f"Zeile {number}\n" for number in range(50_000))


def test_each_form_is_known_by_its_content(pack, path):
    path.write_bytes(pack(TEXT.encode()))
    assert read_lines(path) == TEXT.splitlines()
    record = record_of(path)
    assert (record.lines, record.size) == (50_000, path.stat().st_size)
    path.write_bytes(pack(b"a\n") + pack(b"") + pack(b"b\nc"))
    assert read_lines(path) == ["a", "b", "c"]
    with LineReader(path) as reader:
        while reader.read(1):
            pass
    assert reader.record() == record_of(path)


def test_zstd_may_begin_with_a_frame_to_be_skipped(path):
    """As the program pzstd writes it."""
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"abcd"
    path.write_bytes(skippable + zstd(b"a\nb\n"))
    assert read_lines(path) == ["a", "b"]


def test_what_is_cut_off_or_damaged_is_refused(pack, path):
    whole = pack(TEXT.encode() + bytes(range(256)) * 9)
    for damaged in (whole[:-9], whole[: len(whole) // 2], whole + whole[:9]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="a compressed file that is truncated"):
            record_of(path)
    path.write_bytes(whole[:12] + bytes(60))
    with pytest.raises(InputError, match="truncated or damaged"):
        read_lines(path)


def test_text_may_begin_like_a_packed_file(path):
    path.write_text("BZh9 is how it begins\n")
    assert read_lines(path) == ["BZh9 is how it begins"]


def test_zero_bytes_may_follow_xz(path):
    path.write_bytes(
        lzma.compress(b"a\n") + bytes(8) + lzma.compress(b"b\n") + bytes(4)
    )
    assert read_lines(path) == ["a", "b"]


def test_a_line_without_end_is_refused_before_it_is_in_memory(pack, path):
    path.write_bytes(pack(b"a\n" + bytes(80 << 20)))
    with LineReader(path) as reader:
        tracemalloc.start()
        try:
            with pytest.raises(InputError, match="line 2: longer than 16 MiB"):
                while reader.read(10_000):
                    pass
            assert tracemalloc.get_traced_memory()[1] < 70 << 20
        finally:
            tracemalloc.stop()


def test_the_longest_line_is_read(path):
    path.write_bytes(b"a\n" + b"x" * (LONGEST_LINE - 1) + b"\nb\n")
    assert list(map(len, read_lines(path))) == [1, LONGEST_LINE - 1, 1]
    path.write_bytes(b"a\nb\n" + b"x" * LONGEST_LINE + b"\nb\n")
    with pytest.raises(InputError, match="line 3: longer than 16 MiB"):
        read_lines(path)


def test_long_lines_come_a_few_at_once(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    lines = [[letter * 9_000_000] * 6 for letter in "xy"]
    lines[1][:3] = ["y"] * 3
    for path, side in zip(paths, lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    with LineReader(paths[0]) as reader:
        assert 1 < len(reader.read(10_000)) < 6
    text = read_parallel(paths[:1], paths[1:])
    assert [text.source, text.target] == lines


def test_a_dictionary_larger_than_the_limit_is_refused(path):
    data = bytearray(lzma.compress(b"a\n"))
    end = 12 + (data[12] + 1) * 4
    data[16] = 40  # 4 GiB
    data[end - 4 : end] = zlib.crc32(data[12 : end - 4]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(InputError, match="needs too much memory to decompress"):
        read_lines(path)


def test_a_window_larger_than_the_limit_is_refused(path):
    pytest.importorskip("zstandard")
    window = bytes([21 << 3])  # 2 GiB
    path.write_bytes(b"\x28\xb5\x2f\xfd\0" + window + b"\x11\0\0a\n")
    with pytest.raises(InputError, match="needs too much memory to decompress"):
        read_lines(path)
    path.write_bytes(b"\x28\xb5\x2f\xfd\0" + bytes([10 << 3]) + b"\x11\0\0a\n")
    assert read_lines(path) == ["a"]


def test_without_zstandard_zstd_is_one_line(path, run_python):
    path.write_bytes(b"\x28\xb5\x2f\xfd\0\0")
    code = (
        "import sys\n"
        "from keras_transformer.data.corpus import read_lines\n"
        "from keras_transformer.errors import InputError\n"
        "try:\n"
        f"    read_lines({str(path)!r})\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    if "zstandard" in run_python(code, block=["zstandard", "compression"]):
        return
    pytest.skip("needs a Python that does not unpack zstd itself")


# === What is no UTF-8 ===

ENGLISH = "A man sleeps.\nTwo dogs.\n" * 30
RUSSIAN = "Мужчина спит.\nДве собаки.\n" * 30
CHINESE = "一个男人在睡觉。\n上海有两只狗。\n" * 30


@pytest.mark.parametrize("text", [ENGLISH, RUSSIAN, CHINESE])
@pytest.mark.parametrize("name", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
def test_wide_encodings_are_named(text, name, path):
    path.write_bytes(text.encode(name))
    with pytest.raises(InputError, match=rf"is {name}, not .* iconv -f {name} -t"):
        read_lines(path)
    path.write_bytes(gzip.compress(text.encode(name[:6])))
    with pytest.raises(InputError, match=rf"is {name[:6]}, not UTF-8; convert"):
        read_lines(path)


def test_a_nul_is_named_in_pairs(tmp_path, path):
    path.write_bytes(b"good\nb\0ad\n" + b"good\n" * 5000 + b"\0\n\0\n")
    with pytest.raises(InputError, match=r"lines 2 and 5003-5004: holds a NUL"):
        read_parallel([path], [path])
    assert read_lines(path)[1] == "b\0ad"  # for a tokenizer that leaves it out


def test_all_lines_that_are_not_utf8_are_named(path):
    path.write_bytes((b"good\n" * 3 + b"b\xe4d\n") * 30_000)
    message = r"text, lines 4, 8, .*, 80 and 29980 more: not UTF-8 \(invalid"
    with pytest.raises(InputError, match=message):
        read_lines(path)
