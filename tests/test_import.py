"""Importing the package costs nothing, prints nothing and needs no backend."""

import importlib.util
import json

import pytest

pytestmark = pytest.mark.no_backend

HEAVY = (
    "jax",
    "keras",
    "numpy",
    "pydantic",
    "sacrebleu",
    "sentencepiece",
    "tensorflow",
    "torch",
)
LOADED = """
import json, sys
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded_modules(output):
    return set(json.loads(output.splitlines()[-1]))


def test_import_loads_nothing_heavy_and_prints_nothing(run_python):
    output = run_python("import keras_transformer\n" + LOADED)
    assert len(output.splitlines()) == 1
    assert not loaded_modules(output) & set(HEAVY)


def test_import_writes_nothing_to_stderr(run_python):
    code = (
        "import contextlib, io\n"
        "errors = io.StringIO()\n"
        "with contextlib.redirect_stderr(errors):\n"
        "    import keras_transformer\n"
        "print(repr(errors.getvalue()))"
    )
    assert run_python(code) == "''\n"


def test_import_changes_no_global_state(run_python):
    code = (
        "import logging, os, random, warnings\n"
        "def state():\n"
        "    return (random.getstate(), list(warnings.filters),\n"
        "            list(logging.root.handlers), dict(os.environ))\n"
        "before = state()\n"
        "import keras_transformer\n"
        "print(state() == before)"
    )
    assert run_python(code) == "True\n"


def test_all_names_are_listed_and_an_unknown_one_is_an_attribute_error():
    import keras_transformer

    assert set(keras_transformer.__all__) <= set(dir(keras_transformer))
    with pytest.raises(AttributeError, match="attribute Transfomer"):
        _ = keras_transformer.Transfomer


def test_configs_evaluation_and_text_files_need_no_keras(run_python):
    modules = (
        "config",
        "config.decoding",
        "evaluation",
        "data.tokenizer",
        "data.corpus",
        "training.config",
    )
    imports = "".join(f"import keras_transformer.{name}\n" for name in modules)
    output = run_python(imports + LOADED, block=("keras", "tensorflow", "jax", "torch"))
    assert not loaded_modules(output) & {"keras", "tensorflow", "jax", "torch"}


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_every_public_name_loads_without_tensorflow(backend, run_python):
    if not importlib.util.find_spec(backend):
        pytest.skip(f"needs {backend}")
    code = (
        "import keras_transformer\n"
        "for name in keras_transformer.__all__:\n"
        "    getattr(keras_transformer, name)\n"
    )
    output = run_python(code + LOADED, backend=backend, block=("tensorflow",))
    assert "tensorflow" not in loaded_modules(output)


def test_help_of_the_command_line_loads_nothing_heavy(run_python):
    code = (
        "import runpy, sys\n"
        "sys.argv = ['keras-transformer', '--help']\n"
        "try:\n"
        "    runpy.run_module('keras_transformer.cli.main', run_name='__main__')\n"
        "except SystemExit as done:\n"
        "    assert not done.code, done.code\n"
    )
    output = run_python(code + LOADED)
    assert "translate" in output
    heavy = {"jax", "keras", "numpy", "pydantic", "tensorflow", "torch"}
    assert not loaded_modules(output) & heavy
