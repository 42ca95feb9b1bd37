"""Search defaults of transformers become options here, and nothing is lost unsaid."""

import json

import pytest

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.importing.generation_config import options_of_generation_config

pytestmark = pytest.mark.no_backend

AVERAGE = {"beam_size": 1, "normalization": "average"}
MARIAN = {
    "bad_words_ids": [[196]],
    "bos_token_id": 0,
    "decoder_start_token_id": 196,
    "eos_token_id": 0,
    "forced_eos_token_id": 0,
    "max_length": 512,
    "num_beams": 4,
    "pad_token_id": 196,
    "renormalize_logits": True,
    "transformers_version": "4.32.0.dev0",
}

#: Of a row: the config, the options it gives, and the keys that notes name.
TABLE = [
    ({}, AVERAGE, []),
    ({"num_beams": 5}, AVERAGE | {"beam_size": 5}, []),
    ({"length_penalty": 1}, AVERAGE, []),
    (
        {"length_penalty": 0.8},
        {"beam_size": 1, "normalization": "power", "length_penalty": 0.8},
        [],
    ),
    ({"length_penalty": 0.0}, AVERAGE | {"normalization": "none"}, []),
    (
        {"length_penalty": -1.0},
        AVERAGE | {"normalization": "none"},
        ["length_penalty -1"],
    ),
    # `max_length` counts the start token, `max_new_tokens` does not, and goes first.
    ({"max_length": 200}, AVERAGE | {"max_length": 199}, []),
    ({"max_length": 200, "max_new_tokens": 64}, AVERAGE | {"max_length": 64}, []),
    ({"max_length": 512}, AVERAGE | {"max_length": 511}, []),
    ({"max_length": 513}, AVERAGE, []),  # all that the model can write
    ({"min_length": 56}, AVERAGE | {"min_length": 56}, []),
    ({"min_length": 1}, AVERAGE, []),
    ({"min_new_tokens": 3}, AVERAGE | {"min_length": 4}, []),
    ({"min_length": 9, "max_length": 9}, AVERAGE | {"max_length": 8}, ["min_length 9"]),
    ({"no_repeat_ngram_size": 3}, AVERAGE | {"no_repeat_ngram_size": 3}, []),
    ({"no_repeat_ngram_size": 0}, AVERAGE, []),
    ({"repetition_penalty": 1.2}, AVERAGE | {"repetition_penalty": 1.2}, []),
    (
        {"repetition_penalty": 1.2, "num_beams": 2},
        AVERAGE | {"repetition_penalty": 1.2, "beam_size": 2},
        ["repetition_penalty"],
    ),
    (
        {"repetition_penalty": 1.2, "decoder_start_token_id": 2},
        AVERAGE | {"repetition_penalty": 1.2},
        ["repetition_penalty: there it counts the start token"],
    ),
    ({"bad_words_ids": [[7], [1], [4]]}, AVERAGE | {"suppressed_tokens": (4, 7)}, []),
    (
        {"bad_words_ids": [[7, 8], [4]], "renormalize_logits": True},
        AVERAGE | {"suppressed_tokens": (4,)},
        ["bad_words_ids: 1", "renormalize_logits"],
    ),
    ({"suppress_tokens": [9]}, AVERAGE | {"suppressed_tokens": (9,)}, []),
    ({"forced_bos_token_id": 250004}, AVERAGE | {"forced_start": 250004}, []),
    ({"forced_eos_token_id": 2}, AVERAGE | {"forced_end": True}, []),
    ({"forced_eos_token_id": [2]}, AVERAGE | {"forced_end": True}, []),
    ({"eos_token_id": 2}, AVERAGE, []),
    ({"eos_token_id": [2, 7]}, AVERAGE, ["eos_token_id: of the ends [2, 7]"]),
    ({"eos_token_id": 7}, AVERAGE, ["eos_token_id: of the ends [7]"]),
    ({"forced_eos_token_id": 5}, AVERAGE, ["forced_eos_token_id 5"]),
    (
        {"early_stopping": True, "num_beams": 4},
        AVERAGE | {"beam_size": 4, "patience": 1.0},
        [],
    ),
    ({"early_stopping": "never", "num_beams": 4}, AVERAGE | {"beam_size": 4}, []),
    (
        {"early_stopping": False, "num_beams": 4},
        AVERAGE | {"beam_size": 4},
        ["early_stopping"],
    ),
    ({"early_stopping": True}, AVERAGE, []),  # greedy
    (
        {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
        AVERAGE | {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
        [],
    ),
    ({"num_beams": 4, "num_beam_groups": 2}, AVERAGE | {"beam_size": 4}, ["num_beam"]),
    # What draws is said once, and where nothing is drawn it says nothing.
    ({"temperature": 0.7, "top_k": 50, "do_sample": False}, AVERAGE, []),
    (
        {"temperature": 0.7, "top_k": 50, "do_sample": True},
        AVERAGE,
        ["do_sample, temperature 0.7, top_k 50"],
    ),
    ({"encoder_no_repeat_ngram_size": 0, "sequence_bias": {}}, AVERAGE, []),
    ({"encoder_no_repeat_ngram_size": 2}, AVERAGE, ["encoder_no_repeat_ngram_size"]),
    ({"rare_rule": 3}, AVERAGE, ["rare_rule: unknown"]),
    ({"num_beams": None, "use_cache": True, "_from_model_config": True}, AVERAGE, []),
]


@pytest.mark.parametrize(("given", "options", "named"), TABLE, ids=str)
def test_a_key_becomes_an_option_or_a_note(given, options, named):
    found, notes = options_of_generation_config(given, pad_id=1, end_id=2, longest=512)
    assert found == options
    DecodingOptions.of(found)
    assert len(notes) == len(named)
    for note, beginning in zip(notes, named, strict=True):
        assert note.startswith(beginning)


def test_an_older_config_counts_where_there_is_no_other():
    """As in `transformers`, which then reads of it the end id alone."""
    older = {"num_beams": 5, "length_penalty": 2.0, "no_repeat_ngram_size": 3}
    found, _ = options_of_generation_config({}, older)
    assert (found["beam_size"], found["no_repeat_ngram_size"]) == (5, 3)
    found, notes = options_of_generation_config({"max_length": 20}, older)
    assert found == {"beam_size": 1, "normalization": "average", "max_length": 19}
    assert not notes


def test_of_opus_mt_all_is_said_or_needless():
    """Its limit is what the model can write, its one bad word is never written."""
    options = {"beam_size": 4, "normalization": "average", "forced_end": True}
    found = options_of_generation_config(MARIAN, pad_id=196, longest=511)
    assert found == (options, [])
    # Folders of before 2023 have the same in config.json, beside much else.
    config = MARIAN | {"d_model": 512, "model_type": "marian", "num_beams": 6}
    found = options_of_generation_config({}, config, pad_id=196, longest=511)
    assert found == (options | {"beam_size": 6}, [])
    found = options_of_generation_config(MARIAN, config, pad_id=196, longest=511)
    assert found == (options, [])


def test_configs_of_real_layouts_are_read(shared_data):
    folder = shared_data / "pretrained"
    for path in sorted(folder.glob("*/generation_config.json")):
        generation = json.loads(path.read_text("utf-8"))
        config = json.loads(path.with_name("config.json").read_text("utf-8"))
        options, _ = options_of_generation_config(generation, config)
        assert options["beam_size"] == generation.get("num_beams", 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_beams": "four"}, "num_beams is 'four', not a whole number"),
        ({"num_beams": True}, "num_beams is True, not a whole number"),
        ({"num_beams": 0}, "beam_size: Input should be greater than or equal to 1"),
        ({"length_penalty": 10**400}, "length_penalty is 1000.* not a number"),
        ({"length_penalty": "1"}, "length_penalty is '1', not a number"),
        ({"length_penalty": 11}, "length_penalty: Input should be less than"),
        ({"bad_words_ids": [3]}, "bad_words_ids is .* not a list of lists"),
        ({"bad_words_ids": [["a"]]}, "bad_words_ids is .* not a list of lists"),
        ({"forced_bos_token_id": [1, 2]}, "forced_bos_token_id is .* not one id"),
        ({"forced_bos_token_id": -1}, "forced_bos_token_id is .* not an id"),
        ({"early_stopping": 3, "num_beams": 2}, "early_stopping is 3, not true, false"),
        ({"max_length": 1}, "max_length: Input should be greater than 0"),
    ],
    ids=str,
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(given, message):
    with pytest.raises(InputError, match=f"^generation config: {message}"):
        options_of_generation_config(given)
