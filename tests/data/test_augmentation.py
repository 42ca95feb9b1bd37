"""Sources in another case and with typos: how often, when, and what stays."""

import collections

import numpy as np
import pytest
import sentencepiece
from random_pairs import contents

import keras_transformer as kt
from keras_transformer.config.languages import Languages
from keras_transformer.data import phrasebook
from keras_transformer.data.augmentation import Augmentation
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.packing import PackedBatches
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_noise import noised
from keras_transformer.data.text_noise import with_typos
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

COUNT = 240
CASINGS = {"upper": 0.25, "title": 0.125, "lower": 0.125}


@pytest.fixture(scope="module")
def text():
    source, target = phrasebook.load("en", "de", "validation")
    # A number of its own tells each pair, whatever becomes of its words.
    lines = enumerate(zip(source[:COUNT], target[:COUNT], strict=True))
    pairs = [(f"{one} of McCoy {i}", f"{other} {i}") for i, (one, other) in lines]
    sides = zip(*pairs, strict=True)
    return ParallelText(*([" ".join(line.split()) for line in side] for side in sides))


@pytest.fixture(scope="module")
def tokenizer(text):
    cased = [line.upper() for line in text.source]
    return Tokenizer.train([*text.source, *cased, *text.target], 900)


@pytest.fixture(scope="module")
def pairs(text, tokenizer):
    return encode_pairs(text, tokenizer, tokenizer, 200)[0]


@pytest.fixture(scope="module")
def batches(pairs, tokenizer):
    augment = Augmentation(tokenizer, CASINGS)
    return TokenBatches(pairs, 700, max_buckets=2, seed=3, augment=augment)


def arrays(batch):
    return [*batch[0].values(), *batch[1:]]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def epoch_of(batches, tokenizer):
    """Source and target of each pair that an epoch has, as text."""
    sources, targets = zip(*contents(batches), strict=True)
    return zip(tokenizer.decode(sources), tokenizer.decode(targets), strict=True)


# === Text ===


def test_the_noised_text_of_an_evaluation():
    lines = ["Ein Mann isst 3 Äpfel.", "ΣΟΦΙΑ, it's McCoy"]
    found = noised(lines)
    assert list(found) == ["plain", "upper", "title", "lower", "typos"]
    assert found["plain"] == lines
    assert found["upper"][0] == "EIN MANN ISST 3 ÄPFEL."
    assert found["title"] == ["Ein Mann Isst 3 Äpfel.", "ΣΟΦΙΑ, It's McCoy"]
    assert found["lower"][1] == "σοφια, it's mccoy"
    many = noised(["several words stand here"] * 500)["typos"]
    words = [word for line in many for word in line.split()]
    right = {"several", "words", "stand", "here"}
    assert len(words) == 2000
    assert sum(word not in right for word in words) / 2000 == pytest.approx(
        0.1, abs=0.03
    )
    assert many == noised(["several words stand here"] * 500)["typos"]


def test_a_typo_is_one_of_four():
    random = np.random.default_rng(1)
    found = collections.Counter(with_typos("cat", 1.0, random) for _ in range(4000))
    swapped, missing, doubled = ["act", "cta"], ["at", "ct"], ["ccat", "caat"]
    mistaken = ["xat", "vat", "cst"]
    for kind in (swapped, missing, doubled, mistaken):
        assert sum(found[word] for word in kind) / 4000 == pytest.approx(0.25, abs=0.04)
    assert not found.keys() - {*swapped, *missing, *doubled, *mistaken}


@pytest.mark.parametrize(
    "text",
    ["12.5 % (a) - 🐌 \u202a!\u202c", "", "  ", "\x07 7"],
)
def test_what_is_no_word_has_no_typos(text):
    random = np.random.default_rng(1)
    assert all(with_typos(text, 1.0, random) == text for _ in range(20))


@pytest.mark.parametrize("word", ["हिन्दी", "e\u0301te\u0301", "می\u200cخواهم", "ชื่อนี้"])
def test_marks_stay_with_their_letters(word):
    """Of each typo, the marks are those that stood behind the same letter before."""
    letters = set(clusters(word))
    for seed in range(60):
        typed = with_typos(word, 1.0, np.random.default_rng(seed))
        assert {letter for letter in clusters(typed) if len(letter) > 1} <= letters


def clusters(word):
    """The letters of a word with what belongs to each, by a rule of its own."""
    marks = [i for i, c in enumerate(word) if not c.isalpha()]
    joined = {i + 1 for i in marks if word[i] == "\u200c"}
    cuts = [i for i in range(len(word)) if i not in marks and i not in joined]
    for begin, end in zip(cuts, [*cuts[1:], len(word)], strict=True):
        yield word[begin:end]


# === Batches ===


