"""CTranslate2 folders and Argos packages that are refused, each in one sentence."""

import json
import os
import stat
import struct
import zipfile

import ctranslate2_folders
import foreign_folders
import numpy as np
import pytest

from keras_transformer import importing
from keras_transformer.errors import InputError
from reference.foreign_files import write_ctranslate2
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.no_backend

SELF = "encoder/layer_0/self_attention"


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return ctranslate2_folders.write_tokenizers(tmp_path_factory.mktemp("tokenizers"))


@pytest.fixture
def folder(tmp_path):
    return ctranslate2_folders.write(tmp_path / "foreign")


def refused(path, message, **options):
    refused_by(lambda: importing.inspect(path, **options), message)


def tensors(**changes):
    """Changes arrays by name; None removes one."""

    def rewrite(folder):
        arrays = ctranslate2_folders.arrays(ctranslate2_folders.vocabularies())
        arrays |= changes
        held = {name: value for name, value in arrays.items() if value is not None}
        write_ctranslate2(folder / "model.bin", held)

    return rewrite


def number(name, value):
    return tensors(**{name: value})


def settings(**fields):
    def change(folder):
        text = json.dumps({**ctranslate2_folders.CONFIG, **fields})
        (folder / "config.json").write_text(text)

    return change


def file(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def other_specification(folder):
    path = folder / "model.bin"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"TransformerSpec", b"WhisperSpecABCD", 1))


def lying(folder):
    """A matrix that declares more rows than the file has bytes."""
    path = folder / "model.bin"
    content = bytearray(path.read_bytes())
    place = content.index(b"encoder/embeddings_0/weight\0") + 28
    content[place + 1 : place + 5] = struct.pack("<I", 2**31)
    path.write_bytes(content)


#: What is wrong -> how the folder comes to it, and what the message says.
REFUSALS = {
    "alibi": (
        number("decoder/alibi", np.int8(1)),
        r"model with alibi cannot be imported; translate with CTranslate2$",
    ),
    "activation": (
        tensors(**{f"{s}/activation": np.int8(5) for s in ("encoder", "decoder")}),
        "activation 5 cannot",
    ),
    "unlike norms": (
        number("decoder/pre_norm", np.int8(0)),
        "pre_norm 0 and 1 in its parts cannot",
    ),
    "part of a rotation": (
        number(f"{SELF}/rotary_dim", np.int32(4)),
        "rotary_dim 4 of heads of 8",
    ),
    "relative keys": (
        number(f"{SELF}/relative_position_keys", np.zeros((9, 8), "float32")),
        "tensor '.*relative_position_keys', which no CTranslate2 model",
    ),
    "projection": (
        number("decoder/project_in/weight", np.zeros((16, 16), "float32")),
        "tensor 'decoder/project_in/weight', which no CTranslate2",
    ),
    "window": (number("decoder/sliding_window", np.int32(9)), "sliding_window cannot"),
    "scale of embeddings": (
        tensors(
            **{f"{s}/scale_embeddings": np.float32(3) for s in ("encoder", "decoder")}
        ),
        "scale_embeddings 3.0 cannot",
    ),
    "scale of logits": (
        number("decoder/scale_outputs", np.float32(3)),
        "scale_outputs 3.0 cannot",
    ),
    "no number": (
        number("encoder/pre_norm", np.zeros(3, "float32")),
        "encoder/pre_norm that is no finite number",
    ),
    "layers": (
        number("encoder/layer_999999999/a", np.zeros(3, "float32")),
        "more than 256 layers",
    ),
    "heads": (number("encoder/num_heads", np.int16(3)), "3 heads of 16 components"),
    "one table": (
        number("decoder/position_encodings/encodings", None),
        "a table of positions in encoder/.* alone",
    ),
    "missing": (
        number(f"{SELF}/linear_0/weight", None),
        f"lacks the .*{SELF}/linear_0",
    ),
    "shape": (
        number("decoder/layer_1/ffn/linear_1/weight", np.zeros((3, 4), "float32")),
        r"holds \d+ weights, but its config declares \d+",
    ),
    "no layers": (
        lambda folder: write_ctranslate2(
            folder / "model.bin", {"decoder/alibi": np.int8(0)}
        ),
        "no number of heads|lacks the matrix",
    ),
    "specification": (other_specification, "the specification WhisperSpecABCD cannot"),
    "lying size": (lying, r"model\.bin.* cut off or damaged"),
    "start of sources": (settings(add_source_bos=True), "add_source_bos"),
    "start": (settings(decoder_start_token=None), "decoder_start_token that whoever"),
    "start of another kind": (settings(eos_token=3), "eos_token must be a piece, got"),
    "end": (settings(eos_token="</end>"), "vocabulary of the target lacks '</end>'"),
    "piece too many": (
        file("target_vocabulary.json", json.dumps([*"abcdefg"])),
        r"vocabulary of the target has 7 pieces, but its matrix \d+ rows",
    ),
    "vocabulary": (file("target_vocabulary.json", '{"a": 1}'), "holds no list of"),
    "vocabulary of numbers": (file("source_vocabulary.json", "[1]"), "no list of piec"),
    "search": (settings(beam_size=0), "search.* beam_size|beam_size"),
    "export of languages": (
        file("model.json", '{"format": "ctranslate2", "languages": {}}'),
        "one direction of a multilingual model; import nothing",
    ),
    "export without ids": (
        file("model.json", '{"format": "ctranslate2"}'),
        "lacks ids or search; export the model again",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_folder_is_refused_in_one_sentence(name, folder, tokenizers):
    change, message = REFUSALS[name]
    change(folder)
    refused(folder, message, **tokenizers)


def test_what_a_file_declares_takes_no_memory(folder, tokenizers):
    lying(folder)

    def inspected():
        refused(folder, "cut off or damaged", **tokenizers)

    assert peak_of(inspected) < 10 * 2**20


def test_a_vocabulary_is_a_file_of_the_folder(folder, tokenizers, tmp_path):
    outside = tmp_path / "outside.json"
    (folder / "source_vocabulary.json").rename(outside)
    (folder / "source_vocabulary.json").symlink_to(outside)
    refused(folder, "not a regular file of this folder", **tokenizers)


# === Tokenizers ===


def test_tokenizers_must_be_there_and_fit(folder, tokenizers, tmp_path):
    refused(folder, r"no tokenizer of the source.*--source-tokenizer FILE \(source_t")
    only = {"source_tokenizer": tokenizers["source_tokenizer"]}
    refused(folder, r"no tokenizer of the target.*--target-tokenizer FILE", **only)
    swapped = dict(zip(tokenizers, reversed(tokenizers.values()), strict=True))
    refused(folder, "pieces only .* in the vocabulary; give the tokenizer", **swapped)
    refused(folder, "no file .* for the source_tok", source_tokenizer=tmp_path / "no")
    path = tmp_path / "text.model"
    path.write_text("no model")
    given = {**tokenizers, "source_tokenizer": path}
    refused(folder, "text.model: the tokenizer is not a SentencePiece model", **given)
    (folder / "bpe.model").write_text("#version: 0.2\nt h\n")
    refused(folder, "subword-nmt cannot be imported")


def test_models_with_tokenizers_of_their_own_take_no_other(tokenizers, tmp_path):
    folder = foreign_folders.marian(tmp_path / "marian")
    refused(folder, "MarianMT; leave out source_tokenizer and target_", **tokenizers)


# === Packages ===


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package") / "translate-en_de"
    return ctranslate2_folders.package(folder)


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "/outside.txt",
        "translate-en_de/../../outside",
        "C:\\a",
        "..\\a",
    ],
)
def test_a_package_that_names_other_places_is_refused(name, package, tmp_path):
    path = tmp_path / "en_de.argosmodel"
    ctranslate2_folders.packed(package, path, **{name: "text"})
    refused(path, "names a file of another place")
    assert os.listdir(tmp_path) == ["en_de.argosmodel"]


