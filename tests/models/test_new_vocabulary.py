"""A new vocabulary for a trained model: what both have keeps its weights."""

import io

import keras
import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.data.new_pieces import old_rows
from keras_transformer.errors import InputError
from keras_transformer.models import KINDS
from keras_transformer.models.weights import weight_values
from reference.weights import randomize

pytestmark = pytest.mark.one_backend

SIZES = {"hidden_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}


def tokenizer(text, size=280):
    return kt.data.Tokenizer.train([text] * 9, size)


@pytest.fixture(scope="module")
def tokenizers():
    """Old ones of source and target, and new ones."""
    old = tokenizer("low lower lowest"), tokenizer("ab abc abcd xyz", 276)
    return old, (tokenizer("slower slow owl"), tokenizer("abc cab z", 273))


def model(kind, tokenizers, **fields):
    sizes = {
        f"{side}_vocabulary_size": table.vocabulary_size
        for side, table in zip(("source", "target"), tokenizers, strict=True)
    }
    config = KINDS[kind].config_class(
        **SIZES, **sizes, output_bias=True, **{"tie_embeddings": "none", **fields}
    )
    return randomize(KINDS[kind](config))


@pytest.mark.parametrize("kind", KINDS)
def test_shared_pieces_keep_their_rows_and_all_else_keeps_its_weights(kind, tokenizers):
    old, new = tokenizers
    trained = model(kind, old)
    keras.utils.set_random_seed(5)
    changed = kt.models.with_new_vocabulary(trained, old, new)
    keras.utils.set_random_seed(5)
    fresh = weight_values(KINDS[kind](changed.config))
    before, after = weight_values(trained), weight_values(changed)
    sides = {"source_embedding": 0, "target_embedding": 1, "output_embedding": 1}
    for path, values in after.items():
        side = sides.get(path.split("/")[0])
        if side is None:
            np.testing.assert_array_equal(values, before[path])
            continue
        pieces = [
            table[side].pieces(range(len(rows)))
            for table, rows in ((old, before[path]), (new, values))
        ]
        kinds = set()
        for number, piece in enumerate(pieces[1]):
            rows = old_rows(old[side], new[side])[number]
            if piece in pieces[0]:
                assert [pieces[0][row] for row in rows] == [piece]
            elif rows:
                assert "".join(pieces[0][row] for row in rows) == piece
            expected = before[path][rows].mean(0) if rows else fresh[path][number]
            np.testing.assert_allclose(values[number], expected, rtol=1e-6)
            kinds.add(min(len(rows), 2))
        assert kinds >= {1, 2}


def test_the_same_vocabulary_gives_the_same_model(tokenizers):
    old, _ = tokenizers
    trained = model("transformer", old, tie_embeddings="target")
    same = kt.models.with_new_vocabulary(trained, old, old)
    assert same.config == trained.config
    for path, values in weight_values(trained).items():
        np.testing.assert_array_equal(weight_values(same)[path], values)


def test_the_dtype_policy_stays_and_int8_is_refused(tokenizers):
    old, new = tokenizers
    mixed = kt.Transformer(model("transformer", old).config, dtype="mixed_bfloat16")
    found = kt.models.with_new_vocabulary(mixed, old, new)
    assert found.dtype_policy.name == "mixed_bfloat16"
    int8 = model("transformer", old)
    int8.quantize("int8")
    with pytest.raises(InputError, match="a new vocabulary takes float models alone"):
        kt.models.with_new_vocabulary(int8, old, new)


def test_special_ids_keep_their_rows_whatever_their_numbers_are():
    """Padding that starts, as Marian's, gives its row to both of them."""
    theirs = sentencepiece_of("ab abc", bos_id=-1, eos_id=0, unk_id=1)
    ours = tokenizer("ab abc", 270)
    size = theirs.vocabulary_size
    assert theirs.special_ids == {"pad_id": size - 1, "start_id": size - 1, "end_id": 0}
    assert old_rows(theirs, ours)[:4] == [[size - 1], [size - 1], [0], [1]]
    back = old_rows(ours, theirs)
    assert (back[0], back[1], back[size - 1]) == ([2], [3], [0])


def sentencepiece_of(text, **ids):
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([text] * 9),
        model_writer=content,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
        **ids,
    )
    return kt.data.Tokenizer(content.getvalue())


def test_a_tied_model_needs_new_tokenizers_of_one_size(tokenizers):
    old, new = tokenizers
    tied = model("transformer", (old[0], old[0]), tie_embeddings="all")
    with pytest.raises(InputError, match='tie_embeddings "all" needs one vocabulary'):
        kt.models.with_new_vocabulary(tied, (old[0], old[0]), new)