def test_an_epoch_has_the_share_of_each_case(text, tokenizer, batches):
    plain = dict(zip(text.target, text.source, strict=True))
    seen = collections.defaultdict(set)
    for epoch in range(8):
        batches.epoch = epoch
        counts = collections.Counter()
        for source, target in epoch_of(batches, tokenizer):
            before = plain[target]
            forms = noised([before])
            (kind,) = (name for name in ("plain", *CASINGS) if forms[name] == [source])
            counts[kind] += 1
            seen[kind].add(target)
        # Rounded up in each bucket of each kind.
        for kind, share in {"plain": 0.5, **CASINGS}.items():
            assert 0 <= counts[kind] - COUNT * share <= 4
    for kind in ("upper", "title", "lower"):
        # In 8 epochs each pair, but for the few that do not fit.
        assert 0.97 * COUNT < len(seen[kind]) <= COUNT


def test_typos_are_drawn_anew_each_time(text, tokenizer, pairs):
    augment = Augmentation(tokenizer, typos=0.2)
    batches = TokenBatches(pairs, 700, max_buckets=2, augment=augment)
    plain = dict(zip(text.target, text.source, strict=True))
    epochs = []
    for epoch in range(2):
        batches.epoch = epoch
        found = {target: source for source, target in epoch_of(batches, tokenizer)}
        assert found.keys() == plain.keys()
        epochs.append(found)
    assert epochs[0] != epochs[1]
    words = [
        (one, other)
        for target, source in epochs[0].items()
        for one, other in zip(plain[target].split(), source.split(), strict=True)
        if one[:2].isalpha() and len(one) > 1
    ]
    changed = sum(one != other for one, other in words) / len(words)
    assert 0.14 < changed < 0.22  # a word of two equal letters may be swapped


def test_a_batch_is_a_function_of_seed_epoch_and_number(tokenizer, pairs):
    def make(seed=3):
        augment = Augmentation(tokenizer, CASINGS, typos=0.1)
        dropout = BPEDropout(tokenizer, tokenizer, 0.1)
        return TokenBatches(pairs, 700, seed=seed, augment=augment, bpe_dropout=dropout)

    batches, again = make(), make()
    one = [batches[index] for index in range(2 * len(batches))]
    for index in reversed(range(len(one))):  # as a resumed run would, at any step
        assert_same(again[index], one[index])
    steps = again.from_step(len(batches) + 2)
    steps.on_epoch_begin()
    assert_same(steps[1], one[len(batches) + 3])
    other = make(seed=4)
    assert sorted(contents(other)) != sorted(contents(batches))
    shapes = set()
    for inputs, labels, weights in one:
        shapes.add((*inputs["source"].shape, labels.shape[1]))
        assert weights.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(weights > 0, labels != 0)
    assert shapes <= set(batches.shapes)


