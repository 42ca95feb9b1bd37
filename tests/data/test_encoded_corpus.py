"""The cache of encoded corpora: written once and whole, used for nothing else."""

import dataclasses
import json
import os
import threading

import numpy as np
import pytest
from cached_text import folders
from cached_text import lists

from keras_transformer.data import encoded_corpus
from keras_transformer.data import encoded_writer
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.encoded_corpus import encode_corpora
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.filters import Filters
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

# === What is in it ===


def test_it_holds_what_encoding_in_memory_gives(corpora, encode, tokenizer):
    encoded = encode()
    text = read_parallel(corpora[0].source, corpora[0].target)
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 99)
    assert encoded.reports[0] == report
    assert lists(encoded.pairs)[:30] == lists(pairs)
    assert (encoded.reports[1].kept, encoded.reports[1].empty) == (3, 1)
    assert len(encoded.pairs) == encoded.report.kept == 33
    assert [os.path.basename(file.path) for file in encoded.files] == [
        *("1.en", "1.de", "2.en.gz", "2.de", "3.tsv")
    ]
    assert [file.lines for file in encoded.files] == [20, 20, 10, 10, 4]
    assert encoded.pairs.source.ids.dtype == np.uint16


def test_the_settings_of_lines_and_of_plain_columns_stay(corpora, encode, tmp_path):
    """A cache that was written before there were other formats is found again."""
    encode()
    (folder,) = folders(tmp_path)
    manifest = json.loads((tmp_path / "cache" / folder / "manifest.json").read_text())
    paths = [str(path) for path in corpora[0].paths]
    columns = [str(path) for path in corpora[1].paths]
    assert manifest["settings"]["corpora"] == [[paths[:2], paths[2:]], [columns]]
    named = dataclasses.replace(corpora[1], columns=(2, 1))
    encode([corpora[0], named])
    assert len(folders(tmp_path)) == 2
    encode([corpora[0], named])
    assert not encode.said[-1]


def test_a_large_vocabulary_takes_32_bits(encode, tokenizer, monkeypatch):
    expected = lists(encode().pairs)
    monkeypatch.setattr(Tokenizer, "vocabulary_size", 2**16 + 1)
    encoded = encode(min_length=1, max_ratio=50.0)
    assert encoded.pairs.source.ids.dtype == np.int32
    assert lists(encoded.pairs) == expected


def test_duplicates_are_dropped_across_corpora(encode):
    encoded = encode(unique=True)
    assert [report.duplicates for report in encoded.reports] == [0, 2]
    assert len(encoded.pairs) == 31


# === When it is used ===


def test_a_second_start_reads_no_text(encode, no_encoding):
    before = encode()
    no_encoding()
    after = encode()
    assert lists(after.pairs) == lists(before.pairs)
    assert (after.reports, after.files) == (before.reports, before.files)
    assert not encode.said[1]


def test_the_time_of_a_file_alone_does_not_matter(corpora, encode, no_encoding):
    before = encode()
    os.utime(corpora[0].source[1], ns=(5, 5))
    after = encode()
    assert after.files[2] == dataclasses.replace(before.files[2], mtime_ns=5)
    assert after.files[:2] == before.files[:2]
    no_encoding()
    assert encode().files == after.files


@pytest.mark.parametrize("size", ["same", "other"])
def test_changed_text_is_encoded_again(corpora, encode, tmp_path, size):
    before = lists(encode().pairs)
    line = "b\ta" if size == "same" else "bb\ta"
    content = f"{line}\n" + corpora[1].tsv[0].read_text().partition("\n")[2]
    corpora[1].tsv[0].write_text(content)
    os.utime(corpora[1].tsv[0], ns=(5, 5))
    after = lists(encode().pairs)
    assert after[:30] == before[:30]
    assert after[30] != before[30]
    assert "the text has changed" in encode.said[1][0]
    assert len(folders(tmp_path)) == 1


def test_another_tokenizer_filter_or_corpus_has_a_cache_of_its_own(
    corpora, encode, tmp_path
):
    before = lists(encode().pairs)
    other = Tokenizer.train(["x y z"], 264)
    assert lists(encode(tokenizer=other).pairs) != before
    assert len(encode(min_length=2).pairs) == 31
    assert len(encode(corpora=corpora[:1]).pairs) == 30
    assert lists(encode(corpora=corpora[::-1]).pairs)[3:] == before[:30]
    assert len(folders(tmp_path)) == 5
    assert lists(encode().pairs) == before


