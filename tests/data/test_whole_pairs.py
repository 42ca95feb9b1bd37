"""Pairs of a multilingual model: whole rows, their batches, their cache, mixing."""

import dataclasses

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.config.languages import Languages
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.encoded_corpus import encode_corpora
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.filters import Filters
from keras_transformer.data.language_tags import tagged_languages
from keras_transformer.errors import InputError
from keras_transformer.training.corpora import temperature_factors

pytestmark = pytest.mark.one_backend

LINES = ["ein Haus", "a house", "une maison", "ein rotes Haus", "a red house"]
LANGUAGE_FIRST = {
    "source_layout": ("source", "text", "end"),
    "target_layout": ("target", "text", "end"),
}


@pytest.fixture(scope="module")
def tokenizer():
    tags = ("<2de>", "<2en>", "<2fr>")
    return kt.data.Tokenizer.train(LINES * 9, 290, reserved_symbols=tags)


@pytest.fixture(scope="module")
def languages(tokenizer):
    ids = tokenizer.ids_of(["<2de>", "<2en>", "<2fr>"])
    return Languages(codes=dict(zip(("de", "en", "fr"), ids, strict=True)))


TEXT = kt.data.ParallelText(["a house", "a red house"], ["ein Haus", "ein rotes Haus"])
CODES = {"source_language": "en", "target_language": "de"}


def encoded(tokenizer, languages, **options):
    pairs, _ = kt.data.encode_pairs(
        TEXT, tokenizer, tokenizer, 40, languages=languages, **CODES, **options
    )
    return pairs


def test_a_reserved_symbol_has_an_id_that_no_text_has(tokenizer):
    (number,) = tokenizer.ids_of(["<2de>"])
    (row,) = tokenizer.encode(["<2de> ein Haus"])
    assert number not in row
    assert tokenizer.decode([row, [number, *row]]) == ["<2de> ein Haus"] * 2
    plain = kt.data.Tokenizer.train(LINES * 9, 280)
    assert kt.data.Tokenizer.train(LINES * 9, 280, reserved_symbols=()).model == (
        plain.model
    )
    with pytest.raises(InputError, match="has no piece '<2de>', the tag of the target"):
        tagged_languages([("en", "de")], plain)


def test_batches_hold_whole_rows_as_they_are(tokenizer, languages):
    """As transformers has them: `source x </s>`, labels `target y </s>`."""
    layout = languages.model_copy(update=LANGUAGE_FIRST)
    batches = kt.data.TokenBatches(encoded(tokenizer, layout), 64)
    (inputs, labels, weights) = batches[0]
    de, en = languages.codes["de"], languages.codes["en"]
    sources, targets = map(tokenizer.encode, (TEXT.source, TEXT.target))
    for source, target in zip(sources, targets, strict=True):
        row = [r.tolist() for r in inputs["source"]].index(
            kt.data.batching.pad_rows([[en, *source, 2]], inputs["source"].shape[1])[
                0
            ].tolist()
        )
        count = len(target) + 2
        assert inputs["target"][row, :count].tolist() == [1, de, *target]
        assert labels[row, :count].tolist() == [de, *target, 2]
        assert not inputs["target"][row, count:].any() and not labels[row, count:].any()
        assert np.count_nonzero(weights[row]) == count
    assert batches.num_tokens == np.count_nonzero(weights)
    assert weights.sum() == pytest.approx(1.0)


def test_the_decoder_may_begin_with_the_language(tokenizer, languages):
    """As in mBART-25: labels `y </s> target`, decoder `target y </s>`."""
    layout = languages.model_copy(
        update={
            "source_layout": ("text", "end", "source"),
            "target_layout": ("text", "end", "target"),
            "decoder_start": "target",
        }
    )
    inputs, labels, _ = kt.data.TokenBatches(encoded(tokenizer, layout), 64)[0]
    de, en = languages.codes["de"], languages.codes["en"]
    ids = tokenizer.encode(["ein Haus"])[0]
    row = labels[:, len(ids) + 1].tolist().index(de)
    assert inputs["target"][row, : len(ids) + 2].tolist() == [de, *ids, 2]
    assert labels[row, : len(ids) + 2].tolist() == [*ids, 2, de]
    assert (inputs["source"] == en).sum(axis=1).tolist() == [1, 1]


