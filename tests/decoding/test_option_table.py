"""Tests that a decoding option is defined once, and that all else follows from it."""

import ast
import inspect
from pathlib import Path

import pytest
import typer

import keras_transformer
from keras_transformer.cli.main import application
from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.training.config import RunConfig

PACKAGE = Path(keras_transformer.__file__).parent
NAMES = list(OPTIONS)


@pytest.fixture(scope="module")
def commands():
    return typer.main.get_command(application()).commands


@pytest.mark.no_backend
def test_each_option_is_a_flag_a_key_and_documented(commands):
    assert list(DecodingOptions.model_fields) == NAMES
    described = DecodingOptions.model_json_schema()["properties"]
    flags = {p.name: p for p in commands["translate"].params}
    for name, option in OPTIONS.items():
        assert f"--{name.replace('_', '-')}" in flags[name].opts
        # One text, of which the help of the flag is the first sentence.
        assert flags[name].help.startswith(option.help)
        assert option.text.startswith(option.help)
        assert described[name]["description"] == option.text
        assert f"\n    {name}: {option.help.split()[0]} " in DecodingOptions.__doc__


@pytest.mark.no_backend
@pytest.mark.parametrize("name", NAMES)
def test_an_option_is_a_key_of_a_run_and_has_its_default_where_nobody_gives_it(name):
    data, default = {"phrasebook": "en-de"}, OPTIONS[name].default
    given = [] if default == () else default
    for decoding in ({name: given}, {}):
        config = RunConfig(model={"preset": "tiny"}, data=data, decoding=decoding)
        assert getattr(config.decoding, name) == default


@pytest.mark.no_backend
@pytest.mark.parametrize("value", [3, None])
def test_an_unknown_option_is_refused_by_name(value):
    with pytest.raises(InputError, match="beam_sise; did you mean 'beam_size'"):
        DecodingOptions().updated({"beam_sise": value})
    with pytest.raises(InputError, match="beam_sise; did you mean 'beam_size'"):
        DecodingOptions.check_each({"beam_sise": value})


@pytest.mark.no_backend
def test_values_out_of_bounds_are_refused_whatever_the_other_options():
    DecodingOptions.check_each({"top_k": 3, "temperature": 0.5, "mbr_candidates": 7})
    with pytest.raises(InputError, match=r"^top_k: .* greater than or equal to 0, got"):
        DecodingOptions.check_each({"temperature": 0.5, "top_k": -1})


@pytest.mark.no_backend
def test_what_stands_for_a_number_in_a_program_is_a_value_but_not_the_default():
    for name, option in OPTIONS.items():
        if option.stand_in is not None:
            assert option.compiled
            assert option.stand_in != option.default
            DecodingOptions.check_each({name: option.stand_in})


@pytest.mark.one_backend
def test_searches_have_the_defaults_of_the_options():
    from keras_transformer import decoding
    from keras_transformer.decoding.logits_processors import chain

    searches = decoding.beam_search, decoding.greedy_search, decoding.sample, chain
    seen = set()
    for search in searches:
        for name, parameter in inspect.signature(search).parameters.items():
            if name in OPTIONS and parameter.default is not parameter.empty:
                assert parameter.default == OPTIONS[name].default, (search, name)
                seen.add(name)
    assert {"length_penalty", "patience", "top_p", "min_length"} <= seen


# === Exports ===


@pytest.mark.no_backend
def test_the_program_of_an_export_has_the_defaults_of_the_options():
    """It stands alone, and an older `model.json` lacks what was no option then."""
    text = (PACKAGE / "export" / "programs" / "translate.py").read_text("utf-8")
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
    }
    earliest = {"beam_size", "length_penalty", "suppressed_tokens"}
    exported = {n: o for n, o in OPTIONS.items() if o.exports != "none"}
    assert constants["DEFAULTS"] == {
        name: option.default
        for name, option in exported.items()
        if name not in earliest
    }
    needs_beams = {name for name in GREEDY if name in exported} - {"beam_size"}
    assert set(constants["_OF_BEAMS"]) == needs_beams


@pytest.mark.no_backend
def test_no_export_passes_over_an_option_that_it_should_have():
    def words(*names):
        texts = [(PACKAGE / name).read_text("utf-8") for name in names]
        return "".join(texts)

    programs = "export/programs/"
    own = words(*(f"{programs}{n}.py" for n in ("translate", "search", "rules")))
    foreign = words(f"{programs}translate.py", f"{programs}ctranslate2_engine.py")
    served = words("engines/library.py", "serving/ctranslate2_engine.py")
    of_a_server = {"top_beams", "long_lines"}  # which has them from its clients
    for name, option in OPTIONS.items():
        if name == "suppressed_tokens":  # ids.suppressed
            continue
        used = f'["{name}"]'
        if option.exports != "none":
            assert used in own, name
        if option.exports == "every":
            assert used in foreign, name
            assert f"search.{name}" in served or name in of_a_server, name


# === Another option ===

#: What a new option needs beside its use in the search: an entry.
ENTRY = """
import dataclasses
from typing import Annotated
from annotated_types import Interval
from keras_transformer import decoding_options as table

@dataclasses.dataclass(kw_only=True, eq=False)
class More(table.OptionTable):
    epsilon: Annotated[float, Interval(ge=0.0, le=1.0)] = table._option(
        0.0, "Draw no token below E. None is as good.", letter="E",
        search="sampling", stand_in=0.5,
    )

table.OptionTable, table.OPTIONS = More, table.options_of(More)
"""
USE = """
import types
import typer
from keras_transformer.cli.main import application
from keras_transformer.config.decoding import GREEDY, DecodingOptions
from keras_transformer.decoding.numbers import as_inputs
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.training.config import RunConfig, difference

def refusal(function, *arguments):
    try:
        function(*arguments)
    except InputError as error:
        print(error)

command = typer.main.get_command(application()).commands["translate"]
(flag,) = (p for p in command.params if p.name == "epsilon")
print(*flag.opts, flag.metavar, flag.help)
options = DecodingOptions(sampling=True, epsilon=0.25)
print(options.updated(GREEDY).changed())
refusal(DecodingOptions.of, {"sampling": True, "epsilon": 2.0})
refusal(DecodingOptions.of, {"epsilon": 0.25})
refusal(DecodingOptions.of, {"sampling": True, "epsilo": 0.25})
program, numbers = as_inputs(options)
print(program.epsilon, float(numbers["epsilon"]))
runs = [
    RunConfig(model={"preset": "tiny"}, data={"phrasebook": "en-de"}, decoding=decoding)
    for decoding in ({}, {"sampling": True, "epsilon": 0.5})
]
print(difference(*runs))
refusal(checks.decoding_options, "onnx", types.SimpleNamespace(decoding=options), {})
"""
SAID = """\
--epsilon E Draw no token below E.
{'beam_size': 1}
epsilon: Input should be less than or equal to 1, got 2.0
epsilon 0.25 needs sampling; turn it on
unknown key epsilo; did you mean 'epsilon'?
0.5 0.25
[]
the format onnx has no sampling, epsilon; give --no-sampling --epsilon 0 to export \
without it
"""


@pytest.mark.one_backend
def test_a_new_option_is_one_entry(run_python):
    """A flag, a key, a check, an input of the program, a refusal of each export."""
    assert run_python(ENTRY + USE) == SAID
