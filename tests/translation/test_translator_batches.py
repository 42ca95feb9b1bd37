"""Lines of very unequal lengths in one batch, under every option: each as if alone."""

from pathlib import Path

import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding.search_loop import MANY_ROWS
from keras_transformer.errors import InputError
from keras_transformer.translation import shape_plan
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import Sentence
from keras_transformer.translation.static_shapes import power_of_two

pytestmark = pytest.mark.one_backend
FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
LINES = (FOLDER / "source.txt").read_text(encoding="utf-8").splitlines()
NUM_TOKENS = (20, 1, 60)
PREFIXES = ("Der", "", "Die Garantie")

#: Where there is no max_length, each line has a limit of its own.
OPTIONS = {
    "greedy": {
        "beam_size": 1,
        "min_length": 9,
        "no_repeat_ngram_size": 3,
        "repetition_penalty": 1.2,
        "suppressed_tokens": ["▁"],
        "prefixes": PREFIXES,
    },
    "beams": {
        "beam_size": 3,
        "top_beams": 3,
        "normalization": "average",
        "coverage_penalty": 0.2,
        "patience": 1.5,
        "max_length": 40,
        "prefixes": PREFIXES,
    },
    "groups": {
        "beam_size": 4,
        "top_beams": 3,
        "num_beam_groups": 2,
        "diversity_penalty": 0.8,
        "length_penalty": 1.0,
        "min_length": 5,
        "no_repeat_ngram_size": 2,
        "max_length": 40,
        "mbr": "chrf",
    },
    "samples": {
        "sampling": True,
        "top_beams": 2,
        "temperature": 1.2,
        "top_k": 20,
        "top_p": 0.9,
        "seed": 3,
        "max_length": 40,
        "mbr": "bleu",
        "mbr_candidates": 4,
    },
}


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


def lines_of(tokenizer):
    (ids,) = tokenizer.encode([" ".join(LINES)])
    lines = tokenizer.decode([ids[:count] for count in NUM_TOKENS])
    assert [len(row) for row in tokenizer.encode(lines)] == list(NUM_TOKENS)
    return lines


