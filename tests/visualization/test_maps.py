"""The weights of a sentence, and the tokens and words that they stand for."""

import numpy as np
import pytest
from sample_maps import maps

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.models import KINDS
from keras_transformer.visualization.tokens import Tokens
from reference import models
from reference.attention import attention_weights
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

LINE = "Das Ticket kostet 7 € (heute)."


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


def of_kind(tokenizer, name, dtype="float32", **fields):
    size = {"vocabulary_size": tokenizer.vocabulary_size}
    size |= {f"{side}_vocabulary_size": None for side in ("source", "target")}
    config = models.configs.config(name, **{**size, **fields})
    return kt.Translator(KINDS[config.kind](config, dtype=dtype), tokenizer)


def test_the_weights_are_those_of_the_forward_pass(translator):
    text, translation = lines("source")[11], lines("greedy")[11]
    found = kt.visualization.attention_maps(translator, text, translation)
    (source,) = translator.tokenizer.encode([text])
    (target,) = translator.tokenizer.encode([translation])
    expected = attention_weights(translator.model, [*source, 2], [1, *target])
    assert found.weights.keys() == expected.keys()
    for kind, weights in expected.items():
        rows, columns = found.tokens(kind)
        assert found.weights[kind].dtype == "float32"
        assert found.weights[kind].shape[2:] == (len(rows), len(columns))
        np.testing.assert_allclose(found.weights[kind], weights, atol=1e-5)
    assert found.source.words == text.split()
    assert found.target.words == translation.split()
    assert found.tokens("decoder")[1].pieces == ("<s>", *found.target.pieces[:-1])


@pytest.mark.one_backend
def test_without_a_translation_it_is_the_one_that_is_found(translator):
    text = lines("source")[11]
    found = kt.visualization.attention_maps(translator, text, beam_size=1)
    given = kt.visualization.attention_maps(translator, text, lines("greedy")[11])
    assert found.target == given.target
    np.testing.assert_allclose(
        found.weights["cross"], given.weights["cross"], atol=1e-5
    )


@pytest.mark.one_backend
@pytest.mark.filterwarnings("ignore:line 1 has 24 tokens")
def test_the_source_is_what_the_model_read(translator):
    """Of a line that is cut, its beginning; of one that is split, nothing."""
    options = {"beam_size": 1, "max_source_length": 6}
    found = kt.visualization.attention_maps(
        translator, LINE, long_lines="truncate", **options
    )
    whole = kt.visualization.attention_maps(translator, LINE, LINE)
    assert len(found.source.pieces) == found.weights["cross"].shape[-1] == 6
    assert found.source.pieces == (*whole.source.pieces[:5], whole.source.pieces[-1])
    (read,) = translator.translate(
        [LINE],
        long_lines="truncate",
        return_details=True,
        return_attention_weights=True,
        **options,
    )
    for kind, weights in read[0].attention.items():
        np.testing.assert_allclose(found.weights[kind], weights, atol=1e-5)
    with pytest.raises(InputError, match="a line is split"):
        kt.visualization.attention_maps(translator, LINE, long_lines="split", **options)


@pytest.mark.one_backend
def test_in_bfloat16_the_weights_are_float32_and_add_up(translator):
    lower = of_kind(translator.tokenizer, "paper", dtype="mixed_bfloat16")
    found = kt.visualization.attention_maps(lower, LINE, "7 € a ticket")
    for weights in found.weights.values():
        assert weights.dtype == "float32"
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["recurrent", "convolutional"])
def test_other_kinds_have_cross_attention_alone(translator, name):
    other = of_kind(translator.tokenizer, name)
    found = kt.visualization.attention_maps(other, LINE, "a ticket")
    assert found.weights.keys() == {"cross"}
    assert list(found.heads()) == ["head 0"]
    with pytest.raises(InputError, match=r"no attention of the kind 'encoder'.* cross"):
        found.heads("encoder")


