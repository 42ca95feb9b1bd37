"""Subword regularisation: the same text in other pieces, the same ones each time."""

import collections
import copy
import io

import numpy as np
import pytest
import sentencepiece
from random_pairs import contents

from keras_transformer.data import phrasebook
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.bpe_merges import BPEMerges
from keras_transformer.data.corpus import read_lines
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

COUNT = 150


@pytest.fixture(scope="module")
def text():
    source, target = phrasebook.load("en", "de", "validation")
    return ParallelText([f"{line} 🐌 é" for line in source[:COUNT]], target[:COUNT])


@pytest.fixture(scope="module")
def tokenizer():
    source, target = phrasebook.load("en", "de", "test")
    return Tokenizer.train(source + target, 900, normalization="identity")


@pytest.fixture(scope="module")
def pairs(text, tokenizer):
    return encode_pairs(text, tokenizer, tokenizer, 200)[0]


def batches_of(pairs, tokenizer, dropout=0.1, **options):
    options = {"batch_tokens": 700, "max_buckets": 4, "seed": 3, **options}
    bpe_dropout = BPEDropout(tokenizer, tokenizer, dropout)
    return TokenBatches(pairs, bpe_dropout=bpe_dropout, **options)


def arrays(batch):
    return [*batch[0].values(), *batch[1:]]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def join(tokenizer, rows, dropout, seed=1):
    """What `BPEMerges.join` gives, as lists."""
    rows = rows if isinstance(rows, TokenRows) else TokenRows.from_lists(rows)
    generator = np.random.default_rng(seed)
    return BPEMerges(tokenizer).join(rows, dropout, generator).lists()


# === Merges ===


def test_without_dropout_it_is_the_tokenizers_own_segmentation(tokenizer, pairs):
    """SentencePiece is the reference."""
    for rows in (pairs.source, pairs.target):
        assert join(tokenizer, rows, 0.0) == rows.lists()


def test_real_text_without_dropout(shared_data):
    lines = read_lines(shared_data / "multi30k" / "raw" / "train.de.gz")[:3000]
    tokenizer = Tokenizer.train(lines, 4000, split_digits=True)
    rows = tokenizer.encode(lines)
    assert join(tokenizer, rows, 0.0) == rows


def test_with_all_dropout_it_is_characters(tokenizer, pairs):
    for row in join(tokenizer, pairs.target, 1.0):
        assert all(len(p) == 1 or p[:3] == "<0x" for p in tokenizer.pieces(row))


def test_the_text_stays(tokenizer, text, pairs):
    for dropout in (0.1, 0.5, 1.0):
        assert tokenizer.decode(join(tokenizer, pairs.source, dropout)) == text.source


def test_merges_are_left_out_with_the_given_probability():
    """Of `abc`, with the merges a+b and ab+c: the paper's algorithm by hand."""
    tokenizer = Tokenizer.train(["ab"] * 9 + ["abc"] * 5, 265)
    (whole,), (pair,) = tokenizer.encode(["abc"]), tokenizer.encode(["ab"])
    letters = [i for (i,) in tokenizer.encode(["a", "b", "c"])]
    assert len(whole) == len(pair) == 1
    count, dropout = 20_000, 0.3
    found = collections.Counter(map(tuple, join(tokenizer, [whole] * count, dropout)))
    expected = {
        (*whole,): (1 - dropout) ** 2,
        (*pair, letters[2]): (1 - dropout) * dropout,
        (*letters,): dropout,
    }
    assert found.keys() == expected.keys()
    for row, probability in expected.items():
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert found[row] / count == pytest.approx(probability, abs=5 * deviation)


