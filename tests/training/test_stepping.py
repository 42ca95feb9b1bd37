"""The steps of a run, whose batches are built ahead by a thread."""

import threading
from pathlib import Path

import digit_text
import pytest
from small_run import assert_equal_runs
from small_run import terminating_at

from keras_transformer.data import TokenBatches
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train


@pytest.mark.one_backend
def test_a_stop_loses_no_batch_that_was_built_ahead(config_file, monkeypatch):
    threads = threading.active_count()
    options = ["data.bpe_dropout=0.2", "training.validate_every=100"]
    options.append("training.checkpoint_every=100")
    train(load_config(config_file, [*options, "output=whole"]))

    built, take = threading.Semaphore(0), TokenBatches.__getitem__

    def noted(self, index):
        batch = take(self, index)
        if index >= 4:
            built.release()
        return batch

    class Late(terminating_at(3)):
        def on_train_batch_end(self, batch, logs=None):
            if self.step == 2:  # batches 3 and 4 wait when the signal comes
                assert built.acquire(timeout=60)
            super().on_train_batch_end(batch, logs)

    stopped = load_config(config_file, [*options, "output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(TokenBatches, "__getitem__", noted)
        patch.setattr(running, "Progress", Late)
        with pytest.raises(running.Interrupted, match="at step 3"):
            train(stopped)
    assert threading.active_count() == threads
    train(stopped)
    assert_equal_runs(Path("stopped"), Path("whole"))


def test_a_batch_that_cannot_be_built_ends_the_run_with_its_error(
    config_file, monkeypatch
):
    """Also on TensorFlow, which replaces errors; the steps before it are trained."""
    take, steps = TokenBatches.__getitem__, []

    def broken(self, index):
        if index == 3:
            raise InputError("batch 4 cannot be read")
        return take(self, index)

    class Counting(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            steps.append(self.step)

    monkeypatch.setattr(TokenBatches, "__getitem__", broken)
    monkeypatch.setattr(running, "Progress", Counting)
    options = ["training.validate_every=100", "training.checkpoint_every=100"]
    config = load_config(config_file, options)
    with pytest.raises(InputError, match=r"^batch 4 cannot be read$"):
        train(config)
    assert steps == [1, 2, 3]


@pytest.mark.one_backend("jax")
def test_a_run_that_goes_on_compiles_nothing(config_file, tmp_path, monkeypatch):
    """JAX keeps the programs of a training on disk, where the commands keep them."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    digit_text.write_files(tmp_path, "train", 60, digits=(5,))  # of one shape
    counts = dict.fromkeys(("cache_hits", "cache_misses"), 0)

    def count(event, **_):
        name = event.removeprefix("/jax/compilation_cache/")
        if name in counts:
            counts[name] += 1

    settings = {
        "jax_compilation_cache_dir": str(tmp_path / "programs"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    jax.monitoring.register_event_listener(count)
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        options = ["data.validation=null", "data.test=null", "training.steps=3"]
        jax.clear_caches()
        train(load_config(config_file, [*options, "output=whole"]))
        assert counts["cache_misses"]

        stopped = load_config(config_file, [*options, "output=stopped"])
        with monkeypatch.context() as patch:
            patch.setattr(running, "Progress", terminating_at(1))
            with pytest.raises(running.Interrupted):
                train(stopped)
        jax.clear_caches()  # as a new process
        counts.update(cache_hits=0, cache_misses=0)
        train(stopped)
        assert counts["cache_hits"] and not counts["cache_misses"]
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
