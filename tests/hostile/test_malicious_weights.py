"""A stranger's weights file: only plain numbers that the config names are read."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import keras_transformer as kt
from reference.strange_folder import FILES
from reference.strange_folder import FOLDER
from reference.strange_folder import edit
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.one_backend


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in FILES:
        shutil.copy(FOLDER / name, folder)
    return folder


def refused(folder, message):
    refused_by(lambda: kt.Translator.load(folder), message)


def rewrite(folder, name, write):
    """Replaces one weight; `write(file, name, value)`."""
    with h5py.File(folder / "model.weights.h5", "a") as file:
        value = file[name][()]
        del file[name]
        write(file, name, value)


def external_storage(file, name, value):
    secret = Path(file.filename).parents[1] / "secret"
    secret.write_bytes(value.tobytes())
    file.create_dataset(
        name,
        value.shape,
        value.dtype,
        external=[(str(secret), 0, h5py.h5f.UNLIMITED)],
    )


def other_file(file, name, value):
    path = Path(file.filename).parents[1] / "other.h5"
    with h5py.File(path, "w") as other:
        other["secret"] = value
    return str(path)


def external_link(file, name, value):
    file[name] = h5py.ExternalLink(other_file(file, name, value), "/secret")


def virtual(file, name, value):
    layout = h5py.VirtualLayout(value.shape, value.dtype)
    path = other_file(file, name, value)
    layout[...] = h5py.VirtualSource(path, "secret", value.shape)
    file.create_virtual_dataset(name, layout)


def soft_link(file, name, value):
    file["hidden"] = value
    file[name] = h5py.SoftLink("/hidden")


def hole(file, name, value):
    """Gigabytes that the file has by its size alone."""
    file.create_dataset(name, (2**30,), "f4")
    file.flush()
    with open(file.filename, "r+b") as raw:
        raw.truncate(2**33)


def dataset(*arguments, **options):
    return lambda file, name, value: file.create_dataset(name, *arguments, **options)


def of_type(name):
    return lambda file, weight, value: file.create_dataset(
        weight, data=value.astype(name)
    )


WEIGHTS = {
    "external storage": external_storage,
    "external link": external_link,
    "virtual": virtual,
    "soft link": soft_link,
    "never written": dataset((2**40,), "f4"),
    "bomb": dataset((2**36,), "f4", chunks=(2**20,), compression="gzip"),
    "hole": hole,
    "big endian": of_type(">f4"),
    "float128": of_type("longdouble"),
    "text": dataset(data=["__import__('os')"]),
    "whole numbers": of_type("int64"),
    "a group": lambda file, name, value: file.create_group(name),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_weights_that_are_no_plain_numbers_are_refused(folder, kind):
    rewrite(folder, "embedding/embeddings", WEIGHTS[kind])
    named = "embeddings' holds numbers of the type >f4"
    refused(folder, named if kind == "big endian" else "model.weights.h5")


def test_only_what_the_config_names_is_read(folder):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file.create_group("/".join("nested" * 5000))
        file["encoder_0/more"] = np.zeros(2**22, "f4")
    peak = peak_of(lambda: refused(folder, "holds the weight '(n|encoder_0/more)'"))
    assert peak < 8 * 2**20


def test_the_weights_of_more_layers_are_refused(folder):
    edit(folder, "model", num_decoder_layers=1)
    refused(folder, "holds the weight 'decoder_1', unlike the model of its config")
    edit(folder, "model", num_decoder_layers=3)
    refused(folder, "lacks the weight 'decoder_2/.*', unlike the model of its config")


@pytest.mark.parametrize("number", [np.nan, -np.inf])
def test_weights_that_are_not_finite_are_refused(folder, number):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file["embedding/embeddings"][5, 1] = number
    refused(folder, "embeddings' holds numbers that are not finite")


def test_weights_in_each_other_s_place_are_refused(folder):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        names = "encoder_0/feed_forward/inner_kernel", "embedding/embeddings"
        first, second = (file[name][()] for name in names)
        for name, value in zip(names, (second, first), strict=True):
            del file[name]
            file[name] = value
    refused(folder, r"has shape .* needs")