def test_more_dropout_gives_more_pieces(tokenizer, pairs):
    counts = [
        sum(map(len, join(tokenizer, pairs.source, dropout)))
        for dropout in (0.0, 0.1, 0.3, 1.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[1] < 1.5 * counts[0]


@pytest.fixture(scope="module")
def placeholders():
    """A tokenizer with symbols of programs, which a text must keep."""
    lines = ["Found %s files in %d folders {}.", "100 % of s d { a } b"] * 50
    model, symbols = io.BytesIO(), ["%s", "%d", "{}", "e"]
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=310,
        byte_fallback=True,
        user_defined_symbols=symbols,
        minloglevel=2,
        **ids,
    )
    return Tokenizer(model.getvalue())


def test_user_defined_symbols_stay_whole(placeholders):
    lines = ["Found %s files in %d folders {}.", "%s%d{} % s {a}"]
    rows = placeholders.encode(lines)
    assert join(placeholders, rows, 0.0) == rows
    for row, found in zip(rows, join(placeholders, rows, 1.0), strict=True):
        whole, split = (placeholders.pieces(ids) for ids in (row, found))
        for symbol in ("%s", "%d", "{}"):
            assert whole.count(symbol) == split.count(symbol) > 0
        assert whole.count("e") == split.count("e")
        assert all(len(piece) == 1 or piece in whole for piece in split)
    assert len(join(placeholders, rows[:1], 1.0)[0]) > len(rows[0])


def test_user_defined_symbols_come_apart_where_a_run_began_so(placeholders):
    rows = placeholders.encode(["%s"])
    merges = BPEMerges(placeholders, split_symbols=True)
    generator = np.random.default_rng(1)
    found = merges.join(TokenRows.from_lists(rows), 1.0, generator).lists()
    assert placeholders.pieces(found[0]) == ["▁", "%", "s"]


def test_it_is_a_function_of_its_arguments(tokenizer, pairs):
    first = join(tokenizer, pairs.target, 0.1, 7)
    assert first == join(Tokenizer(tokenizer.model), pairs.target, 0.1, 7)
    assert first != join(tokenizer, pairs.target, 0.1, 8)
    assert first != pairs.target.lists()


def test_it_is_the_same_in_another_process(tokenizer, pairs, run_python, tmp_path):
    """What SentencePiece's own sampling is not, whatever its seed."""
    tokenizer.save(tmp_path / "t.model")
    rows = pairs.source.lists()[:30]
    found = run_python(
        "import numpy as np\n"
        "from keras_transformer.data.bpe_merges import *\n"
        f"tokenizer = Tokenizer.load({str(tmp_path / 't.model')!r})\n"
        f"rows = TokenRows.from_lists({rows})\n"
        "joined = BPEMerges(tokenizer).join(rows, 0.3, np.random.default_rng((5, 6)))\n"
        "print(joined.lists())"
    )
    assert found == f"{join(tokenizer, rows, 0.3, (5, 6))}\n"


def test_what_is_no_text_stays(tokenizer):
    (snail,), (morning,) = tokenizer.encode(["🐌"]), tokenizer.encode(["Morgen"])
    rows = [[5, 3, 6], [], [*morning, 3, *morning], snail, [0, 1, 2]]
    joined = join(tokenizer, rows, 1.0)
    assert [joined[i] for i in (0, 1, 3, 4)] == [rows[i] for i in (0, 1, 3, 4)]
    middle = joined[2].index(3)
    assert joined[2][:middle] == joined[2][middle + 1 :]
    assert len(joined[2]) > len(rows[2])
    assert join(tokenizer, [], 0.5) == []


def test_a_symbol_that_no_merges_make_stays_whole(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["low lower lowest x"] * 9),
        model_prefix=str(tmp_path / "bpe"),
        model_type="bpe",
        vocab_size=28,
        user_defined_symbols=["<br>"],
        minloglevel=2,
    )
    tokenizer = Tokenizer.load(tmp_path / "bpe.model")
    rows = tokenizer.encode(["low<br>lower x", "lowest"])
    assert join(tokenizer, rows, 0.0) == rows
    assert "<br>" in tokenizer.pieces(join(tokenizer, rows, 1.0)[0])


def test_a_unigram_model_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f"] * 9),
        model_prefix=str(tmp_path / "unigram"),
        vocab_size=11,
        minloglevel=2,
    )
    unigram = Tokenizer.load(tmp_path / "unigram.model")
    with pytest.raises(InputError, match=r"unigram model.*set data\.bpe_dropout to 0"):
        BPEDropout(unigram, unigram, 0.1)


# === In batches ===


