"""Languages of a multilingual model: what stands around a text, and unknown codes.

The ids are those that `transformers` gives with tokenizers of random vocabularies.
"""

import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import alike
from keras_transformer.config.languages import direction_of
from keras_transformer.config.near_codes import near_codes
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

LANGUAGE_FIRST = {
    "source_layout": ["source", "text", "end"],
    "target_layout": ["target", "text", "end"],
}
NLLB = {"codes": {"deu_Latn": 262, "eng_Latn": 267, "fra_Latn": 268}, **LANGUAGE_FIRST}
MBART_25 = {
    "codes": {"de_DE": 210, "en_XX": 211},
    "source_layout": ["text", "end", "source"],
    "target_layout": ["text", "end", "target"],
    "decoder_start": "target",
}
MARIAN = {
    "codes": {"eng": None, "fra": 3, "spa": 4},
    "sources": ["eng"],
    "targets": ["fra", "spa"],
    "source_layout": ["target", "text", "end"],
}
T5 = {
    "codes": {"en": None, "de": None, "fr": None},
    "prefixes": {"en": {"de": "translate English to German: "}},
}
MADLAD = {"codes": {"de": None, "fr": None}, "prefixes": {"*": {"de": "<2de> "}}}

IDS = {"pad_id": 0, "start_id": 1, "end_id": 2}
FAIRSEQ = {"pad_id": 1, "start_id": 2, "end_id": 2}


def config(**fields):
    return TransformerConfig(vocabulary_size=300, **fields)


@pytest.mark.parametrize(
    ("languages", "ids", "codes", "pieces", "source", "labels", "start"),
    [
        pytest.param(
            NLLB,
            FAIRSEQ,
            ("eng_Latn", "deu_Latn"),
            ([71, 27, 31, 7, 18, 143, 176, 186], [117, 85, 31, 164, 120, 79, 75, 186]),
            [267, 71, 27, 31, 7, 18, 143, 176, 186, 2],
            [262, 117, 85, 31, 164, 120, 79, 75, 186, 2],
            (2, 262),
            id="nllb",
        ),
        pytest.param(
            {"codes": {"de": 237, "en": 239}, **LANGUAGE_FIRST},
            FAIRSEQ,
            ("en", "de"),
            ([46, 187, 180], [172, 3, 53, 172, 3]),
            [239, 46, 187, 180, 2],
            [237, 172, 3, 53, 172, 3, 2],
            (2, 237),
            id="m2m100",
        ),
        pytest.param(
            MBART_25,
            FAIRSEQ,
            ("en_XX", "de_DE"),
            ([24, 20, 110, 7, 16, 35, 6, 44, 9, 5], [51, 79, 50, 47, 6, 94, 49]),
            [24, 20, 110, 7, 16, 35, 6, 44, 9, 5, 2, 211],
            [51, 79, 50, 47, 6, 94, 49, 2, 210],
            (210, None),
            id="mbart",
        ),
        pytest.param(
            MARIAN,
            {"pad_id": 196, "start_id": 196, "end_id": 0},
            (None, "fra"),
            ([127, 81, 47, 186], [18, 124, 168]),
            [3, 127, 81, 47, 186, 0],
            [18, 124, 168, 0],
            (196, None),
            id="marian",
        ),
        pytest.param(
            T5,
            {"pad_id": 0, "start_id": 0, "end_id": 1},
            ("en", "de"),
            ([59, 12, 14, 11], [50, 78]),
            [59, 12, 14, 11, 1],
            [50, 78, 1],
            (0, None),
            id="t5",
        ),
    ],
)
def test_ids_around_a_text_are_those_of_the_family(
    languages, ids, codes, pieces, source, labels, start
):
    direction = Languages.of(languages).direction(config(**ids).special_ids, *codes)
    assert direction.source_ids(pieces[0]) == source
    assert direction.label_ids(pieces[1]) == labels
    assert (direction.start_id, direction.forced_id) == start


def test_a_prefix_belongs_to_a_pair_or_to_a_target():
    assert Languages.of(T5).direction(IDS, "en", "de").prefix == (
        "translate English to German: "
    )
    with pytest.raises(InputError, match="from 'en' into 'fr'; its pairs are en-de"):
        Languages.of(T5).direction(IDS, "en", "fr")
    assert Languages.of(MADLAD).direction(IDS, None, "de").prefix == "<2de> "


def test_two_vocabularies_have_their_own_ids_of_a_language():
    languages = Languages.of({**NLLB, "target_codes": {c: 7 for c in NLLB["codes"]}})
    direction = languages.direction(IDS, "eng_Latn", "deu_Latn")
    assert (direction.source_ids([]), direction.label_ids([])) == ([267, 2], [7, 2])


