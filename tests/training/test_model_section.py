"""The kinds of models that a run config may name."""

import re

import pytest

from keras_transformer.config import KINDS
from keras_transformer.errors import InputError
from keras_transformer.training import load_config

pytestmark = pytest.mark.no_backend

DATA = "data: {train: [{source: a.en, target: a.de}]}\n"


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path)

    return load_text


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_own_fields_and_presets(load, kind):
    config = load(DATA + f"model: {{kind: {kind}, preset: tiny, dropout: 0.2}}")
    expected = KINDS[kind].from_preset("tiny", vocabulary_size=9, dropout=0.2)
    assert config.translation_config(9, 9) == expected
    assert config.model["kind"] == kind
    assert load(config.to_yaml()) == config
    phrasebook = load_config(None, [f"model.kind={kind}"])
    packs = phrasebook.data.packing is not None
    assert packs == (kind == "transformer")
    assert phrasebook.translation_config(1000, 1000).num_decoder_layers == 2
    assert phrasebook.model.get("normalize_first", True)  # where the kind has it


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{kind: [1]}", r"model\.kind: \[1\] is not available; use transformer, recur"),
        ("{kind: recurrent, num_heads: 8}", r"num_heads: it is one of kind transf"),
        ("{kind: recurrent, preset: big}", "expected one of tiny, base, got 'big'"),
        ("{kind: recurrent, pad_id: 1}", r"model\.pad_id is decided by the tokenizer"),
        ("{kind: convolutional, kernel_size: 4}", "4 is even, .* use an odd kernel_s"),
    ],
)
def test_a_fault_is_one_sentence_of_the_kind(load, model, message):
    with pytest.raises(InputError) as error:
        load(f"{DATA}model: {model}")
    assert re.search(message, str(error.value))
    assert "\n" not in str(error.value)
