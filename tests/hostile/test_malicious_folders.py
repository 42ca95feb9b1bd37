"""A stranger's model folder: a clear error, nothing run, nothing from elsewhere."""

import json
import os
import pickle
import shutil

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import model_folder
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.errors import InputError
from reference.strange_folder import FILES as ALWAYS
from reference.strange_folder import FOLDER
from reference.strange_folder import edit
from reference.strange_folder import peak_of
from reference.strange_folder import refused_by

pytestmark = pytest.mark.one_backend

FILES = (*ALWAYS, KNOWN_WORDS)
EXPORT = (
    *("model.bin", "model.json", "config.json"),
    *("shared_vocabulary.json", "tokenizer.model", KNOWN_WORDS),
)
each_file = pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("model", name) for name in FILES),
        *(("export", name) for name in EXPORT),
    ],
)
known = KnownWords(description="words", words={"dog"})
each_kind = pytest.mark.parametrize("kind", ["model", "export"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """An export to CTranslate2, which `serve` takes too."""
    pytest.importorskip("ctranslate2")
    pytest.importorskip("prometheus_client")
    from keras_transformer.export import ctranslate2

    folder = tmp_path_factory.mktemp("export") / "model"
    translator = kt.Translator.load(FOLDER)
    translator.known_words = known
    return ctranslate2.export(translator, folder)


@pytest.fixture
def kind():
    return "model"


@pytest.fixture
def folder(kind, tmp_path, request):
    whole = request.getfixturevalue("exported") if kind == "export" else FOLDER
    folder = tmp_path / "model"
    folder.mkdir()
    for name in EXPORT if kind == "export" else ALWAYS:
        shutil.copy(whole / name, folder)
    if kind == "model":
        (folder / KNOWN_WORDS).write_text(known.to_json())
        edit(folder, None, known_words=KNOWN_WORDS)
    return folder


def load(folder):
    if not os.path.lexists(folder / "model.bin"):
        return kt.Translator.load(folder)
    from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine
    from keras_transformer.serving.limits import Limits

    return CTranslate2Engine(folder, Limits())


def refused(folder, message):
    before = sorted(path.name for path in folder.iterdir())
    refused_by(lambda: load(folder), message)
    assert sorted(path.name for path in folder.iterdir()) == before


# === Files that are none, or lie elsewhere ===


@each_file
def test_links_that_leave_the_folder_are_refused(folder, tmp_path, name):
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    refused(folder, "is not a regular file of this folder")
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refused(folder, "is not a regular file of this folder")
    (folder / name).unlink()
    (folder / name).symlink_to(name)
    refused(folder, "is not a regular file of this folder")


@each_kind
def test_links_within_the_folder_and_to_it_are_followed(folder, tmp_path):
    (folder / "tokenizer.model").rename(folder / "spm.model")
    (folder / "tokenizer.model").symlink_to("spm.model")
    (tmp_path / "link").symlink_to(folder)
    assert load(tmp_path / "link").beam_size == 4
    assert load(tmp_path / "link").known_words == known


@each_file
def test_a_file_of_gigabytes_is_not_read(folder, name):
    with (folder / name).open("r+b") as file:
        file.truncate(2**33)
    if name == "model.weights.h5":  # of which only what HDF5 names is read
        load(folder)
    else:
        refused(folder, r"is too large|is truncated, damaged or of another kind")


@each_file
def test_a_file_that_is_missing_is_named(folder, name):
    (folder / name).unlink()
    if name == "model.bin":  # then it is no export
        (folder / name).symlink_to("nowhere")
    refused(folder, name)


def test_the_card_is_read_with_the_same_care(folder, tmp_path):
    assert model_folder.card(folder) == ""
    (folder / "README.md").write_bytes(b"# A card \xff")
    assert model_folder.card(folder) == "# A card \ufffd"
    (folder / "README.md").unlink()
    (tmp_path / "secret").write_text("secret")
    (folder / "README.md").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="is not a regular file"):
        model_folder.card(folder)


# === The config ===


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "\x00", "\ufeff{}", "1" * 5000, "", '"\ud800"'],
    ids=["lists", "objects", "nul", "mark", "digits", "empty", "surrogate"],
)
def test_what_is_no_json_is_refused(folder, text):
    (folder / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    refused(folder, "config.json is not JSON, or is cut off|format_version")


@pytest.mark.parametrize(
    "sizes",
    [
        {"hidden_dim": 2**20},
        {"intermediate_dim": 2**30},
        {"vocabulary_size": 2**30, "source_vocabulary_size": 2**30}
        | {"target_vocabulary_size": 2**30},
        {"num_heads": 2**16, "head_dim": 2**14, "value_dim": 2**14},
        {"num_encoder_layers": 2**20, "intermediate_dim": 1},
        {"num_decoder_layers": 2**31},
        {"position": "learned", "max_sequence_length": 2**16},
        {"position": "learned", "max_sequence_length": 2**30},
        {"max_sequence_length": 2**30},
        {"max_sequence_length": 10**30},
        {"position_offset": 10**400},
    ],
    ids=lambda sizes: "-".join(sizes),
)
def test_sizes_that_the_weights_do_not_have_are_refused(folder, sizes):
    edit(folder, "model", **sizes)
    refused(folder, "declares|is too large|less than or equal to (65536|256)")


def test_so_many_layers_that_keras_would_fail_are_refused(folder):
    edit(folder, "model", num_encoder_layers=1600, hidden_dim=2, intermediate_dim=2)
    refused(folder, "num_encoder_layers: Input should be less than or equal to 256")


@each_kind
def test_a_config_of_megabytes_is_not_parsed(folder, kind):
    name = "model.json" if kind == "export" else "config.json"
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**content, "more": [[]] * 8_000_000}))
    assert peak_of(lambda: refused(folder, "is too large")) < 2**20


