"""What the TensorFlow process of an export is told by a process on another backend."""

import importlib
import io
import json
import sys
from types import SimpleNamespace

import pytest

import keras_transformer as kt
from keras_transformer.config.positions import POSITIONS
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.models import positions
from reference import configs

pytestmark = [pytest.mark.export, pytest.mark.one_backend]

REGISTRATION = """
import keras_transformer as kt

def make(config, side, **options):
    return kt.layers.RotaryPositionalEncoding(base=500.0, **options)

kt.models.register_position("rotary_500", make)
"""


@pytest.fixture
def translator(tmp_path, monkeypatch):
    """With a position that a module of its own registers."""
    (tmp_path / "own_positions.py").write_text(REGISTRATION, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(positions, "_MAKERS", positions._MAKERS.copy())
    importlib.import_module("own_positions")
    yield of_position("rotary_500")
    forget()


def of_position(name):
    tokenizer = kt.data.Tokenizer.train(["a house"] * 9, 270)
    config = configs.tiny(vocabulary_size=270, position=name)
    return kt.Translator(kt.Transformer(config), tokenizer)


def forget():
    """As a fresh process begins."""
    sys.modules.pop("own_positions", None)
    POSITIONS.pop("rotary_500", None)
    positions._MAKERS.pop("rotary_500", None)


def test_the_process_imports_the_module_that_registers_a_position(
    translator, tmp_path, monkeypatch
):
    exported = []

    def export(translator, output):
        exported.append(translator.model.target_position.base)
        return output

    def run(task, environment):
        forget()
        monkeypatch.setattr(sys, "stdin", io.StringIO(task))
        process.main()
        return 0, ""

    monkeypatch.setattr(process, "_run", run)
    monkeypatch.setattr(process.signal, "signal", lambda *arguments: None)
    monkeypatch.setitem(sys.modules, "a_format", SimpleNamespace(export=export))
    assert process.export("a_format", translator, tmp_path / "out") == tmp_path / "out"
    assert exported == [500.0]


def test_a_position_of_the_running_program_is_refused(
    translator, tmp_path, monkeypatch
):
    def run(task, environment):
        raise AssertionError(json.loads(task))

    monkeypatch.setattr(process, "_run", run)
    make = positions._MAKERS["rotary_500"]
    monkeypatch.setattr(make, "__module__", "__main__")
    with pytest.raises(InputError, match="'rotary_500' is registered by the program"):
        process.export("a_format", translator, tmp_path / "out")


#: Format -> a quantization that it has not, and those that it has.
QUANTIZATIONS = {
    "onnx": ("float16", "ONNX; use int8"),
    "litert": ("int4", "LiteRT; use float16"),
}
#: Options that a format has alone.
OTHERS = {"onnx": {"web": False, "assets": None}}


@pytest.mark.parametrize("name", QUANTIZATIONS)
def test_formats_of_tensorflow_leave_it_to_the_process(name, tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "require_packages", lambda *names, **extras: None)
    tasks = []
    monkeypatch.setattr(process, "export", lambda *a, **k: tasks.append((a, k)))
    module = f"keras_transformer.export.{name}"
    translator, output = of_position("sinusoidal"), tmp_path / "model"
    export = importlib.import_module(module).export
    export(translator, output, quantization="int8")
    options = {"quantization": "int8", "card": "", **OTHERS.get(name, {})}
    assert tasks == [((module, translator, output), options)]
    wrong, message = QUANTIZATIONS[name]
    with pytest.raises(InputError, match=f"'{wrong}' is unknown .* {message}"):
        export(translator, output, quantization=wrong)
    assert not list(tmp_path.iterdir())
