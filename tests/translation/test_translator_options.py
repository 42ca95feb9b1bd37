"""What `Translator.translate` can be asked for, with the committed model.

The texts in `fixtures/en-de.options.json` were written by PyTorch.
"""

import json
import warnings
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from reference.marks import all_on_one_backend

pytestmark = pytest.mark.one_backend
FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
LINES = (FOLDER / "source.txt").read_text(encoding="utf-8").splitlines()
SOURCES = sorted(LINES, key=len)[:4]
EXPECTED = json.loads(FOLDER.with_name("en-de.options.json").read_text("utf-8"))
SAMPLING = EXPECTED["sampling"]["options"]


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


@pytest.mark.each_backend
# `test_translator.py` has beams on each.
@pytest.mark.parametrize(
    "name", all_on_one_backend(EXPECTED, but=("rules", "sampling"))
)
def test_the_same_text_on_every_backend(translator, name):
    options, texts = EXPECTED[name]["options"], EXPECTED[name]["texts"]
    found = translator.translate(SOURCES, return_details=True, **options)
    assert [[h.text for h in row] for row in found] == texts
    if "prefixes" in options:
        prefixes = options["prefixes"]
        for prefix, row in zip(prefixes, found, strict=True):
            assert all(h.text.startswith(prefix) for h in row)


class Column(Collection):
    """Texts as a table has them that was sorted: `[row]` is the row of that label."""

    def __init__(self, texts):
        self.texts = texts
        self.labels = [*range(1, len(texts)), 0]

    def __iter__(self):
        return iter(self.texts)

    def __len__(self):
        return len(self.texts)

    def __contains__(self, text):
        return text in self.texts

    def __getitem__(self, label):
        return self.texts[self.labels.index(label)]


def test_rows_stay_in_the_order_in_which_they_come(translator):
    options, texts = EXPECTED["rules"]["options"], EXPECTED["rules"]["texts"]
    options = {**options, "prefixes": Column(options["prefixes"])}
    for lines in (Column(SOURCES), dict(enumerate(SOURCES)).values()):
        found = translator.translate(lines, return_details=True, **options)
        assert [[h.text for h in row] for row in found] == texts


@pytest.mark.each_backend
def test_samples_are_those_of_the_line_alone(translator):
    # The same shapes, so that one program serves: other lines, in another order.
    found = translator.translate(
        [SOURCES[0], SOURCES[2]] * 2, first_line=3, return_details=True, **SAMPLING
    )
    assert [h.text for h in found[0]] != EXPECTED["sampling"]["texts"][0]
    assert [h.text for h in found[0]] != [h.text for h in found[2]]
    lines = ["", "", SOURCES[2], SOURCES[1], SOURCES[0], SOURCES[3]]
    found = translator.translate(lines, return_details=True, **SAMPLING)
    assert [h.text for h in found[2]] == EXPECTED["sampling"]["texts"][2]


def test_mbr_chooses_among_the_samples(translator):
    options = {**SAMPLING, "top_beams": 2, "mbr": "chrf", "mbr_candidates": 3}
    found = translator.translate(SOURCES, return_details=True, **options)
    for row, texts in zip(found, EXPECTED["sampling"]["texts"], strict=True):
        assert len(row) == 2
        assert {h.text for h in row} <= set(texts)
        assert row[0].utility >= row[1].utility


def test_token_scores_and_alignments_come_with_the_translation(translator):
    found = translator.translate(
        [*SOURCES, ""],
        return_details=True,
        return_token_scores=True,
        return_alignments=True,
        **EXPECTED["beams"]["options"],
    )
    for source, row in zip(SOURCES, found, strict=False):
        for hypothesis in row:
            assert len(hypothesis.token_scores) == len(hypothesis.ids)
            total = sum(hypothesis.token_scores)
            assert total == pytest.approx(hypothesis.log_probability, abs=1e-3)
            words = len(source.split()), len(hypothesis.text.split())
            assert {j for _, j in hypothesis.alignment} == set(range(words[1]))
            assert all(0 <= i < words[0] for i, _ in hypothesis.alignment)
            pairs = [tuple(map(int, p.split("-"))) for p in hypothesis.pharaoh.split()]
            assert pairs == hypothesis.alignment
    assert found[-1][0].text == found[-1][0].pharaoh == ""


def test_a_pair_that_is_too_long_is_named(translator):
    long = "a " * 3000
    for pair, side in (((long, "a"), "source"), (("a", long), "target")):
        sources, targets = zip(("a", "a"), pair, strict=True)
        message = rf"line 521 has \d+ tokens in its {side}, but .* shorten the pair"
        with pytest.raises(InputError, match=message):
            translator.score(sources, targets, first_line=520)
    with pytest.raises(InputError, match="line 8 holds the lone surrogate"):
        translator.score(["a"], ["\ud800"], first_line=8)


