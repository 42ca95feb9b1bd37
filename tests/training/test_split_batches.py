"""A batch that is split over devices trains as the whole one does.

Each set-up runs `devices_program.py`, plain `fit` and `evaluate`, in fresh processes.
The shares of every batch hold very different numbers of tokens, so that a mean of
means would be wrong.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

pytestmark = pytest.mark.slow

BACKEND = keras.backend.backend()
PROGRAM = ["-m", "tests.training.devices_program"]
LIMIT = 300  # seconds, after which a process hangs
#: Of several processes.
KIND = {"tensorflow": "multi_worker", "jax": "data_parallel", "torch": "torchrun"}[
    BACKEND
]

tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")
jax = pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution")
torch = pytest.mark.skipif(BACKEND != "torch", reason="torch.distributed")


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def environments(count=2):
    """Of processes of this backend that meet."""
    first, *_ = ports = free_ports(count)
    all_of_them = {
        "tensorflow": {},
        "jax": {
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"127.0.0.1:{first}",
            "KERAS_DISTRIBUTION_NUM_PROCESSES": str(count),
        },
        "torch": {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(first),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
        },
    }[BACKEND]
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    for index in range(count):
        task = {"type": "worker", "index": index}
        own = {
            "tensorflow": {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})},
            "jax": {"KERAS_DISTRIBUTION_PROCESS_ID": str(index)},
            "torch": {"RANK": str(index), "LOCAL_RANK": str(index)},
        }[BACKEND]
        yield {**os.environ, "OMP_NUM_THREADS": "1", **all_of_them, **own}


@contextlib.contextmanager
def started(commands_and_environments):
    """Processes, none of which outlives the block."""
    root = Path(__file__).parents[2]
    processes = []
    try:
        for command, environment in commands_and_environments:
            processes.append(
                subprocess.Popen(
                    [sys.executable, *command],
                    cwd=root,
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                )
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def finish(processes, limit=LIMIT):
    """Output of each; fails where one of them does."""
    outputs = []
    for process in processes:
        outputs.append(process.communicate(timeout=limit))
        if process.returncode:
            pytest.fail(f"exit code {process.returncode}\n{outputs[-1][1]}")
    return outputs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains under a set-up; gives what each process ends with."""
    folder = tmp_path_factory.mktemp("trained")

    def train(kind, devices, *variants, several=0):
        path = folder / f"{kind}-{devices}-{several}"
        command = [*PROGRAM, kind, str(devices), str(path), *variants]
        single = {**os.environ, "OMP_NUM_THREADS": "1"}
        where = list(environments(several)) if several else [single]
        with started([(command, environment) for environment in where]) as processes:
            finish(processes, limit=max(several, 2) * LIMIT / 2)
        ends = []
        for rank in range(len(where)):
            with np.load(f"{path}-{rank}.npz") as arrays:
                ends.append(dict(arrays))
        return ends

    return train


@pytest.fixture(scope="module")
def alone(trained):
    (end,) = trained("none", "all")
    return end


def assert_equal(end, alone, num_replicas, variants=("weighted", "parts")):
    assert end.pop("num_replicas") == num_replicas
    expected = {key: v for key, v in alone.items() if key.startswith(variants)}
    assert end.keys() == expected.keys()
    for key, value in expected.items():
        # Sums of logs are rounded at their own size; the weights' bound is absolute.
        rtol = 2e-6 if "/logs/" in key else 0
        np.testing.assert_allclose(end[key], value, rtol, atol=1e-6, err_msg=key)


@tensorflow
def test_two_mirrored_replicas_equal_one(trained, alone):
    (end,) = trained("mirrored", 2)
    assert_equal(end, alone, 2)


@tensorflow
def test_two_workers_of_tensorflow_equal_one_though_the_chief_is_late(trained, alone):
    for end in trained("multi_worker", "all", "late", "parts", several=2):
        assert_equal(end, alone, 2, ("parts",))


@jax
def test_two_devices_of_jax_equal_one(trained, alone):
    (end,) = trained("data_parallel", 2)
    assert_equal(end, alone, 2)


