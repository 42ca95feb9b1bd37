"""Files that hold both sides: TSV, CSV, JSON lines, Parquet and TMX."""

import gzip
import json
import os
import re
import time
import tracemalloc

import pytest

from keras_transformer.data import pair_files
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.corpus import read_pairs
from keras_transformer.data.corpus import read_shards
from keras_transformer.data.corpus import read_tsv
from keras_transformer.data.line_reader import record_of
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

PAIRS = ParallelText(["A man.", "Two dogs."], ["Ein Mann.", "Zwei Hunde."])


@pytest.fixture
def read(tmp_path):
    """`read(content, format, columns)`: the pairs of a file that has the content."""

    def run(content, format, columns=None, chunk=None):
        path = tmp_path / "file"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if chunk is None:
            return read_pairs([path], format, columns)
        files = CorpusFiles(**{format: (path,)}, columns=columns)
        return ParallelText.concatenate(read_shards(files.shards(), chunk))

    return run


def refused(read, message, *arguments):
    with pytest.raises(InputError, match=message) as caught:
        read(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# === TSV ===

THREE = "0.9\tA man.\tEin Mann.\n0.8\tTwo dogs.\tZwei Hunde.\n"


def test_columns_of_tsv_are_chosen_by_number_or_name(read):
    assert read(THREE, "tsv", (2, 3)) == PAIRS
    assert read(THREE, "tsv", (3, 2)).source == PAIRS.target
    named = f"score\ten\tde\n\n{THREE}"
    assert read(named, "tsv", ("en", "de")).source == ["", *PAIRS.source]
    for chunk in (1, 2, 3):
        assert len(read(named, "tsv", ("en", "de"), chunk)) == 3
    assert len(read_tsv([], (2, 3))) == 0


def test_all_lines_with_other_columns_are_named_at_once(read):
    text = "a\tA\n" * 3 + "b\n" + "a\tb\tc\n" * 2 + "a\tA\n" * 9000 + "b\n"
    message = refused(read, "file, ", text, "tsv")
    assert "lines 4 and 9007: expected 2 columns (source, tab, target), found 1" in (
        message
    )
    assert "lines 5-6: expected 2 columns (source, tab, target), found 3" in message
    refused(
        read, "lines 1-2: expected 2 .*, found 3; .* set .columns. to two", THREE, "tsv"
    )
    other = f"{THREE}1.0\tone\tcell\tzwei Zellen\n"
    refused(read, "line 3: expected 3 columns, found 4", other, "tsv", (2, 3))
    refused(read, "no columns 2 and 4; its 3 columns are: '0.9'", THREE, "tsv", (2, 4))
    refused(read, "no columns en and fr; its 3 columns", THREE, "tsv", ("en", "fr"))


def test_faults_of_both_kinds_are_in_one_error(read):
    message = refused(read, "file", b"a\tA\nb\n\xff\tB\nc\x00\tC\n", "tsv")
    for part in ("line 2: expected 2", "line 3: not UTF-8", "line 4: holds a NUL"):
        assert part in message


def test_many_bad_lines_of_many_kinds_make_a_short_error(read):
    text = "".join("a\t" * (1 + number % 50) + "b\n" for number in range(5000))
    message = refused(read, "file, ", text, "tsv")
    assert "lines 2, 52, 102, " in message
    assert " and 80 more: expected 2 columns" in message
    assert message.endswith("2900 more faults, of other kinds")
    assert len(message) < 7000


# === CSV ===


def test_white_space_without_end_takes_no_time(read):
    space = " " * 100_000
    found = read(f'source,target\n"a\nb{space}c","\n\n{space}d\n\t\ne\n"\n', "csv")
    assert found == ParallelText([f"a b{space}c"], ["d e"])
    content = tmx(unit(en=f"a\nb{space}c", de="d"))
    assert read(content, "tmx", ("en", "de")).source == [f"a b{space}c"]


def test_after_a_fault_the_rest_of_a_csv_file_is_not_held(tmp_path):
    path = tmp_path / "file"
    path.write_text("source,target\na\n" + f"{'a' * 999},{'b' * 999}\n" * 20_000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 2: expected 2 columns, found 1"):
            list(read_shards(CorpusFiles(csv=(path,)).shards(), 10))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 2


def test_csv_has_quotes_and_a_row_of_names(read):
    text = 'id,target,source\r\n1,"Er sagte ""Ja"", dann\nnichts.",He said.\r\n\r\n'
    found = read(f"\ufeff{text}2,b,a\r\n", "csv")
    assert found.source == ["He said.", "", "a"]
    assert found.target == ['Er sagte "Ja", dann nichts.', "", "b"]
    assert read("a,b\nc,d\n", "csv", (2, 1)).source == ["b", "d"]
    for chunk in (1, 2):
        assert len(read("source,target\n" + "a,b\n" * 5, "csv", None, chunk)) == 5


def test_faults_of_csv_are_named(read, monkeypatch):
    head = "source,target\n"
    refused(
        read,
        "no columns source and target; its 2 columns are: 'en', 'de'",
        "en,de",
        "csv",
    )
    rows = 'a,"b\nb"\n' + "a,b,c\n" * 2 + 'a,"b\nb"\na\n'
    message = refused(read, "file, ", head + rows, "csv")
    assert "lines 4-5: expected 2 columns, found 3" in message
    assert "line 8: expected 2 columns, found 1" in message
    refused(read, "line 3: .*; fix its quotes", f'{head}a,b\na,"b', "csv")
    refused(read, "line 2: .*; fix its quotes", f'{head}a,"b"c\n', "csv")
    message = r"line 2: a cell has more than 131,072 characters; .* quote is closed"
    refused(read, message, head + 'a,"' + "b\n" * 99_999, "csv")
    refused(read, message, f"{head}{'a' * 131_073},b\n", "csv")
    monkeypatch.setattr(pair_files, "LONGEST_LINE", 1000)
    assert len(read(head + "a,b\n" * 9999, "csv")) == 9999
    refused(read, r"longer than 16 MiB", head + '"a\n",' * 1000, "csv")


# === JSON lines ===


def jsonl(*rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_keys_lead_into_objects(read):
    rows = [
        {"id": 1, "translation": {"en": en, "de": de}}
        for en, de in zip(PAIRS.source, PAIRS.target, strict=True)
    ]
    keys = ("translation.en", "translation.de")
    assert read(jsonl(*rows), "jsonl", keys) == PAIRS
    packed = gzip.compress(jsonl(*rows).encode())
    assert read(packed, "jsonl", keys) == PAIRS
    flat = jsonl({"a.b": "x", "source": "y\n z"}, {"a.b": None, "source": "ü"})
    found = read(f"{flat}\n", "jsonl", ("a.b", "source"))
    assert (found.source, found.target) == (["x", "", ""], ["y z", "ü", ""])
    assert read(jsonl({"source": "a", "target": "b"}), "jsonl").target == ["b"]


def test_faults_of_json_lines_are_named_at_once(read):
    good = {"source": "a", "target": "b"}
    rows = [
        *(json.dumps(good), "{", "[" * 100_000, json.dumps(good | {"target": 5})),
        *('{"source": "a"}', "[]", '{"source": "\\u0000", "target": "\\ud800"}'),
        '{"source": "a", "target": "\\ud800"}',
        '{"source": "a", "target": ' + "9" * 9000 + "}",
    ]
    message = refused(read, "file, ", "\n".join(rows), "jsonl")
    for part in (
        *("lines 2-3 and 9: is not JSON", "line 4: target is not text"),
        *("line 5: has no key target", "line 6: is not an object with a key source"),
        *("line 7: holds a NUL", "line 8: holds a lone surrogate"),
    ):
        assert part in message


# === Parquet ===


def test_parquet_has_columns_and_structs(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"id": 1, "translation": {"en": en, "de": de}, "source": en, "target": de}
        for en, de in zip(PAIRS.source, PAIRS.target, strict=True)
    ]
    rows.append({"id": 3, "translation": {"en": None, "de": "x"}, "target": "a\nb"})
    rows[0]["lists"] = ["a"]
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    found = read_pairs([path], "parquet", ("translation.en", "translation.de"))
    assert found.source == [*PAIRS.source, ""]
    assert found.target == [*PAIRS.target, "x"]
    files = CorpusFiles(parquet=(path,))
    texts = list(read_shards(files.shards(), 2))
    assert [len(text) for text in texts] == [2, 1]
    assert texts[1].target == ["a b"]
    (shard,) = files.shards()
    assert sum(map(len, shard.pairs(2))) == 3
    (reader,) = shard
    assert reader.record() == record_of(path)
    assert reader.bytes_read == path.stat().st_size
    status = path.stat()
    time.sleep(0.02)  # a tick of the clock of files
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InputError, match="changed while it was being read"):
        reader.record()
    with pytest.raises(InputError, match=r"the column id holds int64, not text"):
        read_pairs([path], "parquet", ("id", "source"))
    leaf = parquet.ParquetFile(path).schema.column(5).path
    assert leaf.startswith("lists.")
    with pytest.raises(InputError, match=rf"{leaf} holds list<.*, not text"):
        read_pairs([path], "parquet", (leaf, "source"))
    with pytest.raises(
        InputError, match=r"no columns en and de; its 6 columns are: 'id'"
    ):
        read_pairs([path], "parquet", ("en", "de"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_pairs([path], "parquet")
    with pytest.raises(InputError, match=r"cannot read .*missing: No such file"):
        read_pairs([tmp_path / "missing"], "parquet")


def test_without_pyarrow_parquet_is_one_line(run_python):
    code = (
        "from keras_transformer.data.corpus import read_pairs\n"
        "from keras_transformer.errors import InputError\n"
        "try:\n"
        "    read_pairs(['a'], 'parquet')\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    assert "pip install pyarrow" in run_python(code, block=["pyarrow"])


# === TMX ===

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'


def unit(**sides):
    found = "".join(
        f'<tuv xml:lang="{language.replace("_", "-")}"><seg>{text}</seg></tuv>'
        for language, text in sides.items()
    )
    return f"<tu>{found}</tu>\n"


def tmx(*units, head=HEAD):
    return f'{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'


def test_a_translation_memory_is_read_by_its_languages(read):
    text = tmx(
        unit(fr="Un homme.", en_US="A  man &amp; <hi>a\n   dog</hi>.", de="Ein Mann."),
        unit(en_GB="Colour", EN="<bpt>&lt;b></bpt>Color<ph>x</ph>", de_CH="x"),
        unit(en="Alone"),
        unit(en="Old", de="Alt").replace("xml:lang", "lang"),
    )
    for content in (text.encode(), text.encode("utf-16")):
        found = read(content, "tmx", ("en", "de"))
        assert found.source == ["A  man & a dog.", "Color", "Alone", "Old"]
        assert found.target == ["Ein Mann.", "x", "", "Alt"]
    assert read(gzip.compress(text.encode()), "tmx", ("de", "fr")).target[0] == (
        "Un homme."
    )
    many = tmx(unit(en="a", de="b") * 1000)
    assert len(read(many, "tmx", ("en", "de"), 7)) == 1000


LOL = "".join(
    f'<!ENTITY lol{i} "{f"&lol{i - 1};" * 10 if i else "lol"}">' for i in range(10)
)


SECRET = '<!DOCTYPE tmx [<!ENTITY secret SYSTEM "file:///etc/hosts">]>'
BAD = {
    "grows": (tmx(unit(en="&lol9;"), head=f"<!DOCTYPE tmx [{LOL}]>"), "declares"),
    "reads": (tmx(unit(en="&secret;"), head=SECRET), "declares entities"),
    "unknown": (tmx(unit(en="a&nbsp;b")), "line 3: has the unknown entity nbsp"),
    "other": ("<a>" * 9, "line 1: begins with a instead of tmx"),
    "deep": (f"<tmx>{'<a>' * 1000}", "nests more than 100 elements"),
    "tag": (f'<tmx a="{"x" * (34 << 20)}"/>', "has a tag without end"),
    "text": (f"<tmx><tu><seg>{'x' * (17 << 20)}", "too long for a sentence"),
    "sides": (f"<tmx><tu>{'<tuv/>' * 90_000}", "too long for a sentence"),
    "text file": ("a\tb\n", "line 1: syntax error; give a TMX file"),
    "cut off": ("<tmx>\n<tu>", "line 2: no element found; give a TMX file"),
    "empty": ("", "no element found"),
    "languages": (tmx(unit(en="a", fr="b")), r"no unit in both en and de; .*: en, fr"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_translation_memory_is_one_line(read, name):
    content, message = BAD[name]
    refused(read, message, content, "tmx", ("en", "de"))


# === Which columns ===


@pytest.mark.parametrize(
    ("format", "columns", "message"),
    [
        ("tmx", None, "tmx needs columns, its two languages, such as [en, de]"),
        ("tsv", (0, 1), "columns of tsv must be two names, or two numbers from 1"),
        ("tsv", (1, "b"), "got [1, 'b']"),
        ("csv", (1, 1), "got [1, 1]"),
        ("csv", (True, 2), "got [True, 2]"),
        ("jsonl", (1, 2), "columns of jsonl must be two names, of source and target"),
        ("jsonl", ("a", "b", "c"), "got ['a', 'b', 'c']"),
        ("xlsx", None, "unknown format 'xlsx'; use one of tsv, csv, jsonl"),
    ],
)
def test_columns_that_are_none_are_refused(format, columns, message):
    with pytest.raises(InputError, match=re.escape(message)):
        read_pairs(["missing"], format, columns)