def test_scores_of_tokens_add_up(translator):
    targets = translator.translate(SOURCES)
    for score, target in zip(translator.score(SOURCES, targets), targets, strict=True):
        assert len(score.token_scores) == len(score.tokens) == score.num_tokens
        assert score.log_probability == pytest.approx(sum(score.token_scores), abs=1e-4)
        assert "".join(score.tokens[:-1]).replace("▁", " ") == target


def test_a_long_line_is_refused_cut_with_a_warning_or_split(translator):
    lines = [SOURCES[0], " ".join(SOURCES[:2]), "", SOURCES[1]]
    lengths = [len(ids) + 1 for ids in translator.tokenizer.encode(lines)]
    limit = {"max_source_length": max(lengths[0], lengths[3])}
    options = {**limit, "first_line": 5}
    size = limit["max_source_length"]
    fault = f"line 6 has {lengths[1]} tokens, but max_source_length is {size}; give a"
    with pytest.raises(InputError, match=fault):
        translator.translate(lines, **options)
    with pytest.raises(InputError, match="tokens, but the model takes at most 1024; "):
        translator.translate([SOURCES[0] * 99])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        cut = translator.translate(lines, long_lines="truncate", **options)
    (warning,) = caught
    kept = size - 1  # the end takes a place
    assert str(warning.message) == (
        f"line 6 has {lengths[1]} tokens: only the first {kept} are translated"
    )
    # As many rows, and as long: the same program.
    whole = translator.translate([SOURCES[0], SOURCES[0], "", SOURCES[1]])
    assert (cut[0], cut[2], cut[3]) == (whole[0], "", whole[3])
    assert cut[1]
    split = translator.translate(lines, long_lines="split", **options)
    assert split == [whole[0], f"{whole[0]} {whole[3]}", "", whole[3]]
    with pytest.raises(InputError, match="a line is split into several"):
        translator.translate(
            lines,
            long_lines="split",
            return_details=True,
            return_attention_weights=True,
            **options,
        )


def test_every_cut_is_told_also_where_it_is_like_one_before(translator):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        for line in SOURCES[:2]:
            options = {"beam_size": 1, "max_length": 1, "max_source_length": 2}
            translator.translate(
                ["a b c d", line[:5]], long_lines="truncate", **options
            )
    lines = [str(warning.message).split(" has ")[0] for warning in caught]
    assert lines == ["line 1", "line 2"] * 2
    assert {warning.filename for warning in caught} == {__file__}


def test_a_character_that_does_not_fit_is_named(translator):
    lines = ["a", "a \N{GRINNING FACE}"]
    options = {"long_lines": "split", "max_source_length": 3, "first_line": 6}
    message = r"line 7: '\S' alone has 5 tokens, but a line may have 3; set a larger"
    with pytest.raises(InputError, match=message):
        translator.translate(lines, **options)


@pytest.mark.parametrize(
    "options", [{}, {"beam_size": 2}, {"sampling": True, "temperature": 0.1}]
)
def test_an_end_that_is_suppressed_is_never_written(translator, options):
    end = {"beam_size": 1, "suppressed_tokens": ["</s>"], "max_length": 40, **options}
    for row in translator.translate(SOURCES, return_details=True, **end):
        assert [len(h.ids) for h in row] == [len(h.tokens) for h in row] == [40]
        assert not row[0].finished and np.isfinite(row[0].score)


def test_what_is_read_again_obeys_the_tokens_of_a_batch(translator, monkeypatch):
    shapes = []
    default = translator._searcher._pad  # looked at: the batches as they are run

    def noted(*arguments):
        padded = default(*arguments)
        shapes.append(tuple(padded.shape))
        return padded

    monkeypatch.setattr(translator._searcher, "_pad", noted)
    translator.translate(
        SOURCES,
        batch_tokens=128,
        return_details=True,
        return_alignments=True,
        return_attention_weights=True,
        beam_size=2,
        top_beams=2,
        max_length=30,
    )
    assert len(shapes) > 4
    assert all(rows == 1 or rows * length <= 128 for rows, length in shapes), shapes


def test_options_of_the_folder_hold_unless_others_are_given(translator, tmp_path):
    own = kt.Translator(
        translator.model,
        translator.tokenizer,
        beam_size=1,
        max_length=3,
        suppressed_tokens=["▁"],
    )
    own.save(tmp_path / "model")
    again = kt.Translator.load(tmp_path / "model")
    assert again.decoding == own.decoding
    assert again.info()["max length"] == 3
    exported = checks.decoding_options("onnx", again, {})
    ids = tuple(again.target_tokenizer.ids_of(["▁"]))
    assert exported == again.decoding.updated({"suppressed_tokens": ids})
    with pytest.raises(InputError, match="min_length 4 is above max_length 3"):
        again.translate(SOURCES[:1], min_length=4)


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_is_an_argument_of_translate(translator, name):
    assert translator.translate([""], **{name: OPTIONS[name].default}) == [""]
    for value in (None, 1):
        with pytest.raises(InputError, match=f"unknown key {name}_; did you mean"):
            translator.translate([""], **{f"{name}_": value})


