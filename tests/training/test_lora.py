"""LoRA in a run: adapters learn, checkpoints keep them, models have them merged."""

import digit_text
import foreign_folder
import keras
import numpy as np
import pytest
from small_run import assert_equal
from small_run import assert_equal_runs
from small_run import assert_mean
from small_run import terminating_at
from small_run import weights_of

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.models.weights import merged
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import run as runs
from keras_transformer.training import train
from keras_transformer.training.corpora import load_tokenizers
from keras_transformer.training.model import compiled_model
from keras_transformer.training.run_state import restored
from reference.weights import numpy

CONFIG = """
model: {folder: trained}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 128}
training: {steps: 4, warmup_steps: 1, learning_rate: 0.05, checkpoint_every: 2,
           lora: {rank: 2, alpha: 4}, average_last: 1}
output: tuned
"""
INPUTS = {"source": np.array([[260, 261, 0]]), "target": np.array([[272, 262, 263]])}


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """The weights of a folder that the config goes on with."""
    monkeypatch.chdir(tmp_path)
    digit_text.write_files(tmp_path, "train", 30)
    (tmp_path / "tune.yaml").write_text(CONFIG)
    foreign_folder.write("trained", "marian", beam_size=1, max_length=6)
    return weights_of(tmp_path / "trained")


def with_adapters(config):
    """The model of a run at its newest checkpoint, adapters apart."""
    model = compiled_model(config, load_tokenizers(config.tokenizer, config.output))
    restored(config, model, lambda text: None)
    return model


@pytest.mark.one_backend
def test_the_saved_model_is_that_of_the_adapters(trained):
    """Within 1e-5; all but the projections have stayed as they were."""
    config = load_config("tune.yaml", ["training.steps=2"])
    train(config)
    checkpoint = weights_of(config.output / "checkpoints" / "step-0000002")
    adapters = {name for name in checkpoint if "_lora_" in name}
    # A and B of four projections of three attentions, and of two of two other layers.
    assert len(adapters) == 2 * (4 * 3 + 2 * 2)
    assert_equal({n: a for n, a in checkpoint.items() if n not in adapters}, trained)
    model = with_adapters(config)
    assert {w.path for w in model.trainable_weights} == adapters
    expected = numpy(model(INPUTS))
    saved = kt.Translator.load("tuned/averaged").model
    np.testing.assert_allclose(numpy(saved(INPUTS)), expected, atol=1e-5)
    untuned = kt.Translator.load("trained").model
    assert np.abs(numpy(untuned(INPUTS)) - expected).max() > 1e-3


@pytest.mark.one_backend
def test_a_run_with_adapters_resumes_to_the_last_bit(trained, monkeypatch):
    options = ["training.micro_batches=2", "training.remat=true"]
    options += ["training.average_last=2", "training.freeze=[encoder]"]
    config = load_config("tune.yaml", [*options, "output=whole"])
    train(config)
    with monkeypatch.context() as patch:
        patch.setattr(runs, "Progress", terminating_at(3))
        with pytest.raises(runs.Interrupted):
            train(load_config("tune.yaml", [*options, "output=stopped"]))
    stopped = load_config("tune.yaml", [*options, "output=stopped"])
    train(stopped)
    assert_equal_runs(stopped.output, config.output)
    # The mean is one of models, not of adapters; `average` gives the same.
    steps = [config.output / "checkpoints" / f"step-000000{step}" for step in (2, 4)]
    parts = [merged(weights_of(step), 2.0) for step in steps]
    assert_mean(weights_of(config.output / "averaged"), parts)
    average("whole", 2, "mean")
    mean = weights_of(config.output.parent / "mean")
    assert_equal(mean, weights_of(config.output / "averaged"))
    adapted = {n.split("/")[0] for n in weights_of(steps[0]) if "_lora_" in n}
    assert adapted == {"decoder_0"}


@pytest.mark.one_backend
def test_adapters_go_with_mixed_precision_and_a_moving_average(trained):
    options = ["training.precision=mixed_bfloat16", "training.average_last="]
    config = load_config("tune.yaml", [*options, "training.ema=0.5"])
    train(config)
    model = with_adapters(config)
    means = model.optimizer._model_variables_moving_average
    for weight, mean in zip(model.trainable_variables, means, strict=True):
        weight.assign(numpy(mean))
    expected = {path: numpy(w) for path, w in model.merged_weights().items()}
    saved = kt.Translator.load("tuned/averaged").model
    for weight in saved.weights:
        assert numpy(weight).dtype == "float32"
        np.testing.assert_allclose(numpy(weight), expected[weight.path], atol=1e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["training.lora.kernels=[gate]"],
            r"matrix 'gate_kernel'; .*inner",
        ),
        (
            ["training.freeze=[encoder, decoder]"],
            r"that may have none; .* freeze",
        ),
        (["training.lora.rank=0"], r"training\.lora\.rank"),
        (["training.lora.kernels=[queries]"], r"training\.lora\.kernels"),
        (["model={preset: tiny}"], r"training\.lora adapts a trained model"),
    ],
)
def test_adapters_that_cannot_learn_are_refused(trained, options, message):
    keras.utils.set_random_seed(1)
    with pytest.raises(InputError, match=message) as error:
        train(load_config("tune.yaml", options))
    assert "\n" not in str(error.value)
