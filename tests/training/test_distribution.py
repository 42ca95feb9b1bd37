"""What is refused, and what is told, before any device is split."""

import contextlib
import functools
import typing

import keras
import pytest

from keras_transformer import backends
from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.config.training_section import DISTRIBUTIONS
from keras_transformer.training.config.training_section import DistributionName
from keras_transformer.training.distribution import WorkerLost
from keras_transformer.training.distribution import open_distribution

BACKEND = keras.backend.backend()
OWN = [kind for kind, backend in DISTRIBUTIONS.items() if backend == BACKEND]


def message(kind, devices="all"):
    with pytest.raises(InputError) as caught, open_distribution(kind, devices):
        pytest.fail("was opened")
    return str(caught.value)


def test_a_config_names_each_distribution_that_has_a_backend():
    assert typing.get_args(DistributionName) == ("none", *DISTRIBUTIONS)


def test_alone_is_one_replica_of_one_process():
    with open_distribution() as distribution:
        assert distribution == Distribution(1, 0, 1, (0, 1), float)
        assert distribution.is_chief
        assert distribution.any(True) and not distribution.any(False)
        assert distribution.max(-2.5) == distribution.chiefs(-2.5) == -2.5
    assert "needs a distribution" in message("none", 2)
    for kind in OWN:
        assert kind in message("none", 2)


@pytest.mark.one_backend
@pytest.mark.parametrize("index", [0, 1])
def test_processes_wait_for_texts_as_long_as_it_takes(project, index):
    """A limit of minutes would end those that wait for a large corpus."""
    waits = []

    def largest(kind, number):
        waits.append(kind)
        return number

    distribution = Distribution(
        process_index=index,
        num_processes=2,
        max=functools.partial(largest, "minutes"),
        patient_max=functools.partial(largest, "hours"),
    )
    config = load_config(project / "small.yaml", [f"output={project / 'run'}"])
    build_parts(config, distribution, lambda text: None)
    # For the files of the chief, then for what each of the others makes itself.
    assert waits[:2] == ["hours", "hours"]
    assert "hours" not in waits[2:]


@pytest.mark.parametrize("kind", sorted(set(DISTRIBUTIONS) - set(OWN)))
def test_a_kind_of_another_backend_is_refused(kind):
    text = message(kind)
    assert f"belongs to the {DISTRIBUTIONS[kind]} backend" in text
    assert f"the {BACKEND} backend" in text
    assert all(own in text for own in OWN)


def test_an_unknown_kind_is_refused():
    assert "distribution horovod: unknown" in message("horovod")


@pytest.mark.skipif(BACKEND != "torch", reason="torchrun")
def test_torchrun_must_have_started_the_process(monkeypatch):
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert "torchrun --nproc-per-node" in message("torchrun")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert "torchrun started 2 processes here" in message("torchrun", 3)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TF_CONFIG")
@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "[]",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
        '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
    ],
)
def test_workers_must_be_named(monkeypatch, text):
    if text is None:
        monkeypatch.delenv("TF_CONFIG", raising=False)
    else:
        monkeypatch.setenv("TF_CONFIG", text)
    found = message("multi_worker")
    assert ("is not set" if text is None else repr(text)) in found
    assert 'TF_CONFIG=\'{"cluster"' in found


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution")
def test_processes_must_be_told_completely(monkeypatch):
    monkeypatch.setenv("KERAS_DISTRIBUTION_JOB_ADDRESSES", "a:1")
    found = message("data_parallel")
    assert "KERAS_DISTRIBUTION_JOB_ADDRESSES=a:1" in found
    assert "KERAS_DISTRIBUTION_PROCESS_ID=0 keras-transformer" in found
    monkeypatch.setenv("KERAS_DISTRIBUTION_NUM_PROCESSES", "2")
    monkeypatch.setenv("KERAS_DISTRIBUTION_PROCESS_ID", "2")
    assert "each with a different process id" in message("model_parallel")


@pytest.mark.skipif(BACKEND == "torch", reason="devices of one process")
def test_devices_that_are_not_there_are_refused():
    keras.Variable(0.0)  # the backend has started, with few devices
    kind = {"tensorflow": "mirrored", "jax": "data_parallel"}[BACKEND]
    assert "has started with" in message(kind, 64)


@pytest.mark.skipif(BACKEND == "torch", reason="devices of one process")
def test_one_device_is_a_distribution_too():
    kind = {"tensorflow": "mirrored", "jax": "data_parallel"}[BACKEND]
    with open_distribution(kind, 1) as distribution:
        assert distribution.num_replicas == distribution.num_processes == 1
        assert distribution.part == (0, 1)


def test_only_what_tells_of_a_lost_peer_is_translated(monkeypatch):
    kind = OWN[0]

    def fail(error, num_processes):
        @contextlib.contextmanager
        def several(devices):
            yield Distribution(num_processes=num_processes)

        monkeypatch.setitem(backends.distributions, kind, several)
        with open_distribution(kind):
            raise error

    lost = RuntimeError("[gloo] Connection closed by peer")
    with pytest.raises(WorkerLost, match="another process") as caught:
        fail(lost, 2)
    assert caught.value.__cause__ is lost
    with pytest.raises(RuntimeError, match="gloo"):
        fail(lost, 1)
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError("division by zero"), 2)
    with pytest.raises(InputError, match="peer"):
        fail(InputError("peer review is missing"), 2)
    with pytest.raises(ConnectionRefusedError):  # of a callback that logs, say
        fail(ConnectionRefusedError("connection refused by a tracker"), 2)
