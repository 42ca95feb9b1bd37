"""Marian's `.bin`, as Bergamot and Firefox have it: integers, turned and multiplied."""

import gzip
import struct

import numpy as np
import pytest

from keras_transformer.importing.reading import open_tensors
from reference.foreign_files import marian_item
from reference.foreign_files import multiplied_item
from reference.foreign_files import write_marian
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend

#: Bergamot's numbers of int8 and int16, and those of Marian itself.
NUMBERS = ((0x4101, 0x4102), (0x10001, 0x10002))


@pytest.fixture
def items():
    random = np.random.default_rng(1)
    values = random.normal(size=(3, 5)).astype("float32")
    return {
        "decoder_ff_logit_out_b": marian_item(values),
        "half": marian_item(values.astype("float16")),
        "special:model.yml": marian_item(np.frombuffer(b"type: x\0\0", "int8")),
    }


def refused(path, message):
    refused_by(lambda: open_tensors(path), message)


@pytest.mark.parametrize("numbers", NUMBERS)
def test_integers_are_turned_and_divided(tmp_path, items, numbers):
    random = np.random.default_rng(2)
    small = random.integers(-127, 128, (3, 5)).astype("int8")
    large = random.integers(-1000, 1000, (5, 2)).astype("int16")
    write_marian(
        tmp_path / "model.intgemm.alphas.bin",
        items
        | {
            "l1_Wq": multiplied_item(small, 100.0, numbers[0]),
            "encoder_Wemb": multiplied_item(small, 50.0, numbers[0], transposed=False),
            "l1_Wk": multiplied_item(large, 1000.0, numbers[1]),
        },
    )
    (tmp_path / "lex.50.50.ende.s2t.bin").write_bytes(b"a shortlist")
    with open_tensors(tmp_path) as file:
        assert file.tensors["l1_Wq"] == ((3, 5), "int8")
        read = {name: file.read(name) for name in file.tensors}
        assert file.text("special:model.yml") == "type: x"
    assert all(read[name].dtype == "float32" for name in ("half", "l1_Wq", "l1_Wk"))
    np.testing.assert_allclose(read["l1_Wq"], small / 100)
    np.testing.assert_allclose(read["encoder_Wemb"], small / 50)
    np.testing.assert_allclose(read["l1_Wk"], large / 1000)
    np.testing.assert_array_equal(
        read["half"], read["decoder_ff_logit_out_b"].astype("float16")
    )


def test_a_packed_file_is_read_as_the_file_itself(tmp_path, items):
    path, packed = tmp_path / "model.bin", tmp_path / "model.bin.gz"
    write_marian(path, items)
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with open_tensors(path) as file, open_tensors(packed) as other:
        assert other.path == packed
        for name in file.tensors:
            np.testing.assert_array_equal(file.read(name), other.read(name))
    whole = packed.read_bytes()
    for size in (11, len(whole) // 2, len(whole) - 1):
        packed.write_bytes(whole[:size])
        refused(packed, r"model\.bin\.gz")
    packed.write_bytes(whole[:20] + b"\xff" * 9 + whole[29:])
    refused(packed, r"model\.bin\.gz")
    packed.write_bytes(gzip.compress(bytes(2**25)))
    assert peak_of(lambda: refused(packed, "would grow to more than")) < 2**23


def test_what_is_packed_for_a_processor_says_the_way_out(tmp_path, items):
    kind = (0x1801, (3, 5), bytes(60))
    write_marian(tmp_path / "model.bin", items | {"packed": kind})
    refused(tmp_path, r"'packed' is packed for one kind .*; take the model's \.npz")
    write_marian(tmp_path / "model.bin", items | {"odd": (0x999999, (1,), bytes(8))})
    refused(tmp_path, "unknown type|one kind")


def test_sizes_that_the_file_does_not_have_are_refused(tmp_path, items):
    path = tmp_path / "model.bin"
    write_marian(path, items)
    whole = path.read_bytes()
    head = 16  # of the first tensor: four numbers
    shape = whole.index(struct.pack("<2i", 3, 5))
    for form, at, values in (
        ("<Q", 8, [0, 2, 4, 2**40, 2**63]),
        ("<Q", head, [0, 1, 2**20, 2**63]),
        ("<Q", head + 16, [9, 2**60]),
        ("<Q", head + 24, [0, 59, 2**40, 2**64 - 1]),
        ("<i", shape, [-3, 2**31 - 1]),
        ("<i", shape + 4, [-1, 2**31 - 1]),
    ):
        for value in values:
            changed = bytearray(whole)
            struct.pack_into(form, changed, at, value)
            path.write_bytes(changed)
            assert peak_of(lambda: refused(path, r"model\.bin")) < 2**21
    for end in (b"\0", bytes(256)):
        write_marian(path, items, end=end)
        refused(path, "cut off or damaged")
    for size in range(0, len(whole), 13):
        path.write_bytes(whole[:size])
        refused(path, r"model\.bin")
