"""NumPy's `.npz` of weights, those of Marian: no pickles, and no bombs."""

import io
import struct
import zipfile

import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.importing.reading import open_tensors
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend


@pytest.fixture
def arrays():
    values = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")
    return {
        "encoder_l1_self_Wq": values,
        "turned": np.asfortranarray(values),
        "float16": values.astype("float16"),
        "float64": values.astype("float64"),
        "big": values.astype(">f4"),
        "int32": np.arange(3, dtype=">i4"),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 512), "float32"),
        "special:model.yml": np.frombuffer("type: transformer ä\0".encode(), "int8"),
    }


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_and_the_text_in_them_are_read(tmp_path, arrays, write):
    write(tmp_path / "opus.npz", **arrays)
    np.savez(tmp_path / "opus.npz.optimizer.npz", **arrays)
    with open_tensors(tmp_path) as file:
        assert file.tensors.keys() == arrays.keys()
        for name, values in arrays.items():
            read = file.read(name)
            assert file.tensors[name] == (values.shape, np.dtype(values.dtype).name)
            assert read.dtype.isnative
            assert read.dtype == ("float32" if values.dtype.kind == "f" else read.dtype)
            np.testing.assert_array_equal(read, values.astype(read.dtype))
        assert file.text("special:model.yml") == "type: transformer ä"


def refused(path, message):
    refused_by(lambda: open_tensors(path), message)


def entries(path, contents, packing=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def content_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array([{}], object))
    refused(tmp_path, "pickled objects, which are not run")


def test_what_would_grow_is_refused_before_it_does(tmp_path):
    path = tmp_path / "a.npz"
    bomb = {"a.npy": content_of(np.zeros(2**22, "float32"))}
    entries(path, bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**15
    assert peak_of(lambda: refused(path, "bytes would grow to 16777344")) < 2**20


def test_a_directory_that_lies_is_refused(tmp_path, arrays):
    path = tmp_path / "a.npz"
    content = content_of(arrays["float16"])
    whole = entries(path, {"a.npy": content, "b.npy": content}).read_bytes()
    at = whole.index(b"PK\1\2")
    for offset in (20, 24):  # its two sizes
        for size in (0, len(content) - 8, len(content) + 8, 2**31, 2**32 - 1):
            changed = bytearray(whole)
            struct.pack_into("<I", changed, at + offset, size)
            path.write_bytes(changed)
            if offset == 24:
                refused(path, r"a\.npz")
                continue
            try:  # what is not packed needs the other size only
                read = open_tensors(path).read("a")
            except InputError:
                continue
            np.testing.assert_array_equal(read, arrays["float16"])
    path.write_bytes(whole.replace(b"b.npy", b"a.npy"))
    refused(path, r"'a\.npy' twice")
    entries(path, {f"{i}.npy": b"" for i in range(2**16 + 1)})
    assert peak_of(lambda: refused(path, "65537 entries|directory")) < 2**27


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"no array",
        content_of(np.zeros(3))[:-1],
        content_of(np.zeros(3)) + b"\0",
        content_of(np.zeros(3)).replace(b"(3,)", b"(9,)"),
        content_of(np.zeros(3)).replace(b"(3,)", b"(-3,)"),
        content_of(np.zeros(3)).replace(b"(3,)", b"[3 ]"),
        content_of(np.zeros(3)).replace(b"<f8", b"<U2"),
        content_of(np.zeros(3)).replace(b"<f8", b"<M8"),
        content_of(np.zeros(3)).replace(b"<f8", b"O  "),
        content_of(np.zeros((0, 3))).replace(b"(0, 3), ", b"(0, 1<<62)"),
        content_of(np.zeros(3)).replace(b"(3,), ", b"(9**9**9)"),
    ],
)
def test_arrays_that_are_not_what_they_declare_are_refused(tmp_path, content):
    refused(entries(tmp_path / "a.npz", {"a.npy": content}), r"a\.npz")


def test_files_cut_off_are_refused(tmp_path, arrays):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **arrays)
    whole = path.read_bytes()
    for size in range(0, len(whole), 31):
        path.write_bytes(whole[:size])
        refused(path, r"a\.npz")


def test_numbers_that_are_damaged_are_refused_when_they_are_read(tmp_path, arrays):
    path = tmp_path / "a.npz"
    values = np.random.default_rng(2).normal(size=10_000)
    np.savez(path, a=values)
    whole = bytearray(path.read_bytes())
    whole[whole.index(values.tobytes()) + 70_000] ^= 1
    path.write_bytes(whole)
    refused_by(lambda: open_tensors(path).read("a"), "'a' is damaged")
