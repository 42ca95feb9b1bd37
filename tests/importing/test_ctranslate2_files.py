"""CTranslate2's `model.bin` of all layouts, with the scales of integers undone."""

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.importing.reading import open_tensors
from reference.foreign_files import write_ctranslate2
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend

random = np.random.default_rng(1)
VALUES = random.normal(size=(3, 4)).astype("float32")
ARRAYS = {
    "encoder/num_heads": np.int8(4),
    "decoder/self_attention/queries_scale": np.float32(0.5),
    "float": VALUES,
    "rows": random.integers(-127, 128, (3, 4)).astype("int8"),
    "rows_scale": np.array([10, 20, 30], "float32"),
    "one": random.integers(-999, 999, (3, 4)).astype("int16"),
    "one_scale": np.array([1000], "float32"),
}
ALIASES = (("tied", "rows"),)


def refused(path, message):
    refused_by(lambda: open_tensors(path), message)


@pytest.mark.parametrize("layout", range(2, 7))
def test_all_layouts_are_read_without_scales(tmp_path, layout):
    more = {
        "half": VALUES.astype("float16"),
        "brain": VALUES.astype(ml_dtypes.bfloat16),
    }
    arrays = ARRAYS | (more if layout >= 4 else {})
    path = tmp_path / "model.bin"
    write_ctranslate2(path, arrays, layout, ALIASES if layout >= 3 else ())
    with open_tensors(tmp_path) as file:
        assert (file.specification, file.revision) == ("TransformerSpec", 7)
        names = arrays.keys() - {"rows_scale", "one_scale"}
        assert file.tensors.keys() == names | ({"tied"} if layout >= 3 else set())
        assert file.tensors["rows"] == ((3, 4), "int8")
        assert file.read("encoder/num_heads") == 4
        assert file.read("decoder/self_attention/queries_scale") == 0.5
        np.testing.assert_array_equal(file.read("float"), VALUES)
        rows = ARRAYS["rows"] / ARRAYS["rows_scale"][:, None]
        np.testing.assert_allclose(file.read("rows"), rows)
        np.testing.assert_allclose(file.read("one"), ARRAYS["one"] / 1000)
        if layout >= 3:
            np.testing.assert_array_equal(file.read("tied"), file.read("rows"))
        if layout >= 4:
            for name, values in more.items():
                assert file.read(name).dtype == "float32"
                np.testing.assert_array_equal(file.read(name), values.astype("float32"))


def test_what_converters_write_is_read(shared_data):
    found = sorted((shared_data / "pretrained" / "ctranslate2").glob("*/model.bin"))
    for path in found:
        with open_tensors(path.parent) as file:
            assert file.specification == "TransformerSpec"
            for name, (shape, _) in file.tensors.items():
                assert file.read(name).shape == shape
    assert found


def test_scales_that_do_not_fit_are_refused(tmp_path):
    for scale in (np.ones(4, "float32"), np.ones((3, 4), "float32")):
        write_ctranslate2(tmp_path / "model.bin", ARRAYS | {"rows_scale": scale})
        refused(tmp_path, "the scales of rows do not fit it")


def test_files_that_are_damaged_or_cut_off_are_refused(tmp_path):
    path = tmp_path / "model.bin"
    write_ctranslate2(path, ARRAYS, aliases=(("tied", "nothing"),))
    refused(path, "cut off or damaged")
    write_ctranslate2(path, ARRAYS, aliases=(("float", "rows"),))
    refused(path, "cut off or damaged")
    for layout in (1, 7):
        write_ctranslate2(path, ARRAYS, layout)
        refused(path, "is no file of weights that can be read")
    write_ctranslate2(path, ARRAYS, aliases=ALIASES)
    whole = path.read_bytes()
    for size in range(0, len(whole), 5):
        path.write_bytes(whole[:size])
        refused(path, r"model\.bin")
    path.write_bytes(whole + b"\0")
    refused(path, "cut off or damaged")
