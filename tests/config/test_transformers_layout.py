"""Where weights stand in files of `transformers`: all of them, and back bit for bit."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

import keras_transformer as kt
from keras_transformer.config import TransformerConfig
from keras_transformer.config.transformers_layout import CLASSES
from keras_transformer.config.transformers_layout import Layout
from keras_transformer.config.transformers_layout import model_class
from keras_transformer.errors import InputError
from keras_transformer.models.weights import weight_values
from reference import transformers_classes
from reference.weights import randomize

pytestmark = pytest.mark.one_backend

SMALL = transformers_classes.SMALL
CONFIGS = transformers_classes.CONFIGS


def weights_of(layout, tensors):
    return {
        placement.weight: layout.to_ours(placement, tensors[placement.tensors[-1]])
        for placement in layout.placements
        if layout.is_own(placement)
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_every_weight_goes_and_comes_back_bit_for_bit(name):
    expected, fields = CONFIGS[name]
    model = randomize(kt.Transformer({**SMALL, **fields}))
    layout = Layout(model.config)
    assert layout.model_class.name == expected
    values = weight_values(model)
    tensors = dict(layout.tensors(values))
    assert layout.of_file(tensors.get) is layout
    found = weights_of(layout, tensors)
    assert found.keys() == values.keys()
    for path, value in values.items():
        np.testing.assert_array_equal(found[path], value, err_msg=path)


def test_biases_that_were_trained_elsewhere_come_back_as_weights():
    model = randomize(kt.Transformer(SMALL))
    layout = Layout(model.config)
    tensors = dict(layout.tensors(weight_values(model)))
    tensors["model.decoder.layers.0.encoder_attn.k_proj.bias"] += 1.0
    tensors["final_logits_bias"] += 2.0
    found = layout.of_file(tensors.get)
    assert found.config.use_bias
    assert found.config.output_bias
    weights = weights_of(found, tensors)
    assert weights["decoder_0/cross_attention/key_bias"][0] == 1.0
    assert weights["decoder_0/self_attention/key_bias"][0] == 0.0
    assert weights["embedding/bias"][0] == 2.0


README = Path(__file__).parents[2] / "tutorials" / "deployment" / "README.md"


def documented():
    """Fields of a config, and the class that the tutorial says they become."""
    text = README.read_text(encoding="utf-8")
    (table,) = re.findall(r"\| becomes a \|\n\|---.*\n((?:\|.*\n)+)", text)
    for line in table.splitlines():
        fields, name = line.strip("|").split("|")
        pairs = re.findall(r"`(\w+: \w+)`", fields)
        yield name.strip(" `"), yaml.safe_load("\n".join(pairs))


@pytest.mark.no_backend
def test_the_tutorial_says_which_class_a_model_becomes():
    rows = list(documented())
    for name, fields in rows:
        assert model_class(TransformerConfig(vocabulary_size=99, **fields)).name == name
    assert [name for name, _ in rows] == [its.name for its in CLASSES]


#: Fields beside those of the paper, and what the message names.
REFUSED = {
    "position rotary": {"position": "rotary"},
    "position learned": {"position": "learned"},
    "position none": {"position": "none"},
    "position_offset 1": {"position_offset": 1},
    "normalization_layer rms": {"normalization_layer": "rms"},
    "layer_norm_epsilon 0.001": {"layer_norm_epsilon": 1e-3},
    "feed_forward gated": {"feed_forward": "gated"},
    "attention_scoring additive": {"attention_scoring": "additive"},
    "query_key_norm True": {"query_key_norm": True},
    "attention_window 2": {"attention_window": 2},
    "deep_norm True": {"deep_norm": True},
    "scale_logits True": {"scale_logits": True},
    "num_key_value_heads 1": {"num_key_value_heads": 1},
    "head_dim 5": {"head_dim": 5},
    "value_dim 5": {"value_dim": 5},
    "decoder_head_dim 5": {"decoder_head_dim": 5},
    "final_norm True": {"final_norm": True},
    "embedding_norm True": {"embedding_norm": True},
    "source_end False": {"source_end": False},
    "tie_embeddings target": {
        "tie_embeddings": "target",
        "normalize_first": True,
    },
}


@pytest.mark.no_backend
@pytest.mark.parametrize("named", REFUSED)
def test_what_no_class_has_is_refused_by_name(named):
    config = TransformerConfig(**{**SMALL, **REFUSED[named]})
    with pytest.raises(InputError, match=f"does not have .*{named}.*; export to"):
        model_class(config)


@pytest.mark.no_backend
def test_a_field_that_nobody_placed_is_refused_unless_it_is_the_default():
    class Newer(TransformerConfig):
        new_part: str = "usual"

    assert model_class(Newer(**SMALL)).name == "MarianMTModel"
    with pytest.raises(InputError, match="new_part unusual"):
        model_class(Newer(**SMALL, new_part="unusual"))
