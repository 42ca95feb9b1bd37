"""The conventions of toolkits: what they set, and what goes before them."""

import re

import pytest
from small_run import CONFIG

from keras_transformer import Transformer
from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.training import TrainingSection
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import difference
from keras_transformer.training.config.conventions import CONVENTIONS

DATA = {"phrasebook": "en-de"}
TOOLKITS = [name for name in CONVENTIONS if name != "paper"]


def run_config(name, **sections):
    return RunConfig(**{"data": DATA, "model": {}, **sections}, conventions=name)


def changed(name, **sections):
    """Keys and values that a name changes, of the sections as they are kept."""
    before, after = run_config(None, **sections), run_config(name, **sections)
    lines = [line.partition(": ") for line in difference(before, after)]
    return {key: values.partition(" -> ")[2] for key, _, values in lines}


@pytest.mark.no_backend
def test_the_papers_are_the_defaults():
    assert run_config("paper") == run_config(None)


@pytest.mark.no_backend
@pytest.mark.parametrize("name", TOOLKITS)
def test_conventions_are_written_out(name):
    """Each default of the table is in the config; no other key but what follows."""
    config, toolkit = run_config(name), CONVENTIONS[name]
    assert {key: config.model[key] for key in toolkit.model} == toolkit.model
    assert config.decoding == DecodingOptions(**toolkit.decoding)
    optimizer = toolkit.training.get("optimizer", {})
    expected = {f"training.optimizer.{key}" for key in optimizer}
    expected |= {f"training.{key}" for key in {**toolkit.training, "learning_rate": 0}}
    expected |= {f"model.{key}" for key in toolkit.model}
    if "normalize_first" in toolkit.model:
        expected.add("model.final_norm")
    if name == "fairseq":
        expected.remove("training.warmup_steps")  # is the paper's
    assert changed(name).keys() == expected - {"training.optimizer"}
    # In the run folder are the keys, so that another table changes no run.
    assert "conventions" not in config.plain()
    assert RunConfig.model_validate(config.plain()) == config


@pytest.mark.no_backend
@pytest.mark.parametrize("name", ["tensor2tensor", "opennmt"])
def test_a_rate_follows_the_width_and_the_warm_up(name):
    """The peak is twice the paper's, D^-0.5 * warmup_steps^-0.5."""
    assert run_config(name).training.learning_rate == pytest.approx(
        2 * 512**-0.5 * 8000**-0.5
    )
    narrow = run_config(
        name, model={"preset": "tiny"}, training={"warmup_steps": 100}
    ).training
    assert narrow.learning_rate == pytest.approx(2 * 128**-0.5 * 100**-0.5)
    given = run_config(name, training={"learning_rate": 0.01}).training
    assert given.learning_rate == 0.01


@pytest.mark.no_backend
def test_keys_and_presets_go_before_conventions():
    config = run_config(
        "fairseq",
        model={"preset": "big", "position": "rotary", "use_bias": False},
        training={"warmup_steps": 7, "optimizer": {"epsilon": 1e-6}},
        decoding={"beam_size": 2, "normalization": None},
    )
    assert config.model["dropout"] == TransformerConfig.presets["big"]["dropout"]
    assert (config.model["position"], config.model["use_bias"]) == ("rotary", False)
    assert config.model["tie_embeddings"] == "target"
    assert config.training.warmup_steps == 7
    assert config.training.optimizer.epsilon == 1e-6
    assert config.training.optimizer.weight_decay == 1e-4
    assert (config.decoding.beam_size, config.decoding.normalization) == (2, "power")
    assert run_config("fairseq", model={"preset": "base"}).model["dropout"] == 0.3


@pytest.mark.no_backend
def test_sections_may_be_objects():
    """What was not given to them is filled in, as where they are keys."""
    given = TrainingSection(steps=5), DecodingOptions(beam_size=2)
    objects = run_config("marian", training=given[0], decoding=given[1])
    keys = run_config("marian", training={"steps": 5}, decoding={"beam_size": 2})
    assert objects == keys
    assert objects.training.learning_rate == 3e-4


@pytest.mark.no_backend
def test_another_optimizer_keeps_what_is_its_own():
    """Adafactor's rates are of another kind, and Adam has no weight decay."""
    adafactor = {"optimizer": {"name": "adafactor"}}
    for name in TOOLKITS:
        training = run_config(name, training=adafactor).training
        assert training == TrainingSection(
            **adafactor, warmup_steps=training.warmup_steps
        )
    adam = run_config("fairseq", training={"optimizer": {"name": "adam"}}).training
    assert (adam.optimizer.epsilon, adam.optimizer.weight_decay) == (1e-8, None)
    assert adam.learning_rate == 5e-4


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["conventions=moses"], "one of paper, tensor2tensor, .*, got 'moses'"),
        (["conventions=[marian]"], r"conventions: expected one of .*, got \['marian'"),
        (
            ["conventions=marian", "model.kind=recurrent"],
            "of kind transformer, ",
        ),
        (
            ["conventions=paper", "model={folder: x}"],
            "names a trained one",
        ),
        (["conventions=marian", "training=3"], r"training: expected .*, got 3"),
        (["conventions=opennmt", "training.optimizer=3"], r"optimizer: .*, got 3"),
        (["conventions=opennmt", "training.warmup_steps=a"], r"warmup_steps: .* 'a'"),
        (["conventions=fairseq", "decoding=3"], r"decoding: expected .*, got 3"),
    ],
)
def test_a_fault_is_one_sentence(overrides, message):
    with pytest.raises(InputError) as error:
        load_config(None, overrides)
    assert re.search(message, str(error.value)), error.value
    assert "\n" not in str(error.value)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_model_learns_and_its_run_goes_on(config_file, name, capsys):
    config_file.write_text(CONFIG.replace("steps: 6", "steps: 2"))
    texts = ["data.validation=null", "data.test=null"]
    config = load_config(config_file, [f"conventions={name}", *texts])
    model = Transformer(config.translation_config(270, 270))
    assert model.count_params() == model.config.num_weights
    train(config)
    assert "step 2/2" in capsys.readouterr().err
    kept = load_config(config.output / "config.yaml")
    assert kept == config
    train(config)
    assert "finished already" in capsys.readouterr().err
    other = next(other for other in reversed(CONVENTIONS) if other != name)
    with pytest.raises(InputError, match="begun with another config"):
        train(load_config(config_file, [f"conventions={other}", *texts]))
