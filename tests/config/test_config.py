"""`TransformerConfig`: defaults, what it refuses and how it says so."""

import json
import re

import pydantic
import pytest

from keras_transformer.config import KINDS
from keras_transformer.config import PRESETS
from keras_transformer.config import TransformerConfig
from keras_transformer.config import TranslationConfig
from keras_transformer.config.faults import first_fault
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

V = {"vocabulary_size": 53}
OTHER_SOURCE = {"source_vocabulary_size": 59, "target_vocabulary_size": 53}


def test_defaults_that_depend_on_others():
    config = TransformerConfig(**V)
    assert (config.head_dim, config.value_dim, config.final_norm) == (64, 64, False)
    assert config.source_vocabulary_size == config.target_vocabulary_size == 53
    assert TransformerConfig(**V, normalize_first=True).final_norm
    assert not TransformerConfig(**V, normalize_first=True, final_norm=False).final_norm
    config = TransformerConfig(**V, hidden_dim=34, num_heads=3, head_dim=5, value_dim=7)
    assert (config.head_dim, config.value_dim) == (5, 7)
    config = TransformerConfig(**OTHER_SOURCE, tie_embeddings="target")
    assert config.vocabulary_size is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "model: vocabulary_size is missing; give it, or both"),
        ({"source_vocabulary_size": 53}, "model: vocabulary_size is missing"),
        ({**V, "num_heads": 7}, "num_heads 7 does not divide hidden_dim 512; choose"),
        (OTHER_SOURCE, 'the source has 59 entries and the target 53; use "target"'),
        (
            {**V, "hidden_dim": 33, "num_heads": 3},
            'hidden_dim 33 is odd, .* use an even hidden_dim or position "learned"',
        ),
        ({**V, "pad_id": 2}, r"\(2, 1, 2\) must lie .* pad_id must differ from end_id"),
        ({**V, "start_id": 53}, r"\(0, 53, 2\) must lie within the vocabulary of 53"),
        ({**V, "hidden_dim": 0}, "model.hidden_dim: .* greater than 0, got 0"),
        ({**V, "hidden_dim": "512"}, "model.hidden_dim: .* integer, got '512'"),
        ({**V, "hidden_dim": None}, "model.hidden_dim: .* integer, got None"),
        ({**V, "num_heads": -8}, "model.num_heads: .* greater than 0, got -8"),
        ({**V, "num_heads": 8.0}, "model.num_heads: .* integer, got 8.0"),
        ({**V, "dropout": 1.0}, "model.dropout: .* less than 1, got 1.0"),
        ({**V, "dropout": -0.1}, "model.dropout: .* greater than or equal to 0"),
        ({**V, "pad_id": -1}, "model.pad_id: .* greater than or equal to 0, got -1"),
        ({**V, "layer_norm_epsilon": 0.0}, "model.layer_norm_epsilon: .* got 0.0"),
        ({**V, "normalize_first": 1}, "model.normalize_first: .* boolean, got 1"),
        ({**V, "activation": "tanh"}, "model.activation: .*'relu', .* or 'swish'"),
        ({**V, "position": "cosine"}, "position must be .* learned,.* got 'cosine'"),
        ({**V, "num_key_value_heads": 3}, "num_key_value_heads 3 does not divide"),
        ({**V, "decoder_num_heads": 7}, "decoder_num_heads 7 does not divide"),
        ({**V, "position": "rotary", "head_dim": 5}, "head_dim 5 is odd"),
        (
            {**V, "position": "relative_buckets", "num_relative_buckets": 6},
            "num_relative_buckets must be a multiple of 4, got 6",
        ),
        (
            {**V, "position": "relative_buckets", "max_relative_distance": 16},
            "max_relative_distance must be more than half of the 32 buckets, got 16",
        ),
        ({**V, "deep_norm": True, "normalize_first": True}, "leave out one of them"),
        ({**V, "decoder": "gru"}, "model.decoder: .*'attention' or 'ssru', got 'gru'"),
        (
            {**V, "decoder": "ssru", "position": "rotary"},
            "position rotary works within self-attention, .* use sinusoidal, learned",
        ),
        (
            {**V, "decoder": "ssru", "attention_window": 3},
            "attention_window is a limit of self-attention, .* leave out one of them",
        ),
        ({**V, "tie_embeddings": True}, "model.tie_embeddings: .*'none', got True"),
        ({**V, "attention_window": 0}, "model.attention_window: .* got 0"),
        ({**V, "hiden_dim": 3}, "unknown key model.hiden_dim; .* 'hidden_dim'"),
        ({**V, "heads": 3}, "unknown key model.heads; did you mean 'num_heads'"),
        ({**V, "drop_out": 0.3}, "unknown key model.drop_out; did you mean 'dropout'"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(fields, message):
    with pytest.raises(InputError, match=message) as error:
        TransformerConfig.from_dict(fields)
    assert "\n" not in str(error.value)


def test_the_constructor_raises_a_value_error():
    with pytest.raises(ValueError, match="num_heads 7 does not divide"):
        TransformerConfig(**V, num_heads=7)


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_goes_through_json(name):
    config = TransformerConfig.from_preset(name, **V)
    fields = json.loads(json.dumps(config.model_dump()))
    assert TransformerConfig.from_dict(fields) == config


def test_a_config_with_two_vocabularies_goes_through_json():
    config = TransformerConfig(
        **OTHER_SOURCE, tie_embeddings="none", attention_window=3, position="learned"
    )
    fields = json.loads(json.dumps(config.model_dump()))
    assert TransformerConfig.from_dict(fields) == config


def test_a_config_is_frozen_and_hashable():
    config = TransformerConfig(**V)
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        config.hidden_dim = 34
    assert hash(config) == hash(TransformerConfig(**V))


@pytest.mark.parametrize("config", [*KINDS.values(), TranslationConfig])
def test_a_field_is_documented_once_and_its_sentence_goes_everywhere(config):
    schema = config.model_json_schema()["properties"]
    for name, field in config.model_fields.items():
        assert re.match(r"[A-Z].*\.$", field.description)
        assert schema[name]["description"] == field.description
        default = f"(default {field.default!r})."
        sentences = f"{name}: {field.description.removesuffix('.')} {default}"
        assert sentences in " ".join(config.__doc__.split())


def test_a_kind_inherits_the_sentences_of_a_field_unless_it_has_its_own():
    fields = KINDS["recurrent"].model_fields
    inherited = TranslationConfig.model_fields
    assert fields["num_encoder_layers"].default == 8
    assert inherited["num_encoder_layers"].default == 6
    same = fields["num_encoder_layers"], inherited["num_encoder_layers"]
    assert len({field.description for field in same}) == 1
    assert "an LSTM of the encoder has D / 2" in fields["hidden_dim"].description
    assert "LSTM" not in inherited["hidden_dim"].description
    assert KINDS["recurrent"].model_json_schema()["description"].endswith("Model`.")


def test_presets_take_any_field_and_refuse_other_names():
    config = TransformerConfig.from_preset("tiny", **V, dropout=0.1)
    assert (config.hidden_dim, config.num_encoder_layers, config.dropout) == (
        128,
        4,
        0.1,
    )
    message = "unknown preset 'medium'; expected one of tiny, base, big"
    with pytest.raises(InputError, match=message):
        TransformerConfig.from_preset("medium", **V)
    with pytest.raises(InputError, match="did you mean 'hidden_dim'"):
        TransformerConfig.from_preset("tiny", **V, hidden=34)


def test_a_fault_is_named_with_its_path():
    class Outer(pydantic.BaseModel):
        model: TransformerConfig

    with pytest.raises(pydantic.ValidationError) as error:
        Outer(model={**V, "num_layer": 2})
    message = first_fault(error.value, Outer, "file.yaml")
    assert message.startswith(
        "unknown key file.yaml.model.num_layer; did you mean 'num_"
    )


# === The other kinds ===


@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_have_about_as_many_weights(kind):
    """The comparison of the paper is one of equal sizes."""
    for preset, vocabulary_size in (("tiny", 10_000), ("base", 37_000)):
        sizes = [
            its.from_preset(preset, vocabulary_size=vocabulary_size).num_weights
            for its in (KINDS[kind], TransformerConfig)
        ]
        assert abs(sizes[0] / sizes[1] - 1.0) < 0.1, (preset, sizes)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("recurrent", {}, "model: vocabulary_size is missing; give it, or both"),
        ("recurrent", OTHER_SOURCE, "the source has 59 entries and the target 53; us"),
        ("recurrent", {**V, "hidden_dim": 7}, "hidden_dim 7 is odd, .* use an even"),
        (
            "recurrent",
            {**V, "attention": "bahdanau"},
            "model.attention_scoring: .* 'none'",
        ),
        (
            "recurrent",
            {**V, "attention": "none", "attention_scoring": "none"},
            "attention is the old name of attention_scoring; give attention_scoring al",
        ),
        (
            "recurrent",
            {**V, "pad_id": 2},
            r"\(2, 1, 2\) must lie .* differ from end_id",
        ),
        (
            "recurrent",
            {**V, "attentoin": 1},
            "attentoin; did you mean 'attention_scoring'",
        ),
        (
            "convolutional",
            {**V, "hidden_dim": 7},
            "hidden_dim 7 is odd, .* use an even",
        ),
        ("convolutional", {**V, "kernel_size": 1}, "greater than or equal to 3, got 1"),
        ("convolutional", {**V, "kernel_size": 4}, "kernel_size 4 is even, .* an odd"),
        ("convolutional", {**V, "max_dilation": 48}, "not a power of two; use 32"),
        ("convolutional", {**V, "max_dilation": 1024}, "or equal to 512, got 1024"),
        (
            "convolutional",
            {**V, "attention_scoring": "none"},
            "model.attention_scoring: .*got 'none'",
        ),
    ],
)
def test_what_other_kinds_refuse(kind, fields, message):
    with pytest.raises(InputError, match=message):
        KINDS[kind].from_dict(fields)
    with pytest.raises(InputError, match="unknown preset 'big'; expected one of tiny"):
        KINDS[kind].from_preset("big", **V)


def test_dilations_double_and_begin_again():
    config = KINDS["convolutional"](**V, max_dilation=4)
    assert config.dilations(5) == [1, 2, 4, 1, 2]
    assert KINDS["convolutional"](**V).dilations(3) == [1, 1, 1]
