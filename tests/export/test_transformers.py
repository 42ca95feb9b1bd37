"""The folder for `transformers`: its search options, its notes, what it refuses."""

import json
import warnings

import pytest

import keras_transformer as kt
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.transformers_layout import Layout
from keras_transformer.errors import InputError
from keras_transformer.export import transformers
from keras_transformer.importing import convert
from reference.fixture_folder import FOLDER

pytestmark = [pytest.mark.one_backend, pytest.mark.export]


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


@pytest.fixture
def exported(translator, tmp_path):
    """Exports with options; gives the contents of a file and what was warned of."""

    def export(name="generation_config.json", **options):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            folder = transformers.export(translator, tmp_path / "exported", **options)
        text = (folder / name).read_text(encoding="utf-8")
        notes = [str(w.message) for w in said if w.category is UserWarning]
        return json.loads(text) if name.endswith(".json") else text, notes

    return export


def test_search_options_become_those_of_transformers(translator, exported):
    (piece,) = translator.tokenizer.pieces([270])
    found, notes = exported(
        beam_size=4,
        top_beams=2,
        normalization="power",
        length_penalty=0.9,
        patience=1.0,
        min_length=3,
        max_length=8,
        no_repeat_ngram_size=2,
        suppressed_tokens=(piece, 261),
        forced_end=True,
    )
    assert found == {
        "suppress_tokens": [0, 1, 261, 270],
        "decoder_start_token_id": 1,
        "pad_token_id": 0,
        "eos_token_id": 2,
        "forced_eos_token_id": 2,
        "do_sample": False,
        "num_beams": 4,
        "num_return_sequences": 2,
        "length_penalty": 0.9,
        "early_stopping": True,
        "min_length": 3,
        "max_length": 9,  # with the start token
        "no_repeat_ngram_size": 2,
    }
    assert [note.partition(" ")[0] for note in notes] == ["layer_norm_epsilon"]


@pytest.mark.parametrize(
    ("options", "length_penalty"),
    [
        ({"normalization": "average"}, 1.0),
        ({"normalization": "none"}, 0.0),
        ({"normalization": "gnmt", "length_penalty": 0.7}, 0.7),
    ],
)
def test_scores_are_divided_by_a_power_of_the_length(exported, options, length_penalty):
    found, notes = exported(**options)
    assert found["length_penalty"] == length_penalty
    assert found["early_stopping"] == "never"
    said = any("has no normalization gnmt" in note for note in notes)
    assert said == (options["normalization"] == "gnmt")


def test_the_card_says_how_to_load_it_and_what_differs(exported):
    text, notes = exported("README.md", card="# Of a test")
    assert text.startswith("# Of a test\n\n# For transformers\n\nA `MarianMTModel`")
    for note in notes:
        assert f"* {note}\n" in text
    assert "layer_norm_epsilon is 1e-06 here and 1e-05" in notes[0]


def test_options_that_its_search_lacks_are_refused(translator, tmp_path):
    for options, message in {
        "patience 1.5": ({"patience": 1.5}, "has no patience 1.5; give --patience 1"),
        "sampling": ({"sampling": True}, "has no sampling; give --no-sampling"),
        "coverage": ({"coverage_penalty": 0.2}, "has no coverage_penalty; give"),
    }.values():
        with pytest.raises(InputError, match=message):
            transformers.export(translator, tmp_path / "exported", **options)
    assert not list(tmp_path.iterdir())


def test_options_known_words_and_tokenizers_come_back(translator, exported, tmp_path):
    exported(beam_size=3, normalization="average")
    convert(tmp_path / "exported", tmp_path / "returned")
    found = kt.Translator.load(tmp_path / "returned")
    assert found.decoding.changed() == {"beam_size": 3, "normalization": "average"}
    assert found.tokenizer.model == translator.tokenizer.model
    assert found.model.config == translator.model.config
    about = kt.config.about.About(name="a name", source_language="de")
    told = kt.Translator(
        translator.model,
        translator.tokenizer,
        about=about,
        long_lines="truncate",
        max_source_length=9,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = transformers.export(told, tmp_path / "exported", beam_size=1)
    assert "`truncation=True`" in (folder / "README.md").read_text()
    convert(tmp_path / "exported", tmp_path / "returned")
    assert kt.Translator.load(tmp_path / "returned").about == about


@pytest.mark.parametrize(("start_id", "count"), [(2, 1), (1, 0)])
def test_a_penalty_that_counts_the_start_token_there_is_told(start_id, count):
    """Where that is the end token, as of BART."""
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=270, start_id=start_id
    )
    options = DecodingOptions(beam_size=1, repetition_penalty=1.5)
    notes = [*transformers._differences(Layout(config), options, None)]
    assert sum("counts the start token, which is the end" in n for n in notes) == count


#: What `config.json` may say, and the message.
DAMAGED = {
    "version": ({"format_version": 9}, "has format_version '9'"),
    "kind": ({"kind": "recurrent"}, "holds no config of a transformer"),
    "model": ({"model": {"num_heads": -1}}, "keras_transformer: model"),
    "unknown field": ({"model": {"moe": 3}}, r"unknown key model\.moe"),
    "large": (
        {"model": {"vocabulary_size": 400, "hidden_dim": 2**30}},
        "is more than any tensor has",
    ),
    "options": ({"decoding": {"beam_size": "x"}}, "keras_transformer: decoding"),
    "languages": ({"languages": {"codes": {}}}, "keras_transformer: languages"),
    "nothing": (None, "has format_version 'None'"),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_config_of_ours_is_refused(exported, tmp_path, fault):
    changes, message = DAMAGED[fault]
    config, _ = exported("config.json")
    own = config["keras_transformer"]
    config["keras_transformer"] = None if changes is None else own | changes
    path = tmp_path / "exported" / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        kt.importing.inspect(tmp_path / "exported")


def test_a_folder_of_another_kind_is_not_replaced(exported, tmp_path):
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="is not an export to transformers"):
        exported()
