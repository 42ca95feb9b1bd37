"""YAML as people write it, back and forth; one sentence for what is not YAML."""

import re

import pytest

from keras_transformer.errors import InputError
from keras_transformer.training.config import strict_yaml

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-3", 0.005),
        (".5", 0.5),
        ("1.5E+2", 150.0),
        ("0x1f", "0x1f"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("no", "no"),
        ("TRUE", True),
        ("~", None),
        ("", None),
        ("2026-01-31", "2026-01-31"),
        ("[1, 1.0, '1']", [1, 1.0, "1"]),
    ],
)
def test_words_and_numbers_of_yaml_1_2(text, value):
    found = strict_yaml.parse(text, "my.yaml")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "value", ["on", "1e5", "0x1f", "1:30", "012", "ü b", "", None, 1e-7, 2, [True]]
)
def test_what_is_written_is_read_back(value):
    text = strict_yaml.dump({"key": value})
    assert strict_yaml.parse(text, "my.yaml") == {"key": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 1", "my.yaml, line 2: not valid YAML: 'a' stands here twice"),
        ("data:\n  train: [", "my.yaml, line 2: not valid YAML"),
        ("b: 1\na: \x07", "my.yaml, line 2: not valid YAML"),
        ("x: !!python/name:os.system", "my.yaml, line 1: not valid YAML"),
        ("a: 1\n---\nb: 1", "my.yaml, line 2: not valid YAML"),
        ("[" * 3000, "my.yaml: not valid YAML: nested too deeply"),
        *(
            (f"a: !!{tag} b", "my.yaml: not valid YAML: a tag (!!) does not go with")
            for tag in ("int", "float", "bool", "timestamp")
        ),
    ],
)
def test_each_fault_is_one_sentence(text, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        strict_yaml.parse(text, "my.yaml")
    assert "\n" not in str(error.value)


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "my.yaml, line 6: aliases (*) repeat more than 262144 values"),
        ("a: &a [*a]", "my.yaml, line 1: an alias (*) stands for itself"),
        ("a: &a {b: *a}", "my.yaml, line 1: an alias (*) stands for itself"),
        ("a: " + "1" * 5000, "my.yaml, line 1: a number of 5000 digits"),
        ("a: !!int " + "1:" * 5000 + "1", "my.yaml, line 1: a number of 10001 digits"),
        ("a: !!omap [b: 1]", "my.yaml, line 1: the tag 'tag:yaml.org,2002:omap'"),
        ("- a\n" * 2**17, "my.yaml: a config has at most 131072 characters"),
    ],
    ids=["bomb", "list", "object", "digits", "base-60", "tag", "size"],
)
def test_what_costs_far_more_than_it_is_long_is_refused(text, message):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        strict_yaml.parse(text, "my.yaml")
    assert len(str(error.value)) < 200


def test_an_alias_repeats_a_value():
    found = strict_yaml.parse("a: &a [1, 2]\nb: *a\nc: [*a, *a]", "my.yaml")
    assert found == {"a": [1, 2], "b": [1, 2], "c": [[1, 2], [1, 2]]}