@pytest.mark.parametrize("packs", [False, True])
def test_parts_are_those_of_the_whole_batch(tokenizer, pairs, packs):
    augment = Augmentation(tokenizer, CASINGS, typos=0.1)
    options = {"augment": augment, "rows_multiple_of": 2}
    if packs:
        batches = PackedBatches(pairs, 700, length=160, **options)
    else:
        batches = TokenBatches(pairs, 700, **options)
    inputs, labels, weights = batches[1]
    for index in range(2):
        some, own_labels, own_weights = batches.part(index, 2)[1]
        rows = slice(index * len(labels) // 2, (index + 1) * len(labels) // 2)
        np.testing.assert_array_equal(some["source"], inputs["source"][rows])
        np.testing.assert_array_equal(own_labels, labels[rows])
        np.testing.assert_array_equal(own_weights, weights[rows])


def test_several_corpora_keep_their_weights_in_packed_rows(text, tokenizer, pairs):
    augment = Augmentation(tokenizer, {"upper": 0.5})
    shares = [(COUNT // 2, 1.0), (COUNT // 2, 0.5)]
    batches = PackedBatches(pairs, 700, length=160, shares=shares, augment=augment)
    counts = collections.Counter()
    for inputs, labels, _ in (batches[i] for i in range(4 * len(batches))):
        for rows, side in ((inputs["source"], "source"), (labels, "target")):
            ends = [np.split(row, np.flatnonzero(row == 2) + 1)[:-1] for row in rows]
            lines = tokenizer.decode([part.tolist() for row in ends for part in row])
            if side == "source":
                upper = [line == line.upper() for line in lines]
                numbers = [int(line.split()[-1]) for line in lines]
            else:
                assert [int(line.split()[-1]) for line in lines] == numbers
        counts.update(
            (n >= COUNT // 2, up) for n, up in zip(numbers, upper, strict=True)
        )
    for second, weight in ((False, 1.0), (True, 0.5)):
        for is_upper in (False, True):
            expected = 4 * COUNT // 2 * weight / 2
            assert counts[second, is_upper] == pytest.approx(expected, rel=0.2)


def test_a_source_that_does_not_fit_stays(tokenizer, pairs):
    longest = int(pairs.source.lengths.max()) + 1
    augment = Augmentation(tokenizer, {"upper": 1.0}, typos=0.5, max_length=longest)
    batches = TokenBatches(pairs, 700, augment=augment)
    assert max(S for _, S, _ in batches.shapes) == longest
    before = [tuple(row) for row in pairs.source.lists()]
    limits = pairs.source.lengths
    found = augment(pairs, np.zeros(COUNT, int), limits, seed=(1,)).source
    assert (found.lengths <= limits).all()
    kept = [tuple(row) for row in found.lists()]
    stays = [one == other for one, other in zip(before, kept, strict=True)]
    assert any(stays) and not all(stays)


def test_what_stands_around_a_text_and_symbols_stay():
    tags, symbols = ("<2de>", "<2en>"), ("<url>", "abc")
    tokenizer = Tokenizer.train(
        ["ein haus a house see <url> or abc"] * 9,
        300,
        reserved_symbols=tags,
        user_defined_symbols=symbols,
    )
    ids = dict(zip(("de", "en"), tokenizer.ids_of(tags), strict=True))
    languages = Languages(codes=ids, source_layout=("target", "text", "end"))
    codes = {"source_language": "en", "target_language": "de"}
    text = kt.data.ParallelText(["see <url> or abc abca"], ["ein haus"])
    pairs, _ = encode_pairs(
        text, tokenizer, tokenizer, 90, languages=languages, **codes
    )
    augment = Augmentation(tokenizer, {"upper": 1.0}, typos=0.3)
    for seed in range(9):
        found = augment(pairs, [0], 99, seed=(seed,))
        (row,) = found.source.lists()
        assert (row[0], row[-1]) == (ids["de"], 2)
        (line,) = tokenizer.decode([row])
        assert "<url>" in line and "abc" in line and "see" not in line
        assert found.target is pairs.target and found.is_whole


@pytest.fixture
def foreign(tmp_path):
    """A tokenizer that begins each text with a space, SentencePiece's default."""
    lines = ["ein haus EIN HAUS", "das haus DAS HAUS"] * 9
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(tmp_path / "foreign"),
        model_type="bpe",
        vocab_size=320,
        hard_vocab_limit=False,
        user_defined_symbols=["<2de>"],
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        minloglevel=2,
    )
    return Tokenizer.load(tmp_path / "foreign.model")


def test_a_tag_of_a_foreign_tokenizer_stays_in_front(foreign):
    tokenizer = foreign
    (tag,) = tokenizer.ids_of(["<2de>"])
    (ids,), (capitals,) = map(tokenizer.encode, (["ein haus"], ["EIN HAUS"]))
    rows = TokenRows.from_lists([[tag, *ids]])
    augment = Augmentation(tokenizer, {"upper": 1.0})
    found = augment(EncodedPairs(rows, rows), [0], 99, seed=(1,))
    assert found.source.lists() == [[tag, *capitals]]


@pytest.mark.parametrize("tagged", [False, True])
def test_the_space_in_front_of_a_text_stays_one(foreign, tagged):
    """A piece by itself where bytes or a rare letter follow."""
    tag = foreign.ids_of(["<2de>"]) if tagged else []
    lines = ["über haus", "ein haus", "xaver", "12 haus"]
    before = foreign.encode(lines)
    assert foreign.pieces(before[0])[:2] == ["▁", "<0xC3>"]
    rows = TokenRows.from_lists([[*tag, *ids] for ids in before])
    augment = Augmentation(foreign, {"upper": 1.0})
    found = augment(EncodedPairs(rows, rows), [0] * len(lines), 99, seed=(1,))
    after = foreign.encode([line.upper() for line in lines])
    assert found.source.lists() == [[*tag, *ids] for ids in after]


@pytest.mark.parametrize(
    ("casings", "typos", "message"),
    [
        ({"upper": 1.5}, 0.0, r"share 1\.5 of upper must be between 0 and 1"),
        ({"upper": 0.6, "lower": 0.6}, 0.0, r"upper and lower add up to 1\.2"),
        ({"sponge": 0.1}, 0.0, "unknown casing 'sponge'; use one of upper, title"),
        ({}, -0.1, r"share -0\.1 of typos"),
        ({"upper": 0.0}, 0.0, "nothing is augmented"),
    ],
)
def test_what_is_no_share_is_refused(tokenizer, casings, typos, message):
    with pytest.raises(InputError, match=message):
        Augmentation(tokenizer, casings, typos)
