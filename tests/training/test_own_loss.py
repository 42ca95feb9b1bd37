"""A loss of the user in a run: what `training.loss` names."""

import sys

import pytest
from small_run import metrics

from keras_transformer.errors import InputError
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.own_loss import loss_factory

pytestmark = pytest.mark.one_backend

MODULE = """
import keras_transformer as kt
class Twice(kt.losses.LabelSmoothedCrossEntropy):
    def call(self, y_true, y_pred):
        return 2.0 * super().call(y_true, y_pred)
def make(config):
    return Twice(config.training.label_smoothing)
def wrong(config):
    return "mean_squared_error"
number = 7
"""


@pytest.fixture
def module(config_file, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    config_file.with_name("named_losses.py").write_text(MODULE)
    yield "named_losses"
    sys.modules.pop("named_losses", None)


@pytest.mark.filterwarnings("ignore:Twice.call is overridden")
def test_a_run_trains_with_it_and_its_model_needs_it_no_more(config_file, module):
    keys = [
        *(f"training.loss={module}:make", "training.label_smoothing=0"),
        *("training.micro_batches=2", "training.steps=4", "training.ema=0.5"),
    ]
    train(load_config(config_file, keys))
    run = config_file.parent / "runs" / "small"
    for line in metrics(run):
        assert line["loss"] == pytest.approx(2.0 * line["nll"], rel=0.05)
    del sys.modules[module]
    average(run, 2, config_file.with_name("mean"))
    assert load_config(run / "config.yaml").training.loss == f"{module}:make"
    assert module not in sys.modules
    with pytest.raises(InputError, match=r"begun with another config \(training\.loss"):
        train(load_config(config_file, keys[1:]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", r"named_losses.py\) has no missing; check the name"),
        ("number", "named_losses:number is int, not a function; .* returns a loss"),
        ("Twice", "named_losses:Twice is a class; name a function"),
        ("wrong", "named_losses:wrong returned str, which is not derived from"),
    ],
)
def test_what_makes_no_loss_is_refused(config_file, module, name, message):
    with pytest.raises(InputError, match=f"training.loss: .*{message}"):
        train(load_config(config_file, [f"training.loss={module}:{name}"]))


@pytest.mark.parametrize(
    "key",
    ["r_drop=5", "simcut.weight=3", "distillation={teacher: teacher, weight: 0.5}"],
)
def test_a_key_that_it_does_not_take_over_is_refused(config_file, module, key):
    config = load_config(config_file, [f"training.loss={module}:make"])
    name = key.partition("=")[0].partition(".")[0]
    make = loss_factory(config)
    assert not getattr(make(config), name)
    config = load_config(config_file, [f"training.{key}"])
    with pytest.raises(InputError, match=f"without {name}, which training.{name} asks"):
        make(config)


@pytest.mark.filterwarnings("ignore:Twice.call is overridden")
def test_two_passes_need_the_fused_loss(config_file, module):
    code = MODULE.replace("label_smoothing)", "label_smoothing, r_drop=5.0)")
    config_file.with_name("named_losses.py").write_text(code)
    with pytest.raises(InputError, match=r"r_drop 5.0 needs the fused loss"):
        train(load_config(config_file, [f"training.loss={module}:make"]))


@pytest.mark.no_backend
def test_what_is_no_function_of_a_module_is_refused():
    with pytest.raises(InputError, match=r"training\.loss: expected module:factory"):
        load_config(None, ["training.loss=focal"])
