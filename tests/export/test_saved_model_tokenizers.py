"""SavedModel of two vocabularies: each side is cut and joined by pieces of its own."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from reference import configs
from reference.fixture_folder import ON_TENSORFLOW

pytestmark = ON_TENSORFLOW

LINES = ["aab bab", "", "bbbb"]


@pytest.fixture(scope="module")
def translator():
    """From words of a and b to words of x and y: but for bytes no piece is of both."""
    texts = {274: "a b ab ba aab bba abab baba aabb", 275: "x y xy yx xxy yyx xyxy"}
    tokenizers = [
        kt.data.Tokenizer.train([text] * 9, size) for size, text in texts.items()
    ]
    keras.utils.set_random_seed(1)
    sizes = {"source_vocabulary_size": 274, "target_vocabulary_size": 275}
    config = configs.tiny(**sizes, tie_embeddings="none", max_sequence_length=12)
    no_bytes = {"suppressed_tokens": tuple(range(4, 260)), "min_length": 3}
    return kt.Translator(
        kt.Transformer(config), *tokenizers, beam_size=1, max_length=6, **no_bytes
    )


def test_text_is_that_of_the_translator(translator, tmp_path):
    import tensorflow as tf

    folder = kt.export.saved_model.export(translator, tmp_path / "model")
    loaded = tf.saved_model.load(str(folder))
    text = tf.constant(LINES)
    answer = loaded.signatures["serving_default"](text=text)
    found = [line.decode() for line in answer["translation"].numpy()]
    assert found == translator.translate(LINES)
    assert set("".join(found)) <= set("xy ")
    target = ["xxy", "x", "yx"]
    answer = loaded.signatures["score"](source=text, target=tf.constant(target))
    scores = [score.log_probability for score in translator.score(LINES, target)]
    np.testing.assert_allclose(answer["log_probability"], scores, atol=1e-4)
