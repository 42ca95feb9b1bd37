"""What docs/add_a_loss.md says is true: its loss, in a config and in `compile`."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.training import load_config
from keras_transformer.training.own_loss import loss_factory
from reference.weights import numpy

pytestmark = pytest.mark.one_backend
PAGE = Path(__file__).parents[2] / "docs" / "add_a_loss.md"
MODULE, COMPILING = re.findall(
    r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
)


def test_the_loss_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("my_losses.py").write_text(MODULE)
    keys = ["training.loss=my_losses:focal", "training.label_smoothing=0"]
    config = load_config(None, keys)
    loss = loss_factory(config)(config)
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype("float32")
    labels = np.array([[3, 1, 2], [4, 2, 0]])
    values = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    likely = np.take_along_axis(values, labels[..., None], axis=-1)[..., 0]
    expected = (-(1 - likely) * np.log(likely))[labels != 0].mean()
    found = loss(ops.convert_to_tensor(labels), ops.convert_to_tensor(logits))
    np.testing.assert_allclose(numpy(found), expected, rtol=1e-5)
    names = {"kt": kt, "Focal": sys.modules.pop("my_losses").Focal}
    with pytest.warns(UserWarning, match=r"Focal\.call is overridden"):
        exec(COMPILING, names)
    assert names["model"].loss.gamma == 2.0