@pytest.mark.parametrize("dropout", [0.0, 1.0, -0.5])
def test_dropout_is_a_probability(tokenizer, dropout):
    with pytest.raises(InputError, match=f"BPE dropout {dropout} must"):
        BPEDropout(tokenizer, tokenizer, dropout)


def test_an_epoch_holds_the_same_texts(tokenizer, text, pairs):
    batches = batches_of(pairs, tokenizer)
    epochs = []
    for _ in range(2):
        sources, targets = zip(*contents(batches), strict=True)
        found = zip(tokenizer.decode(sources), tokenizer.decode(targets), strict=True)
        assert sorted(found) == sorted(zip(text.source, text.target, strict=True))
        epochs.append(sorted(sources))
        batches.on_epoch_end()
    assert epochs[0] != epochs[1]


def test_a_batch_is_a_function_of_seed_epoch_and_number(tokenizer, pairs):
    batches = batches_of(pairs, tokenizer)
    one = [batches[index] for index in range(2 * len(batches))]
    again = batches_of(pairs, copy.deepcopy(tokenizer))
    for index in reversed(range(len(one))):  # as a resumed run would, at any step
        assert_same(again[index], one[index])
    later = batches_of(pairs, tokenizer)
    later.epoch = 1
    assert_same(later[3], one[len(batches) + 3])
    other = batches_of(pairs, tokenizer, seed=4)
    assert sorted(contents(other)) != sorted(contents(batches))


def test_shapes_are_few_and_fixed_and_weights_sum_to_one(tokenizer, pairs):
    batches = batches_of(pairs, tokenizer, dropout=0.5)
    for index in range(3 * len(batches)):
        inputs, labels, weights = batches[index]
        shape = (*inputs["source"].shape, labels.shape[1])
        assert shape in batches.shapes
        assert weights.sum(dtype=np.float64) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(weights > 0, labels != 0)


@pytest.mark.parametrize("dropout", [0.1, 0.4])
def test_most_rows_fit_into_their_new_segmentation(tokenizer, pairs, dropout):
    plain = set(map(tuple, pairs.target.lists()))
    batches = batches_of(pairs, tokenizer, dropout)
    found = [target for _, target in contents(batches)]
    free = join(tokenizer, pairs.target, dropout)
    unchanged = sum(tuple(row) in plain for row in free) / COUNT
    assert sum(row in plain for row in found) / COUNT < unchanged + 0.1


def test_no_row_grows_beyond_the_longest(tokenizer, pairs):
    longest = int(pairs.target.lengths.max()) + 1
    limit = max(longest, int(pairs.source.lengths.max()) + 1)
    dropout = BPEDropout(tokenizer, tokenizer, 0.5, limit)
    shapes = TokenBatches(pairs, 700, bpe_dropout=dropout).shapes
    assert max(max(S, T) for _, S, T in shapes) == limit
    free = BPEDropout(tokenizer, tokenizer, 0.5)
    shapes = TokenBatches(pairs, 700, bpe_dropout=free).shapes
    assert max(max(S, T) for _, S, T in shapes) > limit


def test_parts_are_those_of_the_whole_batch(tokenizer, pairs):
    batches = batches_of(pairs, tokenizer, rows_multiple_of=2)
    inputs, labels, weights = batches[1]
    for index in range(2):
        some, own_labels, own_weights = batches.part(index, 2)[1]
        rows = slice(index * len(labels) // 2, (index + 1) * len(labels) // 2)
        np.testing.assert_array_equal(some["source"], inputs["source"][rows])
        np.testing.assert_array_equal(own_labels, labels[rows])
        np.testing.assert_array_equal(own_weights, weights[rows])


def test_ids_of_16_bits_give_the_same_batches(tokenizer, pairs):
    narrow = EncodedPairs(
        *(
            TokenRows(side.ids.astype(np.uint16), side.offsets)
            for side in (pairs.source, pairs.target)
        )
    )
    assert_same(batches_of(narrow, tokenizer)[2], batches_of(pairs, tokenizer)[2])
    assert_same(TokenBatches(narrow, 700)[2], TokenBatches(pairs, 700)[2])