@pytest.mark.parametrize("name", OPTIONS)
def test_each_line_is_what_it_is_alone(translator, name):
    options = dict(OPTIONS[name])
    prefixes = options.pop("prefixes", None)
    options |= {"return_details": True, "return_token_scores": True}
    lines = lines_of(translator.tokenizer)
    together = translator.translate(lines, prefixes=prefixes, **options)
    for row, line in enumerate(lines):
        prefix = None if prefixes is None else prefixes[row : row + 1]
        (alone,) = translator.translate(
            [line], prefixes=prefix, first_line=row + 1, **options
        )
        assert [h.ids for h in together[row]] == [h.ids for h in alone]
        for one, other in zip(together[row], alone, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.token_scores == pytest.approx(other.token_scores, abs=1e-3)
            assert one.finished == other.finished
            assert one.utility == pytest.approx(other.utility, abs=0.01)


def test_filled_batches_are_of_one_size(translator, monkeypatch):
    searcher, sizes = translator._searcher, []
    search = searcher._searches[False, False]

    def noted(source, *arguments, **options):
        sizes.append(source.shape[0])
        return search(source, *arguments, **options)

    monkeypatch.setitem(searcher._searches, (False, False), noted)
    lines = lines_of(translator.tokenizer)
    expected = translator.translate(lines, beam_size=1)
    unfilled = len(sizes)
    for count in (1, 2, 3):
        found = translator.translate(
            lines[:count], beam_size=1, batch_size=8, fill_batches=True
        )
        assert found == expected[:count]
    assert max(sizes[:unfilled]) <= 4
    assert set(sizes[unfilled:]) == {power_of_two(-(-8 // searcher._num_programs()))}
    with pytest.raises(InputError, match="leave batch_tokens out"):
        translator.translate(lines, batch_tokens=99, fill_batches=True)


def test_a_job_of_several_batches_has_one_shape_and_a_single_line_its_own(
    translator, monkeypatch
):
    searcher, shapes = BatchSearch(translator.model), []
    search = searcher._searches[False, False]

    def noted(source, *arguments, **options):
        shapes.append(tuple(source.shape))
        return search(source, *arguments, **options)

    monkeypatch.setitem(searcher._searches, (False, False), noted)
    rows = translator.tokenizer.encode(lines_of(translator.tokenizer))
    sentences = [Sentence(ids) for ids in [*rows, rows[0]]]
    options = DecodingOptions(beam_size=1, max_length=9)
    found = searcher.translate(sentences, options, batch_size=2)
    assert shapes == [(2, 64)] * 2
    alone = [
        searcher.translate([sentence], options, batch_size=2)[0]
        for sentence in sentences
    ]
    assert shapes[2:] == [(1, 24), (1, 8), (1, 64), (1, 24)]
    assert [row[0].ids for row in found] == [row[0].ids for row in alone]


def test_what_compile_has_made_serves_every_batch(translator, monkeypatch):
    options = {"beam_size": 1, "max_length": 12}
    searcher, programs = translator._searcher, []

    def noted(search):
        def run(source, *arguments, **options):
            key = tuple(source.shape), [sorted(part) for part in arguments[1:]]
            programs.append((key, options))
            return search(source, *arguments, **options)

        return run

    for key, search in list(searcher._searches.items()):
        monkeypatch.setitem(searcher._searches, key, noted(search))
    shapes = list(translator.compile(2, 64, **options))
    assert shapes == [(rows, n) for rows in (2, 1) for n in (8, 16, 24, 32, 48, 64)]
    made, programs = programs.copy(), []
    lines = lines_of(translator.tokenizer)
    translator.translate([*lines, lines[0]], batch_size=2, **options)
    translator.translate(lines[:1], **options)
    assert len(programs) == 3
    assert all(program in made for program in programs)


def test_a_large_batch_is_one_loop_until_dropping_rows_pays(translator, monkeypatch):
    searcher, names = BatchSearch(translator.model), []

    def noted(name, search):
        def run(*arguments, **options):
            names.append(name)
            return search(*arguments, **options)

        return run

    for name, key in (("drops", (False, False)), ("whole", (False, True))):
        search = searcher._searches[key]
        monkeypatch.setitem(searcher._searches, key, noted(name, search))
    count = MANY_ROWS * searcher._num_programs()
    rows = translator.tokenizer.encode(lines_of(translator.tokenizer))
    sentences = [Sentence(rows[i % len(rows)][: i + 1]) for i in range(count)]
    options = DecodingOptions(beam_size=1, max_length=9)
    first = searcher.translate(sentences, options, batch_size=count)
    used = len(names)
    filled = searcher.translate(sentences, options, count, fill_batches=True)
    monkeypatch.setattr(shape_plan, "_PROGRAMS_UNTIL_DROPPING", 0)
    dropping = searcher.translate(sentences, options, batch_size=count)
    whole = "whole" if backends.compiles_loops else "drops"
    assert set(names[:used]) == {whole}
    assert set(names[used:]) == {"drops"}
    for found in (filled, dropping):
        assert [row[0].ids for row in found] == [row[0].ids for row in first]
    names.clear()
    shapes = list(searcher.compile(sentences[0], options, MANY_ROWS, longest=8))
    made = [whole, "drops"] if backends.compiles_loops else ["drops"]
    assert names == [*made, "drops"]
    assert shapes == [(MANY_ROWS, 8)] * len(made) + [(1, 8)]


def test_what_is_no_part_of_a_search_makes_no_program(translator, monkeypatch):
    searcher, keys = translator._searcher, []
    search = searcher._searches[False, False]

    def noted(*arguments, **options):
        keys.append(tuple(sorted(options.items())))
        return search(*arguments, **options)

    monkeypatch.setitem(searcher._searches, (False, False), noted)
    for options in (
        {"top_beams": 2},
        {"top_beams": 2, "seed": 3, "long_lines": "split", "max_source_length": 40},
        {"mbr": "chrf"},
        {"mbr": "bleu", "mbr_candidates": 2},
    ):
        translator.translate(["a b"], beam_size=2, **options)
    assert len(set(keys)) == 1
    translator.translate(["a b"], beam_size=2)
    assert len(set(keys)) == 2


def test_a_translation_tells_how_far_it_is(translator):
    told = []
    lines = lines_of(translator.tokenizer)
    with translator.watched(lambda *counts: told.append(counts)):
        translator.translate(lines, batch_size=1, beam_size=1, max_length=4)
    translator.translate(lines[:1], beam_size=1, max_length=4)
    assert told == [(1, 3), (2, 3), (3, 3)]
