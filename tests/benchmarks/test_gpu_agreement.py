"""`gpu/agreement.py` at toy size; its runs share the process of the test."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from gpu import agreement


@pytest.mark.one_backend
@pytest.mark.slow
def test_one_device_agrees_with_itself(ours, monkeypatch, tmp_path, capsys):
    import keras
    from peers import outputs

    def run(self, name, dtype, task, options, environment):
        options = {**self.model, **options, "bfloat16": dtype == "bfloat16"}
        getattr(outputs, task)(**options)
        return capsys.readouterr().out

    monkeypatch.setattr(agreement.Runs, "run", run)
    arguments = ["agreement", "--size", "toy", "--steps", "1", "--beam", "2"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.chdir(Path(agreement.__file__).parents[1])
    runs = agreement.Runs(agreement.parse(), tmp_path)
    name = keras.backend.backend()
    found = {name: runs.of_backend(name)}
    agreement.report(found)
    output = capsys.readouterr().out
    for dtype in ("float32", "bfloat16"):
        assert found[name][dtype]["training"]["equal"]
        assert found[name][dtype][f"CPU, {dtype}"]["logits"] == 0
        assert f"| {name}, {dtype} | CPU, float32 |" in output
    assert found[name]["bfloat16"]["CPU, float32"]["logits"] > 0


@pytest.mark.no_backend
def test_differences_are_the_largest():
    one = {
        "logits": np.array([1.0, -4.0]),
        "losses": np.array([2.0, 4.0]),
        "ids": np.array([[5, 6, 0], [7, 8, 9]]),
        "scores": np.array([-1.0, -2.0]),
    }
    other = {
        "logits": np.array([1.5, -4.25]),
        "losses": np.array([2.0, 5.0]),
        "ids": np.array([[5, 6], [7, 8]]),
        "scores": np.array([-3.0, -2.5]),
    }
    assert agreement.differences(other, one) == {
        "logits": 0.5,
        "largest_logit": 4.0,
        "losses": 0.25,
        "texts": 2,
        "same_texts": 1,
        "largest_margin": 0.5,
    }


@pytest.mark.no_backend
def test_weights_are_compared_by_name(tmp_path):
    paths = [tmp_path / "one.h5", tmp_path / "other.h5"]
    for path, value in zip(paths, (1.0, 1.5), strict=True):
        with h5py.File(path, "w") as file:
            file["a/b"], file["c"] = np.zeros(3), np.full(2, value)
    found = agreement.weight_differences(*paths)
    assert found == {"equal": False, "largest_difference": 0.5}
    assert agreement.weight_differences(paths[0], paths[0])["equal"]
