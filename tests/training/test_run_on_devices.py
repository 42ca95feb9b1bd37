"""`train` on several devices and processes ends as it does on one."""

import os
import signal
import socket
import subprocess
import sys
import time

import digit_text
import keras
import numpy as np
import pytest

from keras_transformer.models.weights import read_arrays
from keras_transformer.training.checkpoints import list_checkpoints

pytestmark = pytest.mark.slow

BACKEND = keras.backend.backend()
CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 270, split_digits: true}
data: {train: [{tsv: train.tsv}], validation: {tsv: validation.tsv},
       test: {tsv: validation.tsv}, batch_tokens: 256, workers: 1}
training: {steps: 6, warmup_steps: 20, learning_rate: 0.01, validate_every: 4,
           checkpoint_every: 2, average_last: 3}
decoding: {beam_size: 2, max_length: 6}
"""


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def mirrored():
    return ["mirrored", "training.devices=2"], [{}]


def multi_worker():
    workers = ", ".join(f'"127.0.0.1:{port}"' for port in free_ports(2))
    cluster = f'"cluster": {{"worker": [{workers}]}}'
    tasks = [f'"task": {{"type": "worker", "index": {i}}}' for i in range(2)]
    return ["multi_worker"], [{"TF_CONFIG": f"{{{cluster}, {t}}}"} for t in tasks]


def model_parallel():
    return ["model_parallel", "training.devices=2"], [{}]


def two_processes():
    """Each with two devices, which share the weights."""
    (port,) = free_ports(1)
    prefix = "KERAS_DISTRIBUTION_"
    common = {"JOB_ADDRESSES": f"127.0.0.1:{port}", "NUM_PROCESSES": "2"}
    each = [{**common, "PROCESS_ID": index} for index in "01"]
    variables = [{prefix + name: value for name, value in v.items()} for v in each]
    return ["model_parallel", "training.devices=2"], variables


def torchrun():
    (port,) = free_ports(1)
    common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    common["MASTER_PORT"] = str(port)
    ranks = [{"RANK": rank, "LOCAL_RANK": rank, **common} for rank in "01"]
    return ["torchrun"], ranks


# A process that is killed takes the others with it: `test_split_batches.py`.
ENDS = {
    "tensorflow": [(mirrored, signal.SIGTERM), (multi_worker, signal.SIGKILL)],
    "jax": [(two_processes, signal.SIGKILL), (model_parallel, signal.SIGTERM)],
    "torch": [(torchrun, signal.SIGTERM, signal.SIGKILL)],
}[BACKEND]
ENDS = ENDS if os.environ.get("EVERY_TEST") else ENDS[:1]


def start(folder, options, variables=None):
    overrides = [part for option in options for part in ("--set", option)]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "keras_transformer.cli.main"),
            *("train", "small.yaml", *overrides),
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def ended(processes):
    """Exit codes and what they said."""
    try:
        said = ["\n".join(process.communicate(timeout=300)) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    (folder / "small.yaml").write_text(CONFIG)
    # Of one shape: each of these processes compiles, `test_split_batches.py` has two.
    digit_text.write_tsv(folder / "train.tsv", 200, digits=(5,))
    digit_text.write_tsv(folder / "validation.tsv", 3, seed=2, digits=(5,))
    codes, said = ended([start(folder, ["output=one"])])
    assert codes == [0], said
    return folder


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end[0].__name__)
def test_stopped_and_resumed_on_several_devices_it_ends_as_on_one(end, folder):
    set_up, *signals = end
    if not os.environ.get("EVERY_TEST"):
        signals = signals[:1]
    output = set_up.__name__
    for number in signals:
        (kind, *options), variables = set_up()
        options = [f"training.distribution={kind}", *options, f"output={output}"]
        before = list_checkpoints(folder / output)
        processes = [start(folder, options, each) for each in variables]
        deadline = time.monotonic() + 200
        while list_checkpoints(folder / output) == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        processes[-1].send_signal(number)
        codes, said = ended(processes)
        if number == signal.SIGTERM:
            assert set(codes) <= {0, 128 + signal.SIGTERM}, said
        else:
            assert codes[-1] in (0, -signal.SIGKILL), said
    _, variables = set_up()
    codes, said = ended([start(folder, options, each) for each in variables])
    assert set(codes) == {0}, said
    # Only the chief talks, and what it says is of all of them.
    assert "test BLEU = " in said[0]
    assert not any("test BLEU" in text for text in said[1:])
    one, other = (
        read_arrays(folder / run / "averaged" / "model.weights.h5")
        for run in ("one", output)
    )
    # Where a gradient is nearly 0, Adam makes its rounding large: 2e-5 was seen.
    for name, array in one.items():
        np.testing.assert_allclose(other[name], array, rtol=0, atol=1e-4)