def test_a_model_of_two_languages_has_the_end_alone():
    direction = direction_of(None, config())
    assert (direction.source_ids([5]), direction.label_ids([6])) == ([5, 2], [6, 2])
    assert (direction.start_id, direction.forced_id, direction.label) == (1, None, "")
    assert direction_of(None, config(source_end=False)).source_ids([5]) == [5]
    with pytest.raises(InputError, match="target_language 'de' is given, but"):
        direction_of(None, config(), target_language="de")


@pytest.mark.parametrize(
    ("languages", "codes", "message"),
    [
        (NLLB, (None, "deu_Latn"), "translates from 3 languages: deu_Latn, eng_Latn"),
        (NLLB, ("eng_Latn", None), "translates into 3 languages: .*target_language"),
        (NLLB, ("en", "deu_Latn"), "knows 3 languages, not 'en'; near: eng_Latn$"),
        (NLLB, ("eng_Latn", "deu"), "target_language: .*not 'deu'; near: deu_Latn"),
        (NLLB, ("eng_Latn", "!"), "not '!'; give one of deu_Latn, eng_Latn, fra_Latn"),
        (MARIAN, (None, None), "translates into 2 languages: fra, spa; give"),
        (MARIAN, ("fra", "spa"), "does not translate from 'fra', but from 1 language"),
        (MARIAN, (None, "eng"), "does not translate into 'eng', but into 2 languages"),
    ],
)
def test_a_missing_or_unknown_code_names_what_there_is(languages, codes, message):
    with pytest.raises(InputError, match=message):
        Languages.of(languages).direction(IDS, *codes)


def test_defaults_stand_in_for_codes_that_nobody_gives():
    languages = Languages.of({**NLLB, "source": "eng_Latn", "target": "fra_Latn"})
    assert languages.direction(IDS).label == "eng_Latn-fra_Latn"
    other = languages.with_defaults(target_language="deu_Latn")
    assert other.direction(IDS).label == "eng_Latn-deu_Latn"
    assert other.direction(IDS, None, "fra_Latn").target_language == "fra_Latn"
    assert alike(languages, other) and not alike(languages, None)
    with pytest.raises(InputError, match="near: deu_Latn"):
        languages.with_defaults(target_language="de")


@pytest.mark.parametrize(
    ("code", "known", "near"),
    [
        ("en", ["eng_Latn", "deu_Latn"], ["eng_Latn"]),
        ("eng", ["en_XX", "de_DE"], ["en_XX"]),
        ("de", ["__de__", "__en__"], ["__de__"]),
        ("zh-Hant", ["zho_Hans", "zho_Hant"], ["zho_Hant", "zho_Hans"]),
        ("sw", ["swe_Latn", "swh_Latn"], ["swh_Latn"]),
        ("ger", ["de", "en"], ["de"]),
        ("quatsch", ["de", "en"], []),
    ],
)
def test_near_codes_are_of_the_same_language_or_look_alike(code, known, near):
    assert near_codes(code, known) == near


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"codes": {}}, "languages.codes"),
        ({"codes": {"de": -1}}, "languages.codes"),
        ({"codes": {"de": 2**31}}, "languages.codes"),
        ({"codes": {"de": True}}, "languages.codes"),
        ({"codes": {"de": 1}, "target": "fr"}, "target 'fr' is not among the target"),
        ({"codes": {"de": 1}, "sources": ["fr"]}, "sources has 'fr'"),
        ({"codes": {"de": None}, "source_layout": ["target", "text"]}, "has no id"),
        ({"codes": {"de": None}, "target_layout": ["target", "text", "end"]}, "no id"),
        ({"codes": {"de": 1}, "source_layout": ["end"]}, 'must have "text"'),
        ({"codes": {"de": 1}, "target_layout": ["text"]}, 'lacks "end"'),
        ({"codes": {"de": 1}, "target_layout": ["end", "text"]}, "must begin with"),
        ({"codes": {"de": 1}, "prefixes": {"*": {"fr": ""}}}, "prefixes has 'fr'"),
        ({"codes": {"de": 1}, "forced": True}, "unknown key languages.forced"),
        ([], "languages: expected keys with values"),
    ],
)
def test_a_section_that_is_not_right_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Languages.of(fields)


def test_ids_outside_of_the_vocabulary_are_refused():
    languages = Languages.of({"codes": {"de": 300}, **LANGUAGE_FIRST})
    with pytest.raises(InputError, match="'de' has the id 300, but the source vocab"):
        languages.check(config())
    Languages.of(NLLB).check(config())