def test_an_ensemble_is_loaded_from_folders_and_is_none(translator, tmp_path):
    ensemble = kt.Translator.load(FOLDER, FOLDER)
    assert [m.config for m in ensemble.model.models] == [translator.model.config] * 2
    with pytest.raises(InputError, match="an ensemble cannot be exported"):
        checks.exportable_model(ensemble)
    with pytest.raises(InputError, match="cannot hold an ensemble"):
        ensemble.save(tmp_path / "model")
    with pytest.raises(InputError, match="this is an ensemble"):
        ensemble.translate(SOURCES, return_details=True, return_attention_weights=True)
    other = kt.data.Tokenizer.train(["a"] * 9, 261)
    sizes = {"hidden_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = kt.TransformerConfig(vocabulary_size=261, intermediate_dim=8, **sizes)
    kt.Translator(kt.Transformer(config), other).save(tmp_path / "other")
    with pytest.raises(InputError, match="has another tokenizer than"):
        kt.Translator.load(FOLDER, tmp_path / "other")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_sise": 3}, "unknown key beam_sise; did you mean 'beam_size'"),
        ({"prefixes": ["a"]}, "4 lines do not pair with 1 prefixes"),
        ({"prefixes": "abcd"}, "prefixes must be a list of strings, got str"),
        ({"prefixes": ["", "", 3, ""]}, r"prefixes must .*, but prefixes\[2\] is int"),
        ({"batch_size": None}, "batch_size must be a whole number above 0, got None"),
        ({"batch_size": "4"}, "batch_size must be a whole number above 0, got '4'"),
        ({"batch_tokens": 2.5}, "batch_tokens must be a whole number above 0, got 2"),
        ({"suppressed_tokens": [*range(2, 400)]}, "line 11: the options forbid every"),
        (
            {"suppressed_tokens": [2, *range(4, 400)], "no_repeat_ngram_size": 1},
            "line 11: the options forbid every token before a translation can end",
        ),
        ({"suppressed_tokens": ["99999"]}, "id 99999 is outside of the tokenizer's"),
        ({"suppressed_tokens": ["☃"]}, "has no piece '☃'; spell it as"),
        ({"suppressed_tokens": [10**6]}, "id 1000000 is outside of"),
        ({"min_length": 10**6}, "min_length 1000000 is more than"),
        (
            {"prefixes": ["", "a b c d", "", ""], "max_length": 2},
            "line 12: its prefix has .* tokens, but a translation may have only 2",
        ),
    ],
)
def test_bad_requests_are_one_clear_error(translator, arguments, message):
    with pytest.raises(InputError, match=message):
        translator.translate(SOURCES, first_line=11, **arguments)


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"patience": 1e6}, {}),
        ({"sampling": True, "temperature": 1e-6}, {"beam_size": 1}),
        ({"sampling": True, "top_p": 1e-6}, {"beam_size": 1}),
        ({"sampling": True, "temperature": 1e6}, None),
        ({"coverage_penalty": 1e6}, None),
        ({"num_beam_groups": 2, "diversity_penalty": 1e6}, None),
        ({"length_penalty": 10.0}, None),
        ({"repetition_penalty": 1e6}, None),
        ({"repetition_penalty": 1e-6}, None),
    ],
)
def test_the_most_extreme_options_are_what_they_say(translator, options, same):
    """No sum overflows, which would leave no hypothesis."""
    options = {"max_length": 20, **options}
    found = translator.translate(SOURCES[:2], return_details=True, **options)
    for (hypothesis,) in found:
        assert hypothesis.ids and np.isfinite(hypothesis.score)
        assert hypothesis.score < 0
    if same is not None:
        texts = [hypothesis.text for (hypothesis,) in found]
        assert texts == translator.translate(SOURCES[:2], max_length=20, **same)


@pytest.mark.parametrize("lines", [{"a": 1}, {"a"}, b"a", iter(["a"]), None, 5])
def test_what_is_no_list_of_lines_is_refused(translator, lines):
    for method in (translator.translate, translator.count_tokens):
        with pytest.raises(InputError, match="lines must be a list of strings, got"):
            method(lines)
    with pytest.raises(InputError, match="first_line must be a whole number above 0"):
        translator.translate(["a"], first_line=0)


def test_an_empty_line_has_what_is_asked_for(translator):
    ((found,),) = translator.translate(
        [" "], return_details=True, return_token_scores=True, return_alignments=True
    )
    assert (found.token_scores, found.alignment, found.pharaoh) == ([], [], "")
    assert np.isfinite(translator.length_penalty)