def test_text_of_the_same_size_and_time_is_not_taken_for_the_same(corpora, encode):
    before = lists(encode().pairs)
    path = corpora[1].tsv[0]
    status = os.stat(path)
    path.write_text(path.read_text().replace("x", "w"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert lists(encode().pairs) != before
    assert "the text has changed" in encode.said[1][0]


def test_what_is_known_of_the_text_is_what_the_cache_must_be_of(
    corpora, tokenizer, tmp_path
):
    encoder = PairEncoder(tokenizer, tokenizer, Filters(99))
    found = encode_corpora(tmp_path / "cache", corpora, encoder, workers=1)
    known = {file.path: file for file in found.files}
    path = found.files[0].path
    known[path] = dataclasses.replace(known[path], sha256="0" * 64)
    with pytest.raises(InputError, match="the text changed while it was being encoded"):
        encode_corpora(tmp_path / "cache", corpora, encoder, workers=1, records=known)


@pytest.mark.parametrize(
    "damage",
    ["manifest.json", "no manifest.json", "source.ids", "no target.offsets", "files"],
)
def test_a_damaged_cache_is_written_anew(encode, tmp_path, damage):
    before = lists(encode().pairs)
    (folder,) = (tmp_path / "cache" / name for name in folders(tmp_path))
    if damage == "files":
        manifest = json.loads((folder / "manifest.json").read_text())
        del manifest["files"][0]["sha256"]
        (folder / "manifest.json").write_text(json.dumps(manifest))
    elif damage.startswith("no "):
        (folder / damage[3:]).unlink()
    else:
        content = (folder / damage).read_bytes()
        (folder / damage).write_bytes(content[:-3])
    assert lists(encode().pairs) == before
    assert encode.said[1]


# === When it cannot be written ===


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_where_writing_ends_early(encode, tmp_path, monkeypatch, error):
    def fail(side, rows):
        raise error(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(encoded_writer._Side, "write", fail)
        expected = InputError if error is OSError else error
        with pytest.raises(expected, match="No space left on device"):
            encode()
    assert folders(tmp_path) == []
    assert len(encode().pairs) == 33


def test_what_a_killed_process_left_is_neither_used_nor_kept(encode, tmp_path):
    before = lists(encode().pairs)
    (name,) = folders(tmp_path)
    whole = tmp_path / "cache" / name
    whole.rename(tmp_path / "cache" / f".{name}.new")
    (tmp_path / "cache" / f".{name}.old").mkdir()
    assert lists(encode().pairs) == before
    assert folders(tmp_path) == [name]


def test_a_change_while_it_is_encoded_is_refused(encode, corpora, monkeypatch):
    def change(*arguments):
        corpora[0].target[0].write_text("something else\n")

    monkeypatch.setattr(encoded_writer._Progress, "tell", change)
    with pytest.raises(InputError, match=r"1\.de changed while it was being read"):
        encode()


def test_of_two_that_begin_at_once_one_encodes(encode, monkeypatch):
    written = []

    def write(*arguments):
        written.append(1)
        return encoded_writer.write_corpora(*arguments)

    monkeypatch.setattr(encoded_corpus, "write_corpora", write)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(encode())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert [len(encoded.pairs) for encoded in found] == [33] * 4
    assert len(written) == 1


def test_a_corpus_of_which_nothing_is_left_is_named(encode):
    with pytest.raises(
        InputError, match=r"3\.tsv has no usable pair \(0 pairs kept, 4"
    ):
        encode(min_length=9, unique=True)


def test_a_folder_that_cannot_be_written_is_named(corpora, tokenizer, tmp_path):
    (tmp_path / "file").write_text("")
    encoder = PairEncoder(tokenizer, tokenizer, Filters(99))
    with pytest.raises(InputError, match=r"cannot write .*file.*; make room, or set"):
        encode_corpora(tmp_path / "file", corpora, encoder)


def test_progress_is_told(encode, monkeypatch):
    monkeypatch.setattr(encoded_writer, "_INTERVAL", 0.0)
    encode()
    assert encode.said[0][-1].startswith("encoding: 100%, 33 pairs, ")