@jax
def test_devices_of_jax_that_share_the_weights_equal_one(trained, alone):
    (end,) = trained("model_parallel", 4, "parts")
    assert_equal(end, alone, 1, ("parts",))


#: `test_run_on_devices.py` has several processes that share the weights, too.
PROCESSES_OF_JAX = [("data_parallel", 4), ("model_parallel", 2)]
if not os.environ.get("EVERY_TEST"):
    PROCESSES_OF_JAX = PROCESSES_OF_JAX[:1]


@jax
@pytest.mark.parametrize(("kind", "num_replicas"), PROCESSES_OF_JAX)
def test_two_processes_of_jax_equal_one(trained, alone, kind, num_replicas):
    """Of which, with `data_parallel`, the chief comes late to the first meeting."""
    late = ["late"] if kind == "data_parallel" else []
    for end in trained(kind, 2, *late, "parts", several=2):
        assert_equal(end, alone, num_replicas, ("parts",))


@torch
def test_two_processes_of_torchrun_equal_one_though_the_chief_is_late(alone, tmp_path):
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [*PROGRAM, "torchrun", "2", str(tmp_path / "end"), "late"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with started([(command, environment)]) as processes:
        finish(processes)
    for rank in range(2):
        with np.load(tmp_path / f"end-{rank}.npz") as end:
            assert_equal(dict(end), alone, 2)


@pytest.mark.skipif(
    "EIGHT_PROCESSES" not in os.environ,
    reason="needs EIGHT_PROCESSES: takes minutes",
)
def test_eight_processes_equal_one(trained, alone):
    devices = 1 if BACKEND == "jax" else "all"
    for end in trained(KIND, devices, "parts", several=8):
        assert_equal(end, alone, 8, ("parts",))


def test_the_number_of_devices_changes_neither_batches_nor_weights(tmp_path):
    """With dropout, and rows that no number of devices divides."""
    numbers = [8, 4, 3, 2, 1] if os.environ.get("EVERY_TEST") else [3, 1]
    kind = {"tensorflow": "mirrored", "jax": "data_parallel", "torch": "torchrun"}
    ports = free_ports(len(numbers))
    command = ["-m", "tests.training.device_numbers_program", kind[BACKEND]]
    command += [str(tmp_path / "end")]
    command += [f"{n}:{port}" for n, port in zip(numbers, ports, strict=True)]
    with started([(command, {**os.environ, "OMP_NUM_THREADS": "1"})]) as processes:
        finish(processes, limit=3 * LIMIT)
    ends = {}
    for number in numbers:
        with np.load(tmp_path / f"end-{number}.npz") as arrays:
            ends[number] = dict(arrays)
    alone = ends.pop(1)
    rows = alone.pop("rows")
    for number, end in ends.items():
        multiple = 6 if number == 3 else number  # three of two micro-batches each
        assert all(rows % number)
        np.testing.assert_array_equal(end["rows"], -(-rows // multiple) * multiple)
        for name, value in alone.items():
            np.testing.assert_allclose(end[name], value, 0, 1e-6, err_msg=name)


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(0, marks=pytest.mark.one_backend),
        pytest.param(1, marks=pytest.mark.one_backend("jax")),
    ],
)
def test_a_dead_worker_ends_the_others(tmp_path, victim):
    command = [*PROGRAM, KIND, "all", str(tmp_path / "none"), "endless"]
    pairs = [(command, environment) for environment in environments()]
    with started(pairs) as processes:
        for process in processes:
            assert "training\n" in iter(process.stdout.readline, "")
        processes[victim].send_signal(signal.SIGKILL)
        assert_ends(processes[1 - victim])


@pytest.mark.one_backend("tensorflow")
def test_a_worker_that_fails_ends_the_others(tmp_path):
    command = [*PROGRAM, KIND, "all", str(tmp_path / "none"), "fault"]
    with started([(command, environment) for environment in environments()]) as both:
        assert "training\n" in iter(both[0].stdout.readline, "")
        if BACKEND == "jax":  # which aborts it, with words of its own
            assert both[0].wait(timeout=60) != 0
        else:
            assert_ends(both[0])


def assert_ends(survivor):
    _, errors = survivor.communicate(timeout=60)
    assert survivor.returncode != 0
    assert "another process of this training has ended" in errors
