"""A tokenizer from elsewhere: it normalizes, and has no bytes for what it lacks."""

import io

import keras
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.errors import InputError

pytestmark = pytest.mark.one_backend

#: What is elsewhere: the ids of this package, and others.
IDS = [
    {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3},
    {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3},
    {},  # unknown 0, start 1, end 2, no padding
]


@pytest.fixture(scope="module", params=IDS, ids=["ours", "unknown first", "defaults"])
def stranger(request):
    """A translator whose tokenizer, from elsewhere, normalizes and knows no bytes."""
    keras.utils.set_random_seed(1)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ein Haus"] * 9),
        model_writer=model,
        vocab_size=12 + ("pad_id" in request.param),
        minloglevel=2,
        **request.param,
    )
    tokenizer = kt.data.Tokenizer(model.getvalue())
    sizes = {"hidden_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    config = kt.TransformerConfig(
        vocabulary_size=tokenizer.vocabulary_size,
        intermediate_dim=8,
        **sizes,
        **tokenizer.special_ids,
    )
    return kt.Translator(kt.Transformer(config), tokenizer, max_length=9)


def test_a_prefix_that_cannot_be_spelled_is_refused(stranger):
    assert len(stranger.translate(["Haus"], prefixes=["ein"])) == 1
    with pytest.raises(
        InputError, match="line 2: the tokenizer cannot encode its pref"
    ):
        stranger.translate(["Haus", "Haus"], prefixes=["", "ein 日"])


def test_alignments_count_the_words_of_both_texts(stranger):
    """Of the line, which has fewer than its normal form, and with unknown words."""
    line = "Haus´ein \u200b Haus"
    options = {"return_details": True, "return_alignments": True, "top_beams": 16}
    found = [
        hypothesis
        for seed in range(4)
        for hypothesis in stranger.translate(
            [line], sampling=True, seed=seed, **options
        )[0]
    ]
    assert any("⁇" in hypothesis.text for hypothesis in found)
    for hypothesis in found:
        numbers = range(len(hypothesis.text.split()))
        assert {j for _, j in hypothesis.alignment} == set(numbers)
        assert {i for i, _ in hypothesis.alignment} <= {0, 2}
    words = {i for hypothesis in found for i, _ in hypothesis.alignment}
    # The weights of a model of other ids are others, and may attend to one word.
    assert len(words) == 2 or stranger.tokenizer.unknown_id != 3
