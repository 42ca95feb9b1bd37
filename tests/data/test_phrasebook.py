"""The phrasebook is clean, reproducible, and neither leaked nor solved by memory."""

import collections
import gzip
import importlib.util
import itertools
import re
import unicodedata

import pytest

from keras_transformer.data import phrasebook
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

COUNTS = {"train": 75_391, "validation": 500, "test": 1000}
NUM_CARRIERS = 123
PAIRS = [("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")]


@pytest.fixture(scope="module")
def columns():
    """Texts by split and language."""
    return {
        split: {
            **dict(zip(("en", "de"), phrasebook.load("en", "de", split), strict=True)),
            "fr": phrasebook.load("en", "fr", split)[1],
        }
        for split in phrasebook.SPLITS
    }


@pytest.fixture(scope="module")
def generate():
    """The generator, where the extra `phrasebook` is installed."""
    for name in ("babel", "num2words"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: install the extra 'phrasebook'")
    from keras_transformer.data.phrasebook import generate

    return generate


@pytest.fixture(scope="module")
def generated(generate):
    return generate.corpus()


# === Reading ===


def test_counts_and_languages(columns):
    for split, count in COUNTS.items():
        assert {len(texts) for texts in columns[split].values()} == {count}


@pytest.mark.parametrize("source, target", PAIRS)
def test_a_pair_reversed_is_the_same_pair(source, target):
    sources, targets = phrasebook.load(source, target, "validation")
    assert phrasebook.load(target, source, "validation") == (targets, sources)


def test_languages_are_not_mixed_up(columns):
    for split in phrasebook.SPLITS:
        english, german, french = (columns[split][name] for name in ("en", "de", "fr"))
        assert any(re.search(r"\bthe\b", text) for text in english)
        assert not any(re.search(r"\b(und|der|le|les)\b", text) for text in english)
        assert not any(re.search(r"\b(the|and|le|les)\b", text) for text in german)
        assert not any(re.search(r"\b(the|and|und|der)\b", text) for text in french)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("en", "it", "train"), "no language 'it'; use two of en, de, fr"),
        (("EN", "de", "train"), "no language 'EN'"),
        (("de", "de", "train"), "both 'de'; use two different ones of en, de, fr"),
        (("en", "de", "dev"), "'dev'.*use one of train, validation, test"),
    ],
)
def test_an_unknown_choice_is_an_input_error(arguments, message):
    with pytest.raises(InputError, match=message):
        phrasebook.load(*arguments)


def test_reading_needs_no_other_package(run_python):
    output = run_python(
        "from keras_transformer.data import phrasebook\n"
        "import sys\n"
        "print(len(phrasebook.load('de', 'fr', 'test')[0]))\n"
        "print({'babel', 'num2words', 'numpy', 'sacrebleu', 'keras'} & {*sys.modules})",
        block=("babel", "num2words", "numpy", "sacrebleu", "keras"),
    )
    assert output.splitlines() == ["1000", "set()"]


# === The texts ===


def test_texts_are_clean(columns):
    for texts in (texts for split in columns.values() for texts in split.values()):
        for text in texts:
            assert text == text.strip()
            assert text
            assert not re.search(r"[\t\n\r{}\u2028\u2029]|  ", text)
            assert unicodedata.is_normalized("NFC", text)


def test_spaces_are_those_of_cldr(columns):
    plain_space = {
        "en": r"\d [AP]M\b",
        "de": r"\d [%€$£]",
        "fr": r"\d [%€$£]| [:;?!]|\b\d{1,3} \d{3}\b",
    }
    for language, pattern in plain_space.items():
        for text in columns["train"][language]:
            if "+" not in text:  # phone numbers are written with plain spaces
                assert not re.search(pattern, text), text


def test_texts_are_short_and_long(columns):
    for split in columns.values():
        for texts in split.values():
            sizes = [len(text.split()) for text in texts]
            assert sum(size <= 8 for size in sizes) >= len(texts) / 3
            assert sum(size >= 12 for size in sizes) >= len(texts) / 10


def test_no_text_but_a_fixed_phrase_comes_twice(columns):
    phrases = everyday_phrases()
    for language in phrasebook.LANGUAGES:
        texts = [text for split in columns.values() for text in split[language]]
        assert len(texts) == sum(COUNTS.values())
        counts = collections.Counter(texts)
        repeated = {text for text, count in counts.items() if count > 1}
        assert len(repeated) > 100 and {counts[text] for text in repeated} == {20}
        assert repeated & phrases
        for split in ("validation", "test"):
            assert not repeated & set(columns[split][language])


def everyday_phrases():
    """Fixed phrases without a name, in all languages."""
    rows = lexicon.rows("phrases")
    return {
        text.replace(" ?", "\u202f?").replace(" !", "\u202f!")
        for text in itertools.chain.from_iterable(row[:3] for row in rows)
    }


def test_every_piece_of_a_held_out_text_is_plentiful_in_training(columns):
    """Words, parts of numbers in words, and digits; numbers in digits are composed."""

    def pieces(text):
        return re.findall(r"[^\W\d_]+|\d|[^\w\s]", text)

    for language in ("en", "fr"):  # German writes a number in words as one word
        counts = collections.Counter(
            piece for text in columns["train"][language] for piece in pieces(text)
        )
        for split in ("validation", "test"):
            for text in columns[split][language]:
                assert all(counts[piece] >= 15 for piece in pieces(text)), text


