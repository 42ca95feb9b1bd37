"""The seam between loss and devices: a split batch trains as the whole one does.

Each set-up runs plain `fit` in fresh processes. The halves of every batch hold very
different numbers of tokens, so that a mean of means would be wrong.
"""

import concurrent.futures
import socket

import keras
import numpy as np
import pytest

BACKEND = keras.backend.backend()
# So many rows that no weight has a gradient of the size of its rounding errors, which
# Adam would blow up.
STEPS, ROWS = 20, 32

TRAIN = """
import os
import keras
import numpy as np
from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy

STEPS, ROWS = {steps}, {rows}
{set_up}

def batches():
    rng = np.random.default_rng(0)
    def ids(*lengths):
        table = rng.integers(3, 23, (STEPS, ROWS, 9))
        ends = np.concatenate([rng.integers(*low_high, (STEPS, ROWS // 2))
                               for low_high in lengths], axis=1)
        return np.where(np.arange(9) < ends[..., None], table, 0).astype("int32")
    source, labels = ids((2, 9), (2, 9)), ids((7, 10), (1, 3))
    target = np.concatenate([np.ones_like(labels[..., :1]), labels[..., :-1]], axis=-1)
    mask = (labels != 0).astype("float32")
    weights = mask / mask.sum((1, 2), keepdims=True)  # the whole batch's tokens
    return source, target, labels, weights

def train(weighted):
    keras.utils.set_random_seed(0)
    config = TransformerConfig.from_preset(
        "tiny", vocabulary_size=23, hidden_dim=16, intermediate_dim=32, num_heads=2,
        num_encoder_layers=2, num_decoder_layers=2, dropout=0.0)
    with scope():
        model = Transformer(config)
        model.compile(
            optimizer=keras.optimizers.Adam(1e-3, beta_2=0.98, epsilon=1e-9),
            loss=LabelSmoothedCrossEntropy(0.1), weighted_metrics=[])
    start = model.get_weights()
    arrays = [own_rows(array) for array in batches()]
    size = arrays[0].shape[1]
    source, target, labels, weights = [a.reshape(-1, a.shape[-1]) for a in arrays]
    model.fit(
        {{"source": source, "target": target}}, labels,
        sample_weight=weights if weighted else None,
        batch_size=size, epochs=1, shuffle=False, verbose=0)
    assert model.optimizer.iterations == STEPS
    assert model._fused
    moved = [abs(a - b).max() for a, b in zip(start, model.get_weights())]
    assert min(moved) > 1e-3, moved
    return model.get_weights()

for name, weighted in (("weighted", True), ("plain", False)):
    np.savez({path!r} + name, *train(weighted))
"""

ALONE = """
import contextlib
scope = contextlib.nullcontext
def own_rows(array):
    return array
"""

MIRRORED = (
    ALONE
    + """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
scope = strategy.scope
"""
)

DATA_PARALLEL = (
    ALONE
    + """
import jax
assert jax.device_count() == 2
keras.distribution.set_distribution(keras.distribution.DataParallel())
"""
)

PROCESSES = (
    ALONE
    + """
import datetime
import torch
torch.distributed.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank = torch.distributed.get_rank()
assert torch.distributed.get_world_size() == 2
def own_rows(array):
    half = ROWS // 2
    return array[:, rank * half : (rank + 1) * half]
"""
)


@pytest.fixture(scope="module")
def trained(run_python, tmp_path_factory):
    """Runs training under a set-up; gives the weights it ends with, by name."""
    folder = tmp_path_factory.mktemp("weights")

    def train(set_up, name, env=None):
        path = str(folder / f"{name}-")
        code = TRAIN.format(set_up=set_up, path=path, steps=STEPS, rows=ROWS)
        run_python(code, env={"OMP_NUM_THREADS": "1", **(env or {})})
        weights = {}
        for kind in ("weighted", "plain"):
            with np.load(f"{path}{kind}.npz") as arrays:
                weights[kind] = list(arrays.values())
        return weights

    return train


@pytest.fixture(scope="module")
def alone(trained):
    return trained(ALONE, "alone")


def assert_equal(actual, expected):
    for kind in ("weighted", "plain"):
        for one, other in zip(actual[kind], expected[kind], strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6, err_msg=kind)


def test_weights_of_the_data_side_are_the_mean_per_token(alone):
    assert_equal({"weighted": alone["plain"], "plain": alone["plain"]}, alone)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")
def test_two_mirrored_replicas_equal_one(trained, alone):
    assert_equal(trained(MIRRORED, "mirrored"), alone)


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution")
def test_two_devices_of_jax_equal_one(trained, alone):
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    assert_equal(trained(DATA_PARALLEL, "data-parallel", flags), alone)


@pytest.mark.skipif(BACKEND != "torch", reason="torch.distributed")
def test_two_processes_of_pytorch_equal_one(trained, alone):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = [
        {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        for rank in range(2)
    ]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        names = [f"process-{rank}" for rank in range(2)]
        ends = list(pool.map(trained, [PROCESSES] * 2, names, variables))
    for end in ends:
        assert_equal(end, alone)
