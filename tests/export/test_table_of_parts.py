"""The table of parts and formats in the tutorial says what the exports do."""

import re
import typing
from pathlib import Path

import pytest

import keras_transformer as kt
from keras_transformer.config.positions import POSITIONS
from keras_transformer.config.translation import TranslationConfig
from keras_transformer.errors import InputError
from keras_transformer.export import ctranslate2_spec
from keras_transformer.models import positions

README = Path(__file__).parents[2] / "tutorials" / "deployment" / "README.md"
OWN = "a name of your own"
#: A value other than the paper's, of parts that are switched on or given a number.
OTHER = {
    "attention_window": 2,
    "num_key_value_heads": 2,
    "decoder_intermediate_dim": 64,
    "decoder_num_heads": 4,
    "decoder_num_key_value_heads": 1,
    "decoder_head_dim": 32,
    "decoder_value_dim": 16,
}
#: Fields that are numbers of a part, or of training, and no part.
NUMBERS = {
    *("intermediate_dim", "num_heads", "head_dim", "value_dim"),
    *("attention_dropout", "activation_dropout", "position_offset", "rotary_base"),
    *("num_relative_buckets", "max_relative_distance"),
}
#: Fields of every kind of model that are parts.
SHARED = {"tie_embeddings", "scale_embeddings", "output_bias"}
pytestmark = pytest.mark.one_backend


def rows():
    """Field, value or None, and what is said of each format."""
    text = README.read_text(encoding="utf-8")
    (table,) = re.findall(
        r"\| \| SavedModel, ONNX, LiteRT \| CTranslate2 \|\n\|---.*\n((?:\|.*\n)+)",
        text,
    )
    for line in table.splitlines():
        name, *formats = (cell.strip() for cell in line.strip("|").split("|"))
        fields, _, values = name.partition(":")
        for field in re.findall(r"`(\w+)`", fields):
            for value in re.findall(r"`(\w+)`|([a-z ]{6,})", values) or [()]:
                yield field, "".join(value).strip() or None, formats


def test_each_part_has_a_row_with_each_of_its_values():
    written = [(field, value) for field, value, _ in rows()]
    fields = kt.TransformerConfig.model_fields
    parts = (fields.keys() - TranslationConfig.model_fields.keys() - NUMBERS) | SHARED
    named = positions._OF_THIS_PACKAGE  # other tests register more
    expected = {("position", name) for name in [*named, OWN]}
    for field in parts - {"position"}:
        values = typing.get_args(fields[field].annotation)
        if not values or not isinstance(values[0], str):
            values = (None,)
        expected |= {(field, value) for value in values}
    assert len(written) == len(set(written))
    assert set(written) == expected


def test_ctranslate2_has_what_the_table_says_and_refuses_the_rest_by_name(monkeypatch):
    monkeypatch.setitem(POSITIONS, OWN, lambda config: 0)
    for field, value, (others, in_ctranslate2) in rows():
        assert others == "yes"  # shown by numbers, in the tests of each format
        if value is None:
            default = kt.TransformerConfig.model_fields[field].default
            value = OTHER.get(field, not default)
        config = kt.TransformerConfig(vocabulary_size=99, **{field: value})
        if in_ctranslate2 == "yes":
            ctranslate2_spec.check_config(config)
            continue
        assert in_ctranslate2 == "no"
        with pytest.raises(InputError, match=f"does not have {field} {value}; export"):
            ctranslate2_spec.check_config(config)
