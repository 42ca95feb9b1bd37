"""Special ids are those of the tokenizer, whatever numbers they have."""

import numpy as np
import pytest
from foreign_tokenizers import EXPECTED
from foreign_tokenizers import IDS
from foreign_tokenizers import foreign

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

TEXT = ["The quick brown fox jumps over the lazy dog."] * 9


@pytest.fixture(scope="module", params=IDS)
def case(request):
    """The name of what SentencePiece was told, and the tokenizer."""
    return request.param, foreign(TEXT, **IDS[request.param])


def test_a_tokenizer_says_its_own_special_ids(case):
    name, tokenizer = case
    *ids, unknown = EXPECTED[name]
    assert list(tokenizer.special_ids.values()) == ids
    assert tokenizer.unknown_id == unknown
    size = tokenizer.vocabulary_size
    assert size == 300 + (ids[0] == 300)
    tokenizer.check(vocabulary_size=size, **tokenizer.special_ids, where="here")
    with pytest.raises(InputError, match="here: the tokenizer has end_id"):
        wrong = {**tokenizer.special_ids, "end_id": 7}
        tokenizer.check(vocabulary_size=size, **wrong, where="here")


def test_special_ids_are_no_text(case):
    _, tokenizer = case
    pad, start, end = tokenizer.special_ids.values()
    (fox,) = tokenizer.encode(["The fox"])
    assert not {pad, start, end, tokenizer.unknown_id} & set(fox)
    assert tokenizer.decode([[start, *fox, end, pad, pad]]) == ["The fox"]
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    assert len(set(pieces)) == tokenizer.vocabulary_size
    assert tokenizer.ids_of(pieces) == list(range(tokenizer.vocabulary_size))
    assert pieces[pad] == "<pad>"
    assert len(tokenizer.scores()) == tokenizer.vocabulary_size


def test_an_appended_padding_has_a_name_of_its_own():
    tokenizer = foreign(TEXT, user_defined_symbols=["<pad>"])
    pieces = tokenizer.pieces(range(301))
    assert pieces[300] == "<appended pad>"
    assert pieces[tokenizer.encode(["<pad>"])[0][-1]] == "<pad>"
    assert tokenizer.ids_of(["<appended pad>", "300"]) == [300, 300]


def test_a_tokenizer_without_an_end_is_refused():
    tokenizer = foreign(TEXT, eos_id=-1)
    with pytest.raises(InputError, match=r"no end .*eos_id"):
        tokenizer.check(
            vocabulary_size=301, pad_id=300, start_id=1, end_id=2, where="here"
        )


def test_batches_have_the_ids_of_the_tokenizer(case):
    _, tokenizer = case
    pad, start, end = tokenizer.special_ids.values()
    text = ParallelText(["The fox", "dog"], ["dog", "The lazy dog."])
    pairs, _ = encode_pairs(text, tokenizer, tokenizer, max_length=99)
    dropout = BPEDropout(tokenizer, tokenizer, 0.1)
    for options in ({}, {"bpe_dropout": dropout}):
        batches = TokenBatches(pairs, 99, max_buckets=1, **options)
        assert batches.special_ids == tokenizer.special_ids
        assert batches.from_step(0).special_ids == tokenizer.special_ids
        inputs, labels, weights = batches[0]
        assert (inputs["target"][:, 0] == start).all()
        np.testing.assert_array_equal(weights > 0, labels != pad)
        ends = (labels != pad).sum(axis=1) - 1
        assert (labels[np.arange(2), ends] == end).all()
        assert ((inputs["source"] == end).sum(axis=1) == 1).all()
    given = TokenBatches(pairs, 99, pad_id=77)
    assert given.special_ids == {**tokenizer.special_ids, "pad_id": 77}


def test_batches_take_special_ids_by_their_names():
    rows = TokenRows.from_lists([[5, 6]])
    ids = {"end_id": 7, "start_id": 8, "pad_id": 9}
    batches = TokenBatches(EncodedPairs(rows, rows, ids), 99)
    inputs, labels, _ = batches[0]
    assert inputs["target"].tolist() == [[8, 5, 6]]
    assert labels.tolist() == [[5, 6, 7]]
    assert (batches.pad_id, batches.start_id, batches.end_id) == (9, 8, 7)


def test_pairs_of_tokenizers_with_other_special_ids_are_not_joined():
    rows = TokenRows.from_lists([[5, 6]])
    ids = [None, {"pad_id": 0}, {"pad_id": 0}, {"pad_id": 3}]
    pairs = [EncodedPairs(rows, rows, own) for own in ids]
    joined = EncodedPairs.concatenate(pairs[:3])
    assert (len(joined), joined.special_ids) == (3, {"pad_id": 0})
    with pytest.raises(InputError, match=r"'pad_id': 0.*'pad_id': 3.*one tokenizer"):
        EncodedPairs.concatenate(pairs)
