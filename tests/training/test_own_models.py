"""A run of a model class of the user: its config imports the module, its folder not."""

import json
import sys

import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

MODULE = """
import keras_transformer as kt

class OwnConfig(kt.TransformerConfig):
    factor: float = 1.0

class Own(kt.Transformer):
    config_class = OwnConfig
    def logits(self, hidden):
        return self.config.factor * super().logits(hidden)
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **options):
        loss = super().compute_loss(x, y, y_pred, sample_weight, **options)
        return 2.0 * loss
"""


@pytest.mark.filterwarnings("ignore:Own.logits is overridden")
def test_a_run_trains_it_and_its_folders_name_it(config_file, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    config_file.with_name("own_models.py").write_text(MODULE)
    keys = ["model.kind=own_models.Own", "model.factor=2.0", "training.steps=4"]
    config = load_config(config_file, keys)
    assert config.model["factor"] == 2.0
    train(config)
    run = config_file.parent / "runs" / "small"
    folder = run / "averaged"
    stored = json.loads((folder / "config.json").read_text())
    assert (stored["kind"], stored["model"]["factor"]) == ("own_models.Own", 2.0)
    module = sys.modules["own_models"]
    assert type(kt.Translator.load(folder).model) is module.Own
    average(run, 2, config_file.with_name("mean"))
    fine = [f"model={{folder: {folder}}}", "output=tuned", "training.steps=2"]
    tuned = load_config(config_file, [*fine, "tokenizer={}"])
    assert tuned.model["kind"] == "own_models.Own"
    del sys.modules["own_models"]
    for read in (
        lambda: load_config(run / "config.yaml"),
        lambda: load_config(config_file, [*fine, "tokenizer={}"]),
        lambda: average(run, 2, config_file.with_name("again")),
        lambda: kt.Translator.load(folder),
    ):
        with pytest.raises(InputError, match="give --import own_models"):
            read()
    assert "own_models" not in sys.modules
    train(load_config(config_file, keys))
    assert "finished already" in capsys.readouterr().err
    del sys.modules["own_models"]
