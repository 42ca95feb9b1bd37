"""`gpu/agreement.py` at toy size, and how numbers are compared."""

import subprocess

import h5py
import numpy as np
import pytest
from gpu import agreement

SETTINGS = {"size": "toy", "steps": 1, "beam": 2, "seed": 1, "deterministic": False}


@pytest.mark.one_backend
@pytest.mark.slow
def test_one_device_agrees_with_itself(ours, run_benchmark):
    name = f"{ours.removeprefix('ours, ')}, float32"
    arguments = ["--size", "toy", "--steps", 1, "--beam", 2, "--deterministic"]
    output, found = run_benchmark("gpu.agreement", *arguments, "--only", name)
    ((ran, parts),) = found["runs"].items()
    assert ran == name and parts["training"]["equal"]
    assert parts["CPU, float32"]["logits"] == 0
    assert parts["CPU, float32"]["largest_logit"] > 0
    assert f"| {name} | CPU, float32 |" in output and f"| {name} | yes |" in output


@pytest.fixture
def processes(monkeypatch):
    """`[(module, environment, seconds)]` of those that would have been started."""
    started = []
    monkeypatch.setenv("PATH", "")  # without nvidia-smi

    def run(command, env, timeout=None, **_):
        module = command[2]
        started.append((module, env, timeout))
        if module == "peers.outputs" and timeout <= 1:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 0, "1.5\n")

    monkeypatch.setattr(subprocess, "run", run)
    return started


@pytest.mark.no_backend
def test_what_takes_too_long_is_named_and_left_out(processes, monkeypatch, capsys):
    arguments = ["agreement", "--size", "toy", "--minutes", "0", "--only", "JAX"]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(agreement, "installed", lambda *_: True)
    agreement.main()
    assert len(processes) == 3
    errors = capsys.readouterr().err.splitlines()
    assert errors == [
        "JAX, float32: did not end, left out",
        "JAX, bfloat16: did not end, left out",
    ]


@pytest.mark.no_backend
@pytest.mark.parametrize("deterministic", [False, True])
def test_trainings_are_without_tf32(processes, monkeypatch, tmp_path, deterministic):
    monkeypatch.setenv("XLA_FLAGS", "--of_the_user")
    settings = {**SETTINGS, "deterministic": deterministic}
    runs = agreement.Runs(settings, tmp_path, agreement.Clock(1))
    assert runs.trained(agreement.JAX, "float32", 1)[1] == 1.5
    (_, host, _), (_, environment, seconds) = processes
    assert host["JAX_PLATFORMS"] == "cpu" and 1 < seconds <= 60
    assert environment["KERAS_BACKEND"] == "jax"
    assert environment["NVIDIA_TF32_OVERRIDE"] == "0"
    assert environment["JAX_DEFAULT_MATMUL_PRECISION"] == "highest"
    ours = ["--xla_gpu_deterministic_ops=true"] if deterministic else []
    assert environment["XLA_FLAGS"].split() == ["--of_the_user", *ours]
    assert ("CUBLAS_WORKSPACE_CONFIG" in environment) == deterministic


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("dtype", "places"),
    [
        ("float32", ["device float32", "cpu float32"]),
        ("bfloat16", ["device bfloat16", "cpu bfloat16", "cpu float32"]),
    ],
)
def test_a_device_is_compared_with_the_cpu(
    processes, tmp_path, monkeypatch, dtype, places
):
    asked = []

    def computed(self, backend, dtype, place, weights):
        asked.append(f"{place} {dtype}")
        return asked[-1]

    monkeypatch.setattr(agreement.Runs, "computed", computed)
    monkeypatch.setattr(agreement, "weight_differences", lambda *_: {"equal": True})
    monkeypatch.setattr(agreement, "differences", lambda *pair: pair)
    found = agreement.Runs(SETTINGS, tmp_path, agreement.Clock(1)).of({}, dtype)
    assert asked == places
    assert found == {
        "training": {"equal": True, "losses": (1.5, 1.5)},
        **{f"CPU, {place[4:]}": (places[0], place) for place in places[1:]},
    }


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
