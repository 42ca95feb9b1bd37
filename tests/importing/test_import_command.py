"""`keras-transformer import`, names of the hub, and foreign folders given as models."""

import sys
import types

import foreign_folders
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy
from typer.testing import CliRunner

import keras_transformer as kt
from keras_transformer.cli import model_folder as given_on_the_command_line
from keras_transformer.cli.main import application
from keras_transformer.errors import InputError
from keras_transformer.importing import hub

NAME = "someone/opus-mt-en-de"
CARD = "---\nlanguage: [en, de]\nlicense: apache-2.0\n---\n# A model\n"

pytestmark = pytest.mark.one_backend


@pytest.fixture
def folder(tmp_path):
    folder = foreign_folders.marian(tmp_path / "foreign", languages=("deu", "fra"))
    (folder / "README.md").write_text(CARD, encoding="utf-8")
    return folder


def invoke(*arguments):
    arguments = list(map(str, arguments))
    return CliRunner().invoke(application(), arguments, catch_exceptions=False).output


def test_the_command_says_what_it_found_and_writes_the_model_folder(folder, tmp_path):
    text = invoke("import", folder, "--dry-run", "--target-language", "fra")
    assert "family: MarianMT" in text
    assert "GB as float32" in text
    assert "languages: deu, fra" in text
    assert "licence: apache-2.0" in text
    assert "model folder" not in text
    with pytest.raises(InputError, match="needs --output FOLDER"):
        invoke("import", folder)
    output = tmp_path / "model"
    options = ["--output", output, "--target-language", "fra"]
    assert f"model folder: {output}" in invoke("import", folder, *options)
    assert kt.Translator.load(output).languages.target == "fra"
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "MarianMT" in card and "apache-2.0" in card and "`foreign`" in card
    assert str(tmp_path) not in card
    with pytest.raises(InputError, match="knows 2 languages, not 'ger'"):
        invoke("import", folder, "--dry-run", "--target-language", "ger")


def test_an_imported_folder_translates_the_same_in_a_new_process(
    tmp_path, run_python, monkeypatch
):
    folder = foreign_folders.marian(tmp_path / "foreign")
    kt.importing.convert(folder, tmp_path / "model")
    lines = ["the old cat", "a train leaves", "", "under the table at seven"]
    (tmp_path / "lines").write_text("\n".join(lines) + "\n", encoding="utf-8")
    expected = kt.Translator.load(tmp_path / "model").translate(lines)
    arguments = ["translate", str(tmp_path / "model")]
    options = ["--input", str(tmp_path / "lines"), "--output", str(tmp_path / "out")]
    run_python(["-m", "keras_transformer.cli.main", *arguments, *options])
    found = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert found == expected
    assert any(found)


def test_a_model_of_several_languages_translates_into_none_that_nobody_named(
    folder, tmp_path
):
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.loading import load_engine

    kt.importing.convert(folder, tmp_path / "model")
    (tmp_path / "lines").write_text("a train\n", encoding="utf-8")
    options = ["--input", tmp_path / "lines", "--output", tmp_path / "out"]
    message = "translates into 2 languages: deu, fra; give"
    with pytest.raises(InputError, match=message):
        invoke("translate", tmp_path / "model", *options)
    assert not (tmp_path / "out").exists()
    engine = load_engine(tmp_path / "model", Limits(batch_size=1))
    with pytest.raises(InputError, match=message):
        engine.translate(["a train"], Options(1))
    invoke("translate", tmp_path / "model", *options, "--target-language", "fra")
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 1


# === The hub ===


@pytest.fixture
def fake_hub(monkeypatch, folder, tmp_path):
    """`huggingface_hub` with one model and a cache of links, as its own has."""
    module = types.ModuleType("huggingface_hub")
    module.calls = []
    cache = tmp_path / "cache"
    cache.mkdir()

    def snapshot_download(name, allow_patterns):
        module.calls.append(allow_patterns)
        if name != NAME:
            raise OSError("404: no such model\nsee the documentation")
        for path in folder.iterdir():
            link = cache / path.name
            if any(path.match(pattern) for pattern in allow_patterns):
                link.is_symlink() or link.symlink_to(path)
        return str(cache)

    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return module


def test_a_name_of_the_hub_is_fetched(fake_hub, folder, tmp_path):
    (folder / "pytorch_model.bin").write_bytes(b"not to be fetched")
    report = kt.importing.convert(NAME, tmp_path / "model")
    assert report.source == NAME
    (patterns,) = fake_hub.calls
    assert "*.safetensors" in patterns
    assert not [p for p in patterns if p.endswith((".py", ".bin", ".pt", ".h5", "*"))]
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert f"`{NAME}`" in card


def test_weights_of_pytorch_are_fetched_where_there_are_no_others(
    fake_hub, folder, tmp_path
):
    """As most models of OPUS-MT have them; the model is the same."""
    torch = pytest.importorskip("torch")
    kt.importing.convert(NAME, tmp_path / "safetensors")
    weights = folder / "model.safetensors"
    tensors = safetensors_numpy.load_file(weights)
    weights.unlink()
    (tmp_path / "cache" / weights.name).unlink()
    state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    torch.save(state, folder / "pytorch_model.bin")
    kt.importing.convert(NAME, tmp_path / "pytorch")
    first, second = (
        kt.Translator.load(tmp_path / form).model.get_weights()
        for form in ("safetensors", "pytorch")
    )
    np.testing.assert_equal(first, second)


def test_what_the_hub_does_not_give_is_one_sentence(fake_hub, folder, monkeypatch):
    with pytest.raises(InputError, match=r"404: no such model see the documentation"):
        kt.importing.inspect("someone/else")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"opus-mt-en-de has neither safetensors nor"):
        kt.importing.inspect(NAME)
    calls = len(fake_hub.calls)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"no safetensors on the hub.*install torch"):
        kt.importing.inspect(NAME)
    assert len(fake_hub.calls) == calls + 1  # before PyTorch's are downloaded


def test_without_the_package_the_message_says_how_to_get_the_files(monkeypatch):
    monkeypatch.setattr(hub, "_PACKAGE", "no_such_package_at_all")
    with pytest.raises(
        InputError, match=r"pip install .* git clone https://hugg.*opus"
    ):
        kt.importing.inspect(NAME)
    with pytest.raises(InputError, match="there is no file or folder nowhere"):
        kt.importing.inspect("nowhere")


# === Foreign folders where a MODEL is wanted ===


def test_a_foreign_folder_given_as_a_model_names_the_command(folder, tmp_path):
    command = rf"keras-transformer import {folder} --output"
    with pytest.raises(InputError, match=rf"of the type 'marian'; run {command}"):
        kt.Translator.load(folder)
    (folder / "model.bin").write_bytes(b"")
    (folder / "config.json").write_text('{"add_source_eos": false}')
    with pytest.raises(InputError, match=rf"of CTranslate2; give .* or run {command}"):
        kt.Translator.load(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=rf"of another toolkit; run {command}"):
        kt.Translator.load(folder)
    with pytest.raises(InputError, match=r"is a file of another toolkit; run keras-"):
        given_on_the_command_line.check(folder / "model.safetensors", "a model folder")
