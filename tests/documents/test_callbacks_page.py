"""What docs/callbacks.md says is true, with libraries that note what they are told."""

import re
import sys
import types
from pathlib import Path

import keras
import pytest

from keras_transformer.training import load_config
from keras_transformer.training.own_callbacks import OwnCallbacks
from keras_transformer.training.own_callbacks import factories
from keras_transformer.training.own_callbacks import made

pytestmark = pytest.mark.one_backend
PAGE = Path(__file__).parents[2] / "docs" / "callbacks.md"
MODULES = {
    re.match(r"# (\w+)\.py\n", code)[1]: code
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
}


@pytest.fixture
def told(monkeypatch):
    """Calls of functions of W&B, MLflow and TensorBoard, none of which is there."""
    calls = []

    def function(name):
        def note(*arguments, **options):
            calls.append((name, arguments, options))

        return note

    for library, names in {
        "wandb": ["init", "log", "finish"],
        "mlflow": ["set_experiment", "start_run", "log_dict", "log_metrics", "end_run"],
    }.items():
        module = types.ModuleType(library)
        for name in names:
            setattr(module, name, function(name))
        monkeypatch.setitem(sys.modules, library, module)

    class Board(keras.callbacks.Callback):
        def __init__(self, folder, profile_batch, write_graph):
            super().__init__()
            function("board")(folder, profile_batch)

    monkeypatch.setattr(keras.callbacks, "TensorBoard", Board)
    return calls


@pytest.fixture
def callbacks(tmp_path, monkeypatch):
    """`callbacks(path)`: those that a run with this `training.callbacks` has."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, code in MODULES.items():
        Path(f"{name}.py").write_text(code)

    def of(path):
        config = load_config(None, [f'training.callbacks=["{path}"]', "output=runs/my"])
        return made(factories(config), config)

    yield of
    for name in MODULES:
        sys.modules.pop(name, None)


def run(callbacks, logs):
    """A training of one epoch, of which nothing is computed."""
    model = types.SimpleNamespace(stop_training=False)
    own = OwnCallbacks(callbacks, model, 10)
    own.begin()
    own.begin_epoch(0)
    own.on_train_batch_begin(0)
    own.on_train_batch_end(0)
    own.end_epoch(5, logs)
    own.end()
    return own.stopped


def test_the_training_stops_in_the_morning(callbacks, monkeypatch):
    (stop,) = callbacks("my_callbacks:stop_in_the_morning")
    assert not run([stop], {})
    monkeypatch.setattr(
        sys.modules["my_callbacks"].time, "monotonic", iter([0, 9e9]).__next__
    )
    assert run([stop], {})


def test_wandb_is_told_of_each_line_of_the_log(callbacks, told):
    assert not run(callbacks("my_wandb:make"), {"val_bleu": 31.0})
    (init, _, options), log, finish = told
    assert (init, options["id"], options["resume"]) == ("init", "my", "allow")
    assert options["config"]["training"]["steps"] == 1500
    assert log == ("log", ({"val_bleu": 31.0},), {"step": 5})
    assert finish[0] == "finish"


def test_mlflow_is_told_of_each_line_of_the_log(callbacks, told):
    run(callbacks("my_mlflow:make"), {"loss": 2.5})
    names = [name for name, *_ in told]
    assert names == [
        "set_experiment",
        "start_run",
        "log_dict",
        "log_metrics",
        "end_run",
    ]
    assert told[3][1:] == (({"loss": 2.5},), {"step": 5})


def test_the_profiler_writes_into_the_run(callbacks, told):
    run(callbacks("my_profiler:make"), {})
    assert told == [("board", (Path("runs/my/profile"), (10, 20)), {})]
