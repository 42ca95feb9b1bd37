"""The one list of what a search can do."""

import pytest

from keras_transformer.config.decoding import GREEDY
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

WRONG = [
    ({"beam_size": 0}, "beam_size: Input should be greater than or equal to 1"),
    ({"beam_size": 10**9}, "beam_size: Input should be less than or equal to 1000"),
    ({"beam_size": 4.5}, "beam_size: Input should be a valid integer"),
    ({"beam_sise": 4}, "unknown key beam_sise; did you mean 'beam_size'"),
    ({"length_penalty": float("inf")}, "length_penalty: Input should be a finite"),
    (
        {"normalization": "gnnt"},
        "normalization: Input should be 'gnmt', 'power', 'average'",
    ),
    ({"top_p": 0.0}, "top_p: Input should be greater than or equal to 0.000001"),
    ({"length_penalty": 11.0}, "length_penalty: Input should be less than or equal to"),
    ({"coverage_penalty": 1e39}, "coverage_penalty: Input should be less than or eq"),
    ({"diversity_penalty": 1e39}, "diversity_penalty: Input should be less than or e"),
    ({"patience": 1e9}, "patience: Input should be less than or equal to 1000000"),
    ({"temperature": 1e-40}, "temperature: Input should be greater than or equal to"),
    ({"repetition_penalty": 0.0}, "repetition_penalty: Input should be greater than"),
    ({"top_beams": 5}, "top_beams 5 must be between 1 and beam_size 4; give a larger"),
    ({"mbr": "chrf", "mbr_candidates": 5}, "mbr_candidates 5 must be between 1 and"),
    ({"mbr_candidates": 3}, "mbr_candidates needs mbr"),
    ({"mbr": "chrf", "beam_size": 1}, "has one candidate .* larger beam_size"),
    (
        {"mbr": "bleu", "sampling": True, "mbr_candidates": 1},
        "has one candidate .* larger mbr_candidates",
    ),
    (
        {"mbr": "bleu", "mbr_candidates": 2, "top_beams": 3},
        "top_beams 3 is more than the mbr_candidates 2",
    ),
    ({"temperature": 0.7}, "temperature 0.7 needs sampling"),
    ({"top_k": 3}, "top_k 3 needs sampling"),
    ({"beam_size": 1, "patience": 2.0}, "patience 2.0 needs a beam search"),
    ({"sampling": True, "coverage_penalty": 0.2}, "coverage_penalty 0.2 needs a beam"),
    ({"num_beam_groups": 2}, "num_beam_groups 2 and diversity_penalty 0.0 need each"),
    ({"diversity_penalty": 0.5}, "and diversity_penalty 0.5 need each other"),
    (
        {"num_beam_groups": 3, "diversity_penalty": 0.5},
        "num_beam_groups 3 does not divide beam_size 4",
    ),
    ({"min_length": 9, "max_length": 8}, "min_length 9 is above max_length 8"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG)
def test_what_does_not_go_together_is_one_sentence(fields, message):
    with pytest.raises(InputError, match=message) as error:
        DecodingOptions.of(fields)
    assert "\n" not in str(error.value)


def test_an_update_keeps_the_rest():
    options = DecodingOptions(beam_size=6, patience=2.0, suppressed_tokens=["▁a", 7])
    assert options.suppressed_tokens == ("▁a", 7)
    again = options.updated({"beam_size": None, "patience": None, "min_length": 3})
    # None is a value of patience, and none of the beam size.
    assert again.changed() == {
        "beam_size": 6,
        "min_length": 3,
        "suppressed_tokens": ("▁a", 7),
    }
    assert options.updated({}) is options
    with pytest.raises(InputError, match="top_beams 7 must be between"):
        options.updated({"top_beams": 7})


@pytest.mark.parametrize(
    "fields",
    [
        {"top_beams": 3, "num_beam_groups": 2, "diversity_penalty": 1.0},
        {"coverage_penalty": 0.2, "patience": 2.0},
        {"sampling": True, "temperature": 0.5, "top_k": 5, "top_p": 0.9},
        {"mbr": "chrf", "mbr_candidates": 2},
    ],
)
def test_greedy_search_can_be_had_of_any(fields):
    options = DecodingOptions(**fields, min_length=2).updated(GREEDY)
    assert options.changed() == {"beam_size": 1, "min_length": 2}


def test_how_many_candidates_there_are():
    def count(**fields):
        return DecodingOptions(**fields).num_candidates

    assert count(top_beams=2) == 2
    assert count(mbr="chrf", beam_size=6) == 6
    assert count(mbr="chrf", beam_size=6, mbr_candidates=5) == 5
    assert count(mbr="bleu", sampling=True) == 32
    assert count(mbr="bleu", sampling=True, top_beams=40) == 40


def test_another_search_sets_back_what_it_lacks():
    """What the model says for its own search, not what is given with it."""
    own = DecodingOptions(beam_size=4, patience=2.0, coverage_penalty=0.2)
    for changed in ({"beam_size": 1}, {"sampling": True}):
        assert own.updated(changed) == DecodingOptions(**{"beam_size": 4} | changed)
    several = DecodingOptions(mbr="chrf", mbr_candidates=4, top_beams=2)
    assert several.updated({"beam_size": 1}) == DecodingOptions(beam_size=1)
    drawn = DecodingOptions(beam_size=1, sampling=True, top_beams=8)
    assert drawn.updated({"sampling": False}) == DecodingOptions(beam_size=1)
    # Those rules count the start token.
    rules = DecodingOptions(rules="transformers", max_length=10)
    greedy = DecodingOptions(beam_size=1, max_length=9)
    assert rules.updated({"beam_size": 1}) == greedy
    assert rules.updated({"beam_size": 1, "max_length": 7}).max_length == 7
    sampling = DecodingOptions(sampling=True, top_k=5, temperature=0.7)
    assert sampling.updated({"sampling": False}) == DecodingOptions()
    assert own.updated({"beam_size": 2}).patience == 2.0
    with pytest.raises(InputError, match=r"patience 3.0 needs a beam search"):
        own.updated({"beam_size": 1, "patience": 3.0})
