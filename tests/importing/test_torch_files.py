"""PyTorch's files of weights: read as weights alone, and nothing in them is run."""

import argparse
import collections
import os
import pickle
import sys
import zipfile

import numpy as np
import pytest

from keras_transformer.importing.reading import open_tensors
from keras_transformer.importing.reading import torch_file
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def state(torch):
    values = torch.linspace(-1, 1, 12).reshape(3, 4)
    return {
        "float32": values,
        "transposed": values.T,
        "part": values[1:, :2],
        "tied": values,
        "parameter": torch.nn.Parameter(values),
        "float16": values.half(),
        "bfloat16": values.bfloat16(),
        "float64": values.double(),
        "int64": torch.arange(4),
        "scalar": torch.tensor(3.0),
    }


@pytest.fixture(params=["zip", "old"])
def save(request, torch, tmp_path):
    """Writes `pytorch_model.bin` in the form of today, or of before PyTorch 1.6."""

    def save(content, path=tmp_path / "pytorch_model.bin"):
        is_zip = request.param == "zip"
        torch.save(content, path, _use_new_zipfile_serialization=is_zip)
        return path

    return save


def refused(path, message):
    refused_by(lambda: open_tensors(path), message)


def test_weights_are_read_in_both_forms(save, state, tmp_path):
    save(collections.OrderedDict(state))
    with open_tensors(tmp_path) as file:
        assert file.tensors.keys() == state.keys()
        for name, tensor in state.items():
            tensor = tensor.detach()
            shape, dtype = file.tensors[name]
            assert (shape, f"torch.{dtype}") == (tuple(tensor.shape), str(tensor.dtype))
            values = file.read(name)
            assert values.dtype == ("int64" if name == "int64" else "float32")
            np.testing.assert_array_equal(values, tensor.float().numpy())


def test_a_file_is_mapped_anew_when_much_of_it_was_read(
    torch, state, tmp_path, monkeypatch
):
    monkeypatch.setattr(torch_file, "_MOST_MAPPED_BYTES", 50)
    torch.save(state, tmp_path / "pytorch_model.bin")
    with open_tensors(tmp_path) as file:
        loads = []
        load = torch_file._load
        monkeypatch.setattr(
            torch_file, "_load", lambda *args: loads.append(1) or load(*args)
        )
        kept = {name: file.read(name) for name in state}
        assert 2 <= len(loads) <= len(state)
    for name, values in kept.items():
        np.testing.assert_array_equal(values, state[name].detach().float().numpy())


def test_several_files_are_read_as_one(save, state, tmp_path):
    names = [*state]
    for number, half in enumerate((names[:5], names[5:])):
        save({n: state[n] for n in half}, tmp_path / f"part{number}.bin")
    files = {name: f"part{names.index(name) // 5}.bin" for name in names}
    index = '{"weight_map": ' + str(files).replace("'", '"') + "}"
    (tmp_path / "pytorch_model.bin.index.json").write_text(index)
    with open_tensors(tmp_path) as file:
        assert file.tensors.keys() == state.keys()
        np.testing.assert_array_equal(file.read("int64"), [0, 1, 2, 3])


class Trap:
    """Pickled, it makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("protocol", range(1, 6))
def test_what_would_be_run_is_named_and_not_run(torch, tmp_path, protocol):
    trap, name = Trap(tmp_path / "sprung"), f"'{os.name}.mkdir'"
    torch.save({"a": trap}, tmp_path / "zip.bin", pickle_protocol=protocol)
    torch.save(
        {"a": trap},
        tmp_path / "old.bin",
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=False,
    )
    refused(tmp_path / "zip.bin", name)
    if protocol < 2:  # later ones say what they are in their first byte
        refused(tmp_path / "old.bin", "no file of weights that can be read")
    else:
        refused(tmp_path / "old.bin", name)
        (tmp_path / "plain.bin").write_bytes(pickle.dumps(trap, protocol))
        refused(tmp_path / "plain.bin", name)
    assert not (tmp_path / "sprung").exists()


def test_checkpoints_of_other_toolkits_say_the_way_out(save, torch, state):
    path = save({"model": state, "opt": argparse.Namespace(layers=6)})
    refused(path, r"argparse\.Namespace.* fairseq or OpenNMT .* CTranslate2")
    refused(save(torch.nn.Linear(2, 2)), r"torch\.nn\.modules\.linear\.Linear")
    refused(save({"state_dict": state}), "'state_dict', which is no tensor")
    refused(save(bytearray(9)), r"bytearray' to be run")
    refused(save([state]), "no tensors by name")
    refused(save({1: state["float32"]}), "no tensors by name")


def test_tensors_that_are_no_weights_are_refused(save, torch):
    refused(save({"a": torch.zeros(1).expand(2**40)}), "more numbers than are stored")
    refused(save({"a": torch.zeros(2, dtype=torch.complex64)}), "ComplexFloatStorage")


def test_files_cut_off_are_refused(save, state):
    path = save(state)
    whole = path.read_bytes()
    for size in range(0, len(whole), 101):
        path.write_bytes(whole[:size])
        refused(path, r"pytorch_model\.bin")


def test_packed_and_strange_archives_are_refused(torch, state, tmp_path):
    torch.save(state, tmp_path / "a.bin")
    with zipfile.ZipFile(tmp_path / "a.bin") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "b.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    refused(tmp_path / "b.bin", "damaged, or no file of weights")
    with zipfile.ZipFile(tmp_path / "c.bin", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
            archive.writestr(f"x/{name}", content)
    refused(tmp_path / "c.bin", "damaged, or no file of weights")
    with zipfile.ZipFile(tmp_path / "d.bin", "w") as archive:
        archive.writestr("d/data.pkl", bytes(2**22))
    assert peak_of(lambda: refused(tmp_path / "d.bin", "no file of weights")) < 2**21


def test_without_a_safe_version_of_pytorch_nothing_is_read(
    torch, state, tmp_path, monkeypatch
):
    torch.save(state, tmp_path / "pytorch_model.bin")
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    refused(tmp_path, r"2\.5\.1\+cpu does not read .* update PyTorch to 2\.6")
    monkeypatch.setitem(sys.modules, "torch", None)
    refused(tmp_path, "not installed; run pip install torch, or take safetensors")