# === The tokenizer ===


def message(field, content):
    """A field of Protocol Buffers that holds bytes."""
    size = bytearray()
    rest = len(content)
    while True:
        size.append(rest & 127 | (128 if rest > 127 else 0))
        rest >>= 7
        if not rest:
            return bytes([field << 3 | 2]) + size + content


@each_kind
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (message(1, b"") * 2**20, "more pieces than the 400 of the model"),
        (message(2, message(5, b"") * 2**23), "bytes besides its pieces"),
        (
            message(3, message(2, bytes(4) + b"x" * 2**20 + b"\0")),
            "replaces one character by 1048576 bytes",
        ),
    ],
    ids=["pieces", "settings", "replacements"],
)
def test_a_tokenizer_that_costs_more_than_its_model_is_refused(folder, more, reason):
    with (folder / "tokenizer.model").open("ab") as file:
        file.write(more)
    refused(folder, reason)


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("decoding", {"beam_size": 10**9}),
        ("decoding", {"beam_size": -1}),
        ("decoding", {"beam_size": float("inf")}),
        ("decoding", {"beam_size": "many"}),
        ("decoding", {"beam_size": [4]}),
        ("decoding", {"sampling": True, "top_beams": 10**9}),
        ("decoding", {"suppressed_tokens": {"a": 1}}),
        ("decoding", {"beam_sise": 4}),
        ("decoding", {"x" * 100_000: 4}),
        ("decoding", {"suppressed_tokens": [[7] * 100_000]}),
        ("decoding", {"length_penalty": float("nan")}),
        ("decoding", {"length_penalty": -1}),
        ("model", {"dropout": "__import__('os')"}),
        ("model", {"activation": "os.system"}),
        ("model", {"class_name": "Lambda"}),
        ("model", {"hidden_dim": True}),
        (None, {"model": "tiny"}),
        (None, {"model": [["hidden_dim", 48]]}),
        (None, {"kind": ["transformer"]}),
        (None, {"kind": "keras.layers.Lambda"}),
        (None, {"tokenizer": {"source": "/etc/passwd", "target": "/etc/passwd"}}),
        (None, {"tokenizer": {"source": "../x.model", "target": "tokenizer.model"}}),
        (None, {"tokenizer": {"source": ["a"], "target": {"b": 1}}}),
        (None, {"tokenizer": "tokenizer.model"}),
        (None, {"format_version": [1]}),
        (None, {"format_version": 2, "languages": ["de"]}),
        (None, {"about": ["en-de"]}),
        (None, {"about": {"name": 3}}),
        (None, {"about": {"name": "x" * 101}}),
        (None, {"about": {"training_text": "a\x1b[2J"}}),
        (None, {"format_version": 2, "languages": {"codes": {"x" * 100_000: 1}}}),
        (None, {"format_version": 2, "languages": {"codes": {"de": 10**9}}}),
        (None, {"known_words": "/etc/passwd"}),
        (None, {"known_words": ["known_words.json"]}),
    ],
)
def test_a_config_with_other_values_is_refused(folder, part, changes):
    edit(folder, part, **changes)
    refused(folder, "config.json")


class Trap:
    """Pickled, it makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@each_file
def test_a_pickle_is_not_run(folder, tmp_path, name):
    (folder / name).write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    refused(folder, name)
    np.save(folder / name, np.array([Trap(tmp_path / "sprung")]), allow_pickle=True)
    (folder / f"{name}.npy").rename(folder / name)
    refused(folder, name)
    assert not (tmp_path / "sprung").exists()


@each_file
def test_a_file_in_the_place_of_another_is_refused(folder, name):
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    for other in contents.keys() - {name}:
        (folder / name).write_bytes(contents[other])
        refused(folder, f"{name}|tokenizer")