@pytest.mark.one_backend
def test_a_decoder_without_self_attention_shows_the_others(translator):
    other = of_kind(translator.tokenizer, "ssru")
    found = kt.visualization.attention_maps(other, LINE, "a ticket")
    assert found.weights.keys() == {"encoder", "cross"}
    with pytest.raises(InputError, match=r"kind 'decoder'.* encoder, cross"):
        found.heads("decoder")


@pytest.mark.one_backend
def test_what_has_no_attention_of_its_own_is_refused(translator):
    without = of_kind(translator.tokenizer, "recurrent, no attention")
    ensemble = kt.Translator(
        kt.models.Ensemble([translator.model] * 2), translator.tokenizer
    )
    for other, message in (
        (without, "attention maps need attention to the source"),
        (ensemble, "belong to one model"),
    ):
        with pytest.raises(InputError, match=message):
            kt.visualization.attention_maps(other, LINE)
        with pytest.raises(InputError, match=message):
            kt.visualization.head_report(other, [LINE])


@pytest.mark.one_backend
def test_texts_that_cannot_be_read_are_refused(translator):
    with pytest.raises(InputError, match="the text is empty"):
        kt.visualization.attention_maps(translator, " ")
    with pytest.raises(InputError, match="the translation is empty"):
        kt.visualization.attention_maps(translator, LINE, " ")
    short = of_kind(translator.tokenizer, "paper")
    for pair in ((LINE * 9, "a"), ("a", LINE * 9)):
        with pytest.raises(InputError, match=r"has \d+ tokens in its \w+, but"):
            kt.visualization.attention_maps(short, *pair)


@pytest.mark.no_backend
def test_layers_and_heads_are_counted_from_both_ends():
    found = maps("ab", "cde")
    weights = found.weights["cross"]
    assert list(found.heads()) == ["head 0", "head 1", "head 2"]
    np.testing.assert_array_equal(found.heads("cross", 0, -1)["head 2"], weights[0, 2])
    (mean,) = found.heads(head="mean").values()
    np.testing.assert_allclose(mean, weights[1].mean(axis=0))
    for arguments in (("cross", 2), ("cross", -3), ("cross", 0, 3), ("cross", 0, -4)):
        with pytest.raises(InputError, match="choose one from 0 to "):
            found.heads(*arguments)


@pytest.mark.no_backend
def test_words_get_the_sum_of_their_pieces_and_give_the_mean():
    source = ["▁", "A", "▁li", "on", "▁", "</s>"]
    found = maps(source, ["Lö", "we", "</s>"], layers=3)
    target_words, source_words, weights = found.word_weights()
    assert target_words == ["Löwe", "⟨end⟩"]
    assert source_words == ["A", "lion", "⟨end⟩"]
    pieces = found.weights["cross"][1].mean(axis=0)  # the last layer but one
    expected = [
        [pieces[:2, :2].sum() / 2, pieces[:2, 2:5].sum() / 2, pieces[:2, 5].mean()],
        [pieces[2, :2].sum(), pieces[2, 2:5].sum(), pieces[2, 5]],
    ]
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
    only_space = maps(["▁", "</s>"], ["a"]).word_weights()
    assert only_space[1] == ["␣", "⟨end⟩"]


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("pieces", "labels", "words"),
    [
        (["▁Caf", "é", "</s>"], ["Caf", "é", "⟨end⟩"], ["Café"]),
        (["<s>", "a▁", "b"], ["⟨start⟩", "a", "b"], ["a", "b"]),
        (["<0xE2>", "<0x82>", "<0xAC>"], ["<0xE2>", "<0x82>", "<0xAC>"], ["€"]),
        (["▁▁", "<0x21>"], ["␣", "!"], ["!"]),
        (["<0xFF>"], ["<0xFF>"], ["\ufffd"]),
        ([], [], []),
    ],
)
def test_pieces_are_shown_as_text(pieces, labels, words):
    tokens = Tokens(tuple(pieces))
    assert tokens.labels == labels
    assert tokens.words == words
