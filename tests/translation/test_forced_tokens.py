"""A first token that no score counts, and an end that the limit forces."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.translation.sentence import Sentence
from reference.weights import scatter

LINES = ["a fox", "a dog and a fox", "a dog"]
LANGUAGES = (264, 266, 268)


@pytest.fixture(scope="module")
def translator():
    """A small one, whose translations differ."""
    tokenizer = kt.data.Tokenizer.train(["a fox and a dog"] * 9, 270)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 16}
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=270, max_sequence_length=20, num_heads=2, **sizes
    )
    model = scatter(kt.Transformer(config), 1, 0.4)
    return kt.Translator(model, tokenizer, max_length=8, normalization="average")


def assert_scored(hypothesis, num_forced):
    """The score is the mean of what the model says, the forced tokens being sure."""
    scores = hypothesis.token_scores
    free = sum(scores[num_forced:])
    assert hypothesis.log_probability == pytest.approx(free, abs=1e-4)
    assert hypothesis.score == pytest.approx(free / len(scores), abs=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"top_beams": 4},
        pytest.param({"beam_size": 1}, marks=pytest.mark.one_backend),
        pytest.param(
            {"sampling": True, "top_beams": 3, "seed": 4}, marks=pytest.mark.one_backend
        ),
    ],
)
def test_every_translation_begins_with_it_and_no_score_counts_it(translator, options):
    first = LANGUAGES[0]
    piece = translator.tokenizer.pieces([first])[0]
    arguments = {"return_details": True, "return_token_scores": True, **options}
    plain = translator.translate(LINES, **arguments)
    rows = translator.translate(LINES, forced_start=piece, **arguments)
    assert rows != plain
    for row in rows:
        for hypothesis in row:
            ids = hypothesis.ids
            assert (ids[0], hypothesis.tokens[0]) == (first, piece)
            assert_scored(hypothesis, 1)
            text = translator.tokenizer.decode([ids[1 : len(hypothesis.tokens)]])
            assert [hypothesis.text] == text
            assert hypothesis.prefix_log_probability is None


@pytest.mark.one_backend
def test_rows_of_a_batch_have_their_own(translator):
    """As lines of several languages do; each row is what it is alone."""
    ids = translator.tokenizer.encode(LINES)
    sentences = [
        Sentence([*row, 2], forced_start=start)
        for row, start in zip(ids, (*LANGUAGES[:2], None), strict=True)
    ]
    search = translator._searcher.translate
    found = search(sentences, translator.decoding, batch_size=4)
    assert [row[0].ids[0] for row in found[:2]] == [*LANGUAGES[:2]]
    for sentence, row in zip(sentences, found, strict=True):
        (alone,) = search([sentence], translator.decoding, batch_size=4)
        assert alone[0].ids == row[0].ids
        assert alone[0].score == pytest.approx(row[0].score, abs=1e-5)
    (plain,) = search([Sentence(sentences[2].ids)], translator.decoding, 4)
    assert plain[0].ids == found[2][0].ids


@pytest.mark.one_backend
def test_a_prefix_follows_it_and_is_told_apart(translator):
    prefixes = ["a dog", "", "fox"]
    rows = translator.translate(
        LINES,
        prefixes=prefixes,
        forced_start=LANGUAGES[1],
        return_details=True,
        return_token_scores=True,
    )
    starts = translator.tokenizer.encode(prefixes)
    for start, prefix, (best,) in zip(starts, prefixes, rows, strict=True):
        count = 1 + len(start)
        assert best.ids[:count] == [LANGUAGES[1], *start]
        assert best.text.startswith(prefix)
        assert_scored(best, count)
        own = sum(best.token_scores[1:count])
        expected = pytest.approx(own, abs=1e-4) if start else None
        assert best.prefix_log_probability == expected


@pytest.mark.one_backend
def test_no_rule_forbids_it_and_words_are_counted_behind_it(translator):
    first = LANGUAGES[2]
    rows = translator.translate(
        LINES,
        forced_start=first,
        suppressed_tokens=[first],
        no_repeat_ngram_size=1,
        return_details=True,
        return_alignments=True,
    )
    for line, (best,) in zip(LINES, rows, strict=True):
        assert best.ids.count(first) == 1
        words = {target for _, target in best.alignment}
        assert words <= set(range(len(best.text.split())))
        assert all(source < len(line.split()) for source, _ in best.alignment)


@pytest.mark.one_backend
def test_given_translations_are_scored_behind_it(translator):
    forced = kt.Translator(
        translator.model, translator.tokenizer, forced_start=LANGUAGES[0]
    )
    targets = ["a dog", "a", "fox and a dog"]
    ids = [[LANGUAGES[0], *row, 2] for row in translator.tokenizer.encode(targets)]
    sources = [[*row, 2] for row in translator.tokenizer.encode(LINES)]
    expected = translator._searcher.score(sources, ids, 4)
    for found, scores, row in zip(
        forced.score(LINES, targets), expected, ids, strict=True
    ):
        np.testing.assert_allclose(found.token_scores, scores[1:], atol=1e-5)
        assert found.log_probability == pytest.approx(scores[1:].sum(), abs=1e-4)
        assert found.num_tokens == len(found.tokens) == len(row) - 1


@pytest.mark.one_backend
@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"sampling": True}])
def test_what_reaches_the_limit_ends_there_at_no_cost(translator, options):
    options = {"max_length": 4, "min_length": 4, "return_token_scores": True, **options}
    rows = translator.translate(LINES, forced_end=True, return_details=True, **options)
    for (best,) in rows:
        assert best.finished and len(best.ids) == 4 and best.ids[-1] == 2
        free = sum(best.token_scores[:3])
        assert best.log_probability == pytest.approx(free, abs=1e-4)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forced_start": "deu_Latn"}, "the tokenizer has no piece 'deu_Latn'"),
        ({"forced_start": 270}, "270"),
        ({"forced_start": 5, "max_length": 1}, "no token after the forced_start"),
    ],
)
def test_what_cannot_begin_a_translation_is_refused(translator, options, message):
    with pytest.raises(InputError, match=message):
        translator.translate(LINES, **options)
