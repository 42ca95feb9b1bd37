"""Fine-tuning: a run that begins with a model folder, whatever its ids are."""

import json

import foreign_folder
import pytest
import yaml

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

CONFIG = """
model: {folder: trained}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 64}
training: {steps: 2, warmup_steps: 1, learning_rate: 0.01, checkpoint_every: 1}
output: tuned
"""


@pytest.fixture
def project(config_file):
    """The folder of the small run, with a config that goes on with `trained`."""
    (config_file.parent / "tune.yaml").write_text(CONFIG)
    return config_file.parent


@pytest.mark.parametrize("family", foreign_folder.IDS)
def test_a_run_keeps_ids_tokenizers_and_decoding_of_its_folder(project, family):
    before = foreign_folder.write("trained", family, beam_size=3, max_length=6)
    assert tuple(before.model.config.special_ids.values()) == foreign_folder.IDS[family]
    assert before.model.config.tie_embeddings == "all"
    config = load_config("tune.yaml", ["decoding.beam_size=2"])
    assert load_config("tune.yaml", ["decoding.beam_size=2"]) == config
    train(config)
    stored = load_config("tuned/config.yaml")
    assert stored.model_copy(update={"output": config.output}) == config
    after = kt.Translator.load("tuned/averaged")
    assert after.model.config == before.model.config
    assert after.tokenizer.model == before.tokenizer.model
    assert after.target_tokenizer.model == before.target_tokenizer.model
    assert after.decoding == before.decoding.updated({"beam_size": 2})


def test_a_run_of_before_goes_on_with_the_decoding_that_it_began_with(project):
    """Versions that took no decoding options from a folder wrote no ids, either."""
    foreign_folder.write("trained", "marian", beam_size=3, max_length=6)
    train(load_config("tune.yaml"))
    stored = yaml.safe_load((project / "tuned" / "config.yaml").read_text())
    for name in ("pad_id", "start_id", "end_id"):
        del stored["model"][name]
    stored["decoding"] |= {"beam_size": 4}
    del stored["decoding"]["max_length"]
    (project / "tuned" / "config.yaml").write_text(yaml.safe_dump(stored))
    for steps in (3, 4):
        train(load_config("tune.yaml", [f"training.steps={steps}"]))
        found = kt.Translator.load("tuned/averaged").decoding
        assert found == kt.decoding.DecodingOptions()
    train(load_config("tune.yaml", ["training.steps=5", "decoding.beam_size=6"]))
    assert kt.Translator.load("tuned/averaged").beam_size == 6


def test_a_folder_whose_config_and_tokenizers_differ_is_refused(project):
    foreign_folder.write("trained", "nllb")
    path = project / "trained" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["start_id"] = 0
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"'start_id': 2.* its model has .*_id': 0"):
        train(load_config("tune.yaml"))
