"""Weights in `.safetensors`, in one file or in several: what is read, and refused."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.importing.reading import open_tensors
from reference.foreign_files import write_header
from reference.foreign_files import write_safetensors as write
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend


@pytest.fixture
def arrays():
    random = np.random.default_rng(1)
    values = random.normal(size=(3, 4)).astype("float32")
    return {
        "float32": values,
        "float16": values.astype("float16"),
        "bfloat16": values.astype(ml_dtypes.bfloat16),
        "float64": values.astype("float64"),
        "int64": random.integers(-9, 9, (2, 2)),
        "uint8": np.arange(5, dtype="uint8"),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 3), "float32"),
    }


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def refused(path, message):
    refused_by(lambda: open_tensors(path), message)


def test_floats_become_float32_and_integers_stay_as_they_are(tmp_path, arrays):
    write(tmp_path / "model.safetensors", arrays)
    with open_tensors(tmp_path) as file:
        assert file.tensors.keys() == arrays.keys()
        for name, values in arrays.items():
            values = np.asarray(values)
            assert file.tensors[name] == (values.shape, values.dtype.name)
            read = file.read(name)
            is_whole = values.dtype.kind in "iu"
            assert read.dtype == (values.dtype if is_whole else np.float32)
            np.testing.assert_array_equal(read, values.astype(read.dtype))
        with pytest.raises(KeyError):
            file.read("other")


#: What the files of pickles, archives and gzip begin with.
MARKS = {"pickle": b"\x80", "archive": b"PK", "gzip": b"\x1f\x8b"}


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_a_header_of_any_size_is_one(tmp_path, mark):
    entry = json.dumps({"a": tensor([1], 0, 4)}).encode()
    size = int.from_bytes(mark + bytes(8 - len(mark)), "little")
    size += 2**16 if size < len(entry) else 0
    values = np.float32([7]).tobytes()
    content = struct.pack("<Q", size) + entry.ljust(size) + values
    path = tmp_path / "weights.bin"
    path.write_bytes(content)
    assert content.startswith(mark)
    with open_tensors(path) as file:
        assert file.read("a").tolist() == [7]


@pytest.fixture
def shards(tmp_path, arrays):
    """The folder of two files with an index; each name's file."""
    files = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(arrays)}
    for file in set(files.values()):
        part = {name: arrays[name] for name in arrays if files[name] == file}
        write(tmp_path / file, part)
    write_index(tmp_path, files)
    return files


def write_index(folder, files):
    text = json.dumps({"metadata": {}, "weight_map": files})
    (folder / "model.safetensors.index.json").write_text(text)


def test_several_files_are_read_as_one(tmp_path, arrays, shards):
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        with open_tensors(path) as file:
            assert file.tensors.keys() == arrays.keys()
            for name, values in arrays.items():
                read = file.read(name)
                np.testing.assert_array_equal(read, np.asarray(values, read.dtype))


@pytest.mark.parametrize(
    "name",
    ["../x.safetensors", "/etc/passwd", "a/b", "", ".", "..", "a\0/b", 7, ["a"], None],
)
def test_an_index_that_names_files_of_other_places_is_refused(tmp_path, shards, name):
    write_index(tmp_path, shards | {"float32": name})
    refused(tmp_path, "no file beside it")


def test_a_file_of_an_index_that_is_a_link_to_elsewhere_is_refused(tmp_path, shards):
    folder = tmp_path / "folder"
    folder.mkdir()
    write_index(folder, shards)
    (folder / "part-0.safetensors").symlink_to(tmp_path / "part-0.safetensors")
    refused(folder, "is not a regular file of this folder")


def test_an_index_that_does_not_fit_its_files_is_refused(tmp_path, shards):
    write_index(tmp_path, shards | {"more": "part-0.safetensors"})
    refused(tmp_path, "do not agree about the tensor 'more'")
    write_index(tmp_path, {n: f for n, f in shards.items() if n != "float64"})
    refused(tmp_path, "do not agree about the tensor 'float64'")
    write_index(tmp_path, shards | {"more": "part-2.safetensors"})
    refused(tmp_path, r"part-2\.safetensors is missing")
    for text in ("", "[]", "{}", "[" * 100_000, '{"weight_map": {}}', "\ud800"):
        path = tmp_path / "model.safetensors.index.json"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        refused(tmp_path, r"index\.json: it (is not JSON|has no weight_map)")


LIES = {
    "header of gigabytes": ({}, b"", 2**33),
    "header beyond the end": ({}, b"", 3),
    "header beyond all numbers": ({}, b"", 2**63),
    "no JSON": (b"{" + b"x" * 20, b"", None),
    "nested": (b'{"a":' * 1000, b"", None),
    "shape without end": ({"a": tensor([2**40, 2**40], 0, 8)}, bytes(8), None),
    "large and empty": ({"a": tensor([2**62, 0], 0, 0)}, b"", None),
    "more than there is": ({"a": tensor([2**30], 0, 2**32)}, bytes(8), None),
    "negative": ({"a": tensor([-2], 0, 8)}, bytes(8), None),
    "overlap": (
        {"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)},
        bytes(12),
        None,
    ),
    "gap": ({"a": tensor([2], 0, 8), "b": tensor([2], 12, 20)}, bytes(20), None),
    "bytes left over": ({"a": tensor([2], 0, 8)}, bytes(9), None),
    "twice": (
        b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
        b'"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}',
        bytes(8),
        None,
    ),
    "unknown type": ({"a": tensor([2], 0, 8, "Q4")}, bytes(8), None),
    "type of no model": ({"a": tensor([8], 0, 8, "F8_E4M3")}, bytes(8), None),
    "axes": ({"a": tensor([1] * 99, 0, 4)}, bytes(4), None),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, lie):
    path = tmp_path / "model.safetensors"
    write_header(path, *LIES[lie])
    assert peak_of(lambda: refused(tmp_path, r"model\.safetensors")) < 2**21


def test_a_file_of_holes_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "model.safetensors"
    write_header(path, {"a": tensor([2**32], 0, 2**34)})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 2**34)
    refused(path, "holds .* bytes but declares 17179869184")


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path, arrays):
    path = tmp_path / "model.safetensors"
    write(path, arrays)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        refused(path, r"model\.safetensors")


def test_a_pointer_of_git_says_what_to_do(tmp_path):
    (tmp_path / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
        "size 12345\n"
    )
    refused(tmp_path, "Git's pointer to one of 12345 bytes; run git lfs pull")


def test_a_folder_without_weights_and_no_folder_are_refused(tmp_path):
    refused(tmp_path, "holds no file of weights")
    refused(tmp_path / "none", "is no file and no folder")
    (tmp_path / "model.safetensors").mkdir()
    refused(tmp_path, "is not a regular file of this folder")
