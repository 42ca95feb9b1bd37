"""Exports of a model whose tokenizer has special ids of its own, and no padding."""

import io
import json

import keras
import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.engines import export_folder
from keras_transformer.export import ctranslate2
from reference.fixture_folder import ON_TENSORFLOW

pytestmark = ON_TENSORFLOW

LINES = ["The lazy dog", "the fox jumps 日", "", "x" * 9]


@pytest.fixture(scope="module")
def translator():
    """SentencePiece's defaults: unknown 0, start 1, end 2, no padding, no bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["The quick brown fox jumps over the lazy dog."] * 9),
        model_writer=model,
        vocab_size=60,
        model_type="bpe",
        minloglevel=2,
    )
    tokenizer = kt.data.Tokenizer(model.getvalue())
    keras.utils.set_random_seed(1)
    config = kt.TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_sequence_length=12,
        **tokenizer.special_ids,
    )
    return kt.Translator(kt.Transformer(config), tokenizer, beam_size=2)


def test_saved_model(translator):
    import tensorflow as tf

    from keras_transformer.export.signatures import Signatures

    functions = Signatures(translator, translator.decoding).functions()
    answer = functions["serving_default"](text=tf.constant(LINES))
    found = [text.decode() for text in answer["translation"].numpy()]
    assert found == translator.translate(LINES)
    (ids,) = translator.tokenizer.encode(["The lazy dog"])
    unknown = translator.tokenizer.unknown_id
    rows = [[unknown, *ids[1:]], [translator.model.config.pad_id, *ids[1:]]]
    answer = functions["translate_ids"](
        ids=tf.constant(rows), lengths=tf.constant([len(ids)] * 2)
    )
    assert answer["replaced"].numpy().tolist() == [False, True]
    np.testing.assert_array_equal(*answer["ids"].numpy())


def test_ctranslate2(translator, tmp_path):
    pytest.importorskip("ctranslate2")
    folder = ctranslate2.export(translator, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    names = {name: config[f"{name}_token"] for name in ("unk", "bos", "eos")}
    assert names == {"unk": "<unk>", "bos": "<s>", "eos": "</s>"}
    contents = export_folder.read(folder)
    assert contents.description.ids.pad == translator.tokenizer.vocabulary_size - 1