def test_a_package_with_a_link_is_refused(package, tmp_path):
    entry = zipfile.ZipInfo("translate-en_de/model/config.json.link")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = ctranslate2_folders.packed(package, tmp_path / "en_de.argosmodel")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    refused(path, "is a link")


def test_a_package_that_would_grow_is_refused(package, tmp_path):
    path = tmp_path / "en_de.argosmodel"
    ctranslate2_folders.packed(package, path, zeros=bytes(20 * 2**20))

    def inspected():
        refused(path, "bytes would grow to")

    assert peak_of(inspected) < 10 * 2**20


def test_damaged_packages_are_refused(package, tmp_path):
    path = ctranslate2_folders.packed(package, tmp_path / "en_de.argosmodel")
    whole = path.read_bytes()
    for content in (whole[:-30], whole[:500], b"", b"no zip"):
        path.write_bytes(content)
        refused(path, "cut off or damaged")
    content = bytearray(whole)
    place = content.index(b"model/model.bin") + 3000  # within what is packed
    content[place : place + 9] = bytes(9)
    path.write_bytes(content)
    refused(path, "cut off or damaged")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b", "text")
    refused(path, "it has no metadata.json")


def test_a_package_says_its_languages(package):
    path = package / "metadata.json"
    before = path.read_text()
    path.write_text('{"from_code": "en"}')
    refused(package, "lacks from_code and to_code")
    path.write_text(json.dumps({**json.loads(before), "target_prefix": "__xx__"}))
    refused(package, "target_prefix '__xx__' is not in the vocabulary of the target")
    path.write_text(before)
    report = importing.inspect(package)
    assert report.languages == ("en", "de")
    assert report.left_out == ("replace_unknowns of Argos Translate",)


def test_a_package_does_not_lead_out_of_its_folder(package, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "metadata.json").write_text((package / "metadata.json").read_text())
    (folder / "model").symlink_to(package / "model")
    with pytest.raises(InputError, match="not a regular file of this folder"):
        importing.inspect(folder)
