"""Optimizers and learning rate schedules that a run config can ask for."""

import digit_text
import keras
import numpy as np
import pytest
from small_run import CONFIG
from small_run import assert_equal_runs
from small_run import terminating_at

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models.weights import weight_values
from keras_transformer.training import LinearWarmup
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.config.training_section import TrainingSection
from keras_transformer.training.model import make_optimizer
from keras_transformer.training.model import schedule
from keras_transformer.training.moving_average import averaged
from keras_transformer.training.moving_average import keep_weights

NAMES = ["adam", "adamw", "adafactor"]
WARMUP, STEPS, PEAK = 200, 1000, 4e-3


def reference_rate(name, number):
    """The learning rate of update `number`, from 1."""
    if name == "cosine":  # of Keras, which counts from 0
        number = number - 1
        progress = max(number - WARMUP, 0) / (STEPS - WARMUP)
        falling = 0.5 * (1 + np.cos(np.pi * progress))
    elif name == "inverse_square_root":
        falling = (WARMUP / number) ** 0.5
    elif name == "linear":
        falling = (STEPS + 1 - number) / (STEPS + 1 - WARMUP)
    else:
        falling = 1.0
    return PEAK * min(number / WARMUP, falling)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "name", ["inverse_square_root", "cosine", "linear", "constant"]
)
def test_a_schedule_rises_to_its_peak_and_falls_as_its_name_says(name):
    training = TrainingSection(
        steps=STEPS, warmup_steps=WARMUP, learning_rate=PEAK, schedule=name
    )
    rate = schedule(training, TransformerConfig(vocabulary_size=10))
    again = type(rate).from_config(rate.get_config())
    for number in (1, 100, WARMUP, WARMUP + 1, 600, STEPS):
        expected = reference_rate(name, number)
        assert float(rate(number - 1)) == pytest.approx(expected, 1e-5, abs=1e-9)
        assert float(again(number - 1)) == float(rate(number - 1))
    peak = np.argmax([float(rate(step)) for step in range(WARMUP + 2)])
    assert peak == WARMUP - (name != "cosine")


@pytest.mark.one_backend
def test_a_linear_schedule_is_nothing_after_the_last_step():
    assert float(LinearWarmup(1.0, 2, steps=5)(5)) == 0.0
    assert float(LinearWarmup(1.0, 2, steps=5)(9)) == 0.0
    assert float(LinearWarmup(1.0, 8, steps=4)(3)) == 0.5  # which is still rising
    with pytest.raises(ValueError, match="warmup_steps must be at least 1, got 0"):
        LinearWarmup(1.0, 0)


@pytest.mark.one_backend
def test_adafactor_has_a_peak_of_its_own():
    config = TransformerConfig(vocabulary_size=10)
    for name in ("inverse_square_root", "constant"):
        training = TrainingSection(optimizer={"name": "adafactor"}, schedule=name)
        assert float(schedule(training, config)(3999)) == pytest.approx(0.01)
        training = TrainingSection(schedule=name)
        peak = (512 * 4000) ** -0.5
        assert float(schedule(training, config)(3999)) == pytest.approx(peak)


def small_model():
    keras.utils.set_random_seed(1)
    config = TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=24,
        hidden_dim=16,
        intermediate_dim=24,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        use_bias=True,
        output_bias=True,
        dropout=0.1,
    )
    return Transformer(config)


def small_batches():
    """Rows whose target is their source."""
    ids = np.random.default_rng(1).integers(3, 24, (8, 6)).astype("int32")
    start = np.ones_like(ids[:, :1])
    target = np.concatenate([start, ids[:, :-1]], axis=1)
    return {"source": ids, "target": target}, ids


def compiled(model, **fields):
    fields = {"warmup_steps": 2, "learning_rate": 0.01, **fields}
    training = TrainingSection(**fields)
    model.compile(
        optimizer=keep_weights(make_optimizer(training, model)),
        loss=LabelSmoothedCrossEntropy(0.1),
    )
    model.micro_batches = training.micro_batches
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.mark.one_backend
@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_learns_with_all_that_goes_with_it(name):
    """Clipping, gradient accumulation, a moving average, frozen weights."""
    model = small_model()
    for layer in model.layers:
        layer.trainable = "encoder_" not in layer.name
    decay = {} if name == "adam" else {"weight_decay": 0.1}
    rate = 0.05 if name == "adafactor" else 0.01
    compiled(
        model,
        learning_rate=rate,
        schedule="constant",
        optimizer={"name": name, **decay},
        clip_norm=1.0,
        micro_batches=2,
        ema=0.5,
    )
    before = weight_values(model)
    inputs, labels = small_batches()
    history = model.fit(inputs, labels, batch_size=8, epochs=25, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    after = weight_values(model)
    for key, value in before.items():
        assert np.array_equal(after[key], value) == ("encoder_" in key)
    with averaged(model):
        means = weight_values(model)
    assert any(np.any(means[key] != after[key]) for key in after)


@pytest.mark.one_backend
def test_weight_decay_leaves_biases_and_normalizations_alone():
    """A step without gradients but with a learning rate changes what decays alone."""
    for name in ("adamw", "adafactor"):
        model = compiled(
            small_model(),
            optimizer={"name": name, "weight_decay": 0.5},
            warmup_steps=1,
            schedule="constant",
        )
        optimizer = model.optimizer
        zeros = [keras.ops.zeros(v.shape) for v in model.trainable_variables]
        for variable in model.trainable_variables:
            variable.assign(np.ones(variable.shape, "float32"))
        optimizer.apply(zeros, model.trainable_variables)
        for variable in model.trainable_variables:
            stays = any(word in variable.path for word in ("bias", "gamma", "beta"))
            expected = 1.0 if stays else 1.0 - 0.01 * 0.5
            value = backends.to_numpy(variable)
            np.testing.assert_allclose(value, expected, 1e-6, err_msg=variable.path)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["adamw", "adafactor"])
def test_a_run_goes_on_bit_for_bit_with_the_state_of_its_optimizer(
    name, tmp_path, monkeypatch
):
    digit_text.write_files(tmp_path, "train", 60)
    digit_text.write_files(tmp_path, "val", 3, seed=2)
    (tmp_path / "small.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    options = [f"training.optimizer.name={name}", "training.schedule=linear"]
    options += ["training.optimizer.weight_decay=0.1"]
    train(load_config("small.yaml", [*options, "output=whole"]))
    config = load_config("small.yaml", [*options, "output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(3))
        with pytest.raises(running.Interrupted):
            train(config)
    train(config)
    assert_equal_runs(tmp_path / "stopped", tmp_path / "whole")