@pytest.mark.parametrize("source, target", [("en", "de"), ("fr", "en")])
def test_a_lookup_translates_badly(columns, source, target):
    from keras_transformer.data.phrasebook import lookup

    train, test = (
        (columns[split][source], columns[split][target]) for split in ("train", "test")
    )
    sample = tuple(texts[::4] for texts in test)  # file order is a fair sample
    for features in (lookup.words, lookup.character_fours):
        assert lookup.lookup_bleu(train, sample, features) < 60


def test_a_lookup_finds_what_it_has_seen(columns):
    from keras_transformer.data.phrasebook import lookup

    texts = columns["test"]["en"]
    assert lookup.nearest(texts, texts[:20], lookup.words) == list(range(20))
    pair = (texts, columns["test"]["de"])
    assert lookup.lookup_bleu(pair, pair) == pytest.approx(100)


# === Generating ===


def test_generating_again_gives_the_committed_corpus(generate, generated):
    for split, sentences in generated.items():
        committed = gzip.decompress(phrasebook.path(split).read_bytes())
        assert generate.table(sentences) == committed, split


def test_files_hold_neither_a_name_nor_a_time():
    for split in phrasebook.SPLITS:
        header = phrasebook.path(split).read_bytes()[:8]
        assert header[3:8] == bytes(5), split  # flags (a name would be one) and mtime
    assert sum(phrasebook.path(s).stat().st_size for s in COUNTS) < 3.5 * 2**20


def test_slot_values_of_the_splits_are_disjoint(generated):
    marks = {
        split: {
            mark
            for sentence in sentences
            for mark in sentence.marks
            if sentence.part != "everyday"
        }
        for split, sentences in generated.items()
    }
    assert not marks["train"] & (marks["validation"] | marks["test"])
    assert not marks["validation"] & marks["test"]
    families = {mark.split()[0] for mark in marks["train"]}
    assert {mark.split()[0] for mark in marks["test"]} == families
    assert all(
        sentence.marks
        for sentences in generated.values()
        for sentence in sentences
        if sentence.part == "carriers"
    )


def test_everyday_sentences_that_are_held_out_join_words_that_training_does_not(
    generated,
):
    joined = {mark for sentence in generated["train"] for mark in sentence.marks}
    for split in ("validation", "test"):
        everyday = [s for s in generated[split] if s.part == "everyday"]
        assert len(everyday) >= 200
        assert all(set(sentence.marks) - joined for sentence in everyday)


def test_marks_tell_the_values_that_the_text_shows(generated):
    """Else disjoint marks would say nothing about the texts."""
    for sentence in generated["test"]:
        if sentence.part == "everyday":
            continue
        text = sentence.texts[0]
        for mark in sentence.marks:
            family, value = mark.split(" ", 1)
            if family in ("room", "train", "flight", "order", "phone", "year", "age"):
                assert value in text
            if family == "time":
                hour, minute, _ = value.split(":")
                shown = f"{(int(hour) - 1) % 12 + 1}:{minute}"
                assert re.search(rf"\b{shown}\b", text), (shown, text)


def test_every_carrier_comes_equally_often(generated):
    for split, sentences in generated.items():
        counts = collections.Counter(
            s.carrier for s in sentences if s.part == "carriers"
        )
        assert len(counts) == NUM_CARRIERS
        assert max(counts.values()) - min(counts.values()) <= 1, split


def test_every_carrier_has_its_short_sentences_in_training(generated, generate):
    counts = collections.Counter(
        s.carrier for s in generated["train"] if s.part == "short"
    )
    assert sorted(counts) == list(range(len(generate.SHORT_CARRIERS)))
    assert len(counts) > NUM_CARRIERS and min(counts.values()) >= 5


def test_carriers_have_the_same_slots_in_every_language(generate):
    for carrier in (*generate.CARRIERS, *generate.SHORT_CARRIERS):
        for template in carrier.templates.values():
            slots = re.findall(r"{(\w+)}", template)
            assert sorted(slots) == sorted(carrier.slots)
    assert all(len(carrier.slots) >= 2 for carrier in generate.CARRIERS)


def test_command_writes_and_checks(generate, generated, tmp_path, capsys, monkeypatch):
    small = {split: sentences[:50] for split, sentences in generated.items()}
    monkeypatch.setattr(generate, "corpus", lambda: small)
    folder = tmp_path / "new" / "phrasebook"
    assert generate.main(["--check", "--output", str(folder)]) == 1
    assert not folder.exists()
    capsys.readouterr()
    assert generate.main(["--output", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "train: 50 sentences, mean words en " in printed
    assert re.search(r"lookup by words, en-fr: BLEU \d", printed)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert sorted(files) == ["test.tsv.gz", "train.tsv.gz", "validation.tsv.gz"]
    assert generate.main(["--output", str(folder)]) == 0
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == files
    assert generate.main(["--check", "--output", str(folder)]) == 0
    (folder / "test.tsv.gz").write_bytes(gzip.compress(b"en\tde\tfr\n"))
    capsys.readouterr()
    assert generate.main(["--check", "--output", str(folder)]) == 1
    assert capsys.readouterr().out == "different: test\n"


def test_readme_tells_the_counts_and_lengths(columns):
    text = phrasebook.path("train").with_name("README.md").read_text(encoding="utf-8")
    for split, count in COUNTS.items():
        means = " / ".join(
            f"{sum(len(line.split()) for line in columns[split][language]) / count:.1f}"
            for language in ("en", "de", "fr")
        )
        assert f"| `{split}.tsv.gz` | {count:,} | {means} |" in text
    assert f"{NUM_CARRIERS} carrier" in text
