"""A tokenizer from elsewhere: it normalizes, and has no bytes for what it lacks."""

import io

import keras
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.errors import InputError


@pytest.fixture(scope="module")
def stranger():
    """A translator whose tokenizer, from elsewhere, normalizes and knows no bytes."""
    keras.utils.set_random_seed(1)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ein Haus"] * 9),
        model_writer=model,
        vocab_size=13,
        **{"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "minloglevel": 2},
    )
    tokenizer = kt.data.Tokenizer(model.getvalue())
    sizes = {"hidden_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = kt.TransformerConfig(vocabulary_size=13, intermediate_dim=8, **sizes)
    return kt.Translator(kt.Transformer(config), tokenizer, max_length=9)


def test_a_prefix_that_cannot_be_spelled_is_refused(stranger):
    assert len(stranger.translate(["Haus"], prefixes=["ein"])) == 1
    with pytest.raises(InputError, match="line 2: the tokenizer cannot spell its pref"):
        stranger.translate(["Haus", "Haus"], prefixes=["", "ein 日"])


def test_alignments_count_the_words_of_both_texts(stranger):
    """Of the line, which has fewer than its normal form, and with unknown words."""
    line = "Haus´ein \u200b Haus"
    (found,) = stranger.translate(
        [line], sampling=True, top_beams=16, return_details=True, return_alignments=True
    )
    assert any("⁇" in hypothesis.text for hypothesis in found)
    for hypothesis in found:
        numbers = range(len(hypothesis.text.split()))
        assert {j for _, j in hypothesis.alignment} == set(numbers)
        assert {i for i, _ in hypothesis.alignment} <= {0, 2}
    assert len({i for hypothesis in found for i, _ in hypothesis.alignment}) == 2
