"""`batch_tokens: auto`: on memory that is known, and of a real model."""

import functools

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.backends import host_memory
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import run_opening
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.distribution import open_distribution
from keras_transformer.training.token_budget import find_batch_tokens

pytestmark = pytest.mark.one_backend
MODEL_BYTES, TOKEN_BYTES = 10**9, 10**5


class Steps:
    """A model that only counts the target tokens of its steps."""

    def train_on_batch(self, inputs, labels, weights):
        self.tokens = labels.size


@pytest.fixture
def find(monkeypatch):
    """The budget of a machine with so many bytes."""
    rows = kt.data.TokenRows.from_lists([[5] * (i % 30) for i in range(4000)])
    pairs, model = kt.data.EncodedPairs(rows, rows), Steps()
    batches = functools.partial(kt.data.TokenBatches, pairs, shuffle=False)

    def peak(step):
        step()
        return MODEL_BYTES + TOKEN_BYTES * model.tokens

    def find(limit, **options):
        monkeypatch.setattr(backends, "peak_memory", peak)
        monkeypatch.setattr(backends, "memory_limit", lambda: limit)
        make_batches = functools.partial(batches, **options)
        return find_batch_tokens(lambda: model, make_batches)

    return find


def test_it_is_what_four_fifths_of_the_memory_hold(find):
    found = find((MODEL_BYTES + TOKEN_BYTES * 10_000) / 0.8)
    assert 10_000 - 64 < found <= 10_000


def test_it_is_at_most_the_batch_of_the_paper(find):
    assert 25_000 - 64 < find(10**12) <= 25_000


def test_a_model_that_does_not_fit_is_refused(find):
    with pytest.raises(InputError, match="does not hold a training step of"):
        find(MODEL_BYTES)


@pytest.mark.parametrize("source_tokens", [None, 9000, 10**6])
def test_any_shape_may_be_the_one_that_needs_the_most(monkeypatch, source_tokens):
    """As where each row takes memory, however short it is."""
    lengths = np.random.default_rng(0).integers(1, 40, (2, 4000))
    rows = [kt.data.TokenRows.from_lists([[5] * n for n in side]) for side in lengths]
    batches = functools.partial(
        kt.data.TokenBatches, kt.data.EncodedPairs(*rows), shuffle=False
    )

    def needed(shape):
        rows, S, T = shape
        return MODEL_BYTES + TOKEN_BYTES * rows * (S + T + 30)

    class Model:
        def train_on_batch(self, inputs, labels, weights):
            shapes.append((*inputs["source"].shape, labels.shape[1]))

    def peak(step):
        step()
        return needed(shapes[-1])

    limit, shapes = 2 * MODEL_BYTES, []
    monkeypatch.setattr(backends, "peak_memory", peak)
    monkeypatch.setattr(backends, "memory_limit", lambda: limit / 0.8)
    make_batches = functools.partial(batches, batch_source_tokens=source_tokens)
    found = find_batch_tokens(Model, make_batches, source_tokens=source_tokens)
    most = [needed(shape) for shape in make_batches(found).shapes]
    assert 0.8 * limit < max(most) <= limit
    assert most.index(max(most)) > 0  # not the longest sentences
    assert set(make_batches(4096).shapes) <= set(shapes)


def test_where_many_rows_belong_together_one_batch_is_all_that_is_tried(find):
    """As many rows as there are devices and parts may be more than either trial."""
    rows = {"rows_multiple_of": 1000}
    assert 25_000 - 64 < find(10**12, **rows) <= 25_000
    with pytest.raises(InputError, match="step of 30000 source and 30000 target"):
        find(MODEL_BYTES, **rows)


def test_a_peak_that_does_not_rise_is_no_sign_of_endless_memory(find, monkeypatch):
    """As where the peak of a whole life is all that is known, and compiling had it."""
    monkeypatch.setattr(backends, "peak_memory", lambda step: step() or MODEL_BYTES)
    limit = 2 * MODEL_BYTES / 0.8
    rows = kt.data.TokenRows.from_lists([[5] * 15] * 4000)
    batches = functools.partial(
        kt.data.TokenBatches, kt.data.EncodedPairs(rows, rows), shuffle=False
    )
    monkeypatch.setattr(backends, "memory_limit", lambda: limit)
    assert 7900 < find_batch_tokens(Steps, batches) <= 2 * 4096


KINDS = {"tensorflow": "mirrored", "jax": "data_parallel"}


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() not in KINDS, reason="processes of torchrun"
)
def test_a_real_model_is_tried_and_leaves_the_devices_as_they_were(config_file):
    kind = KINDS[keras.backend.backend()]
    settings = f"training.distribution={kind}", "training.devices=1"
    config = load_config(config_file, ["data.batch_tokens=auto", *settings])
    told = []
    with run_opening.opened(config) as folder, open_distribution(kind, 1) as devices:
        parts = build_parts(config, devices, told.append)
        if kind == "data_parallel":
            scope = keras.distribution.distribution()
            assert isinstance(scope, keras.distribution.DataParallel)
        else:
            assert parts.translator.model.distribute_strategy.num_replicas_in_sync == 1
    found = (folder / "batch_tokens").read_text().strip()
    assert f"data.batch_tokens: {found} found" in told
    assert int(found) >= parts.batches.num_tokens and len(parts.batches) == 1


def test_a_group_and_each_around_it_may_limit_the_memory(tmp_path, monkeypatch):
    """As Slurm, systemd and Kubernetes have them: not in the root alone."""
    group, groups = tmp_path / "cgroup", tmp_path / "groups"
    (groups / "job" / "step").mkdir(parents=True)
    group.write_text("0::/job/step\n")
    monkeypatch.setattr(host_memory, "_GROUP", group)
    monkeypatch.setattr(host_memory, "_GROUPS", groups)
    machine = host_memory.memory_limit()
    for folder, limit in ((groups, "max"), (groups / "job", "12345")):
        (folder / "memory.max").write_text(f"{limit}\n")
    assert host_memory.memory_limit() == 12345 < machine
    (groups / "job" / "step" / "memory.max").write_text("678")
    assert host_memory.memory_limit() == 678


@pytest.mark.each_backend
def test_the_peak_is_that_of_the_function_alone():
    if keras.backend.backend() == "torch" and _has_gpu():
        pytest.skip("counts the memory of the GPU")
    before = backends.peak_memory(lambda: None)
    held = backends.peak_memory(lambda: np.ones(2**25).sum())  # 256 MiB
    after = backends.peak_memory(lambda: None)
    assert held - before > 200 * 2**20
    assert held - after > 200 * 2**20
    assert 0 < held < backends.memory_limit()


def _has_gpu():
    import torch

    return torch.cuda.is_available()