def test_bpe_dropout_leaves_what_stands_around_a_text(tokenizer, languages):
    layout = languages.model_copy(update=LANGUAGE_FIRST)
    pairs = encoded(tokenizer, layout)
    anew = BPEDropout(tokenizer, tokenizer, dropout=0.9)
    batches = kt.data.TokenBatches(pairs, 200, bpe_dropout=anew)
    inputs, labels, weights = batches[0]
    rows = [row[row > 0].tolist() for row in labels]
    assert {(row[0], row[-1]) for row in rows} == {(languages.codes["de"], 2)}
    assert sorted(tokenizer.decode(rows)) == sorted(TEXT.target)
    assert sum(map(len, rows)) > pairs.target.lengths.sum() - len(pairs)
    assert inputs["target"][:, 0].tolist() == [1, 1]
    assert weights.sum() == pytest.approx(1.0)


def test_filters_count_what_stands_around_a_text(tokenizer, languages):
    layout = languages.model_copy(update=LANGUAGE_FIRST)
    pairs = encoded(tokenizer, layout)
    longest = max(pairs.source.lengths.max(), pairs.target.lengths.max() - 1)
    for length, kept in ((longest, 2), (longest - 1, 1)):
        pairs, report = kt.data.encode_pairs(
            TEXT, tokenizer, tokenizer, length, languages=layout, **CODES
        )
        assert (len(pairs), report.kept) == (kept, kept)


def test_whole_pairs_are_not_mixed_with_others(tokenizer, languages):
    pairs = encoded(tokenizer, languages)
    plain, _ = kt.data.encode_pairs(TEXT, tokenizer, tokenizer, 40)
    with pytest.raises(InputError, match="pairs with languages and pairs without"):
        kt.data.EncodedPairs.concatenate([pairs, plain])
    with pytest.raises(InputError, match="target_language 'de' is given, but"):
        kt.data.encode_pairs(TEXT, tokenizer, tokenizer, 40, target_language="de")


def test_a_cache_is_that_of_its_languages(tokenizer, languages, tmp_path):
    for side in ("source", "target"):
        text = "".join(f"{line}\n" for line in getattr(TEXT, side))
        (tmp_path / side).write_text(text, encoding="utf-8")
    files = CorpusFiles(source=(tmp_path / "source",), target=(tmp_path / "target",))
    encoder = PairEncoder(tokenizer, tokenizer, Filters(40))
    layout = languages.model_copy(update=LANGUAGE_FIRST)
    ids = tokenizer.special_ids
    there = layout.direction(ids, "en", "de")

    def encode(directions):
        found = encode_corpora(
            tmp_path / "cache", [files] * 2, encoder, workers=1, directions=directions
        )
        return found.pairs, [row.tolist() for row in found.pairs.source]

    back = dataclasses.replace(there, source_before=(languages.codes["fr"],))
    pairs, rows = encode([there, back])
    assert pairs.is_whole
    starts = [languages.codes[code] for code in ("en", "en", "fr", "fr")]
    assert [row[0] for row in rows] == starts
    assert encode([there, there])[1] != rows
    assert encode([there, back])[1] == rows
    plain, _ = encode(None)
    assert not plain.is_whole
    assert len(list((tmp_path / "cache").glob("*/manifest.json"))) == 3


def test_a_temperature_makes_small_pairs_of_languages_come_more_often():
    groups, sizes = ["en-de", "en-de", "en-fr"], [600, 300, 100]
    factors = temperature_factors(groups, sizes, 1.0)
    assert factors == pytest.approx([1.0, 1.0, 1.0])
    factors = temperature_factors(groups, sizes, 2.0)
    seen = np.multiply(factors, sizes)
    assert seen.sum() == pytest.approx(1000)
    assert (seen[0] + seen[1]) / seen[2] == pytest.approx(3.0)  # the root of 9
    factors = temperature_factors(groups, sizes, 1000.0)
    assert np.multiply(factors, sizes)[2] == pytest.approx(500, rel=0.01)
