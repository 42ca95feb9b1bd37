"""The signature of a SavedModel for clients that bring ids: one bad row is one row."""

import numpy as np

from keras_transformer.config import UNKNOWN_ID
from reference.fixture_folder import ON_TENSORFLOW

pytestmark = ON_TENSORFLOW

MOST = 2**31 - 1


def test_what_lies_beyond_a_length_does_not_count(loaded):
    import tensorflow as tf

    translate = loaded["translate_ids"]
    ids = np.array([[9, 8, 7, 0, 0], [300, 301, 302, 303, 304]], "int32")
    first = translate(ids=tf.constant(ids), lengths=tf.constant([3, 5]))
    ids[0, 3:] = 9  # how TF Serving fills up requests of several lengths
    second = translate(ids=tf.constant(ids), lengths=tf.constant([3, 5]))
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])


def test_a_bad_row_is_marked_and_fails_no_other(loaded, translator):
    import tensorflow as tf

    translate = loaded["translate_ids"]
    size, config = translator.tokenizer.vocabulary_size, translator.model.config
    good = [300, 301, 302, 303, 304]
    bad = [-1, size, MOST, -MOST - 1, config.pad_id, config.start_id, config.end_id]
    rows = [good, *([300, 301, value, 303, 304] for value in bad)]
    rows += [[300, 301, UNKNOWN_ID, 303, 304], [300, 301, size, -1, -1]]
    lengths = [5] * (len(rows) - 1) + [2]
    answer = translate(ids=tf.constant(rows), lengths=tf.constant(lengths))
    expected = [False, *[True] * len(bad), False, False]
    assert answer["replaced"].numpy().tolist() == expected
    assert not answer["truncated"].numpy().any()
    alone = translate(ids=tf.constant([good]), lengths=tf.constant([5]))
    width = alone["ids"].shape[1]
    np.testing.assert_array_equal(answer["ids"][0, :width], alone["ids"][0])
    # What is replaced is what the client could have sent.
    for row in range(1, 1 + len(bad)):
        np.testing.assert_array_equal(answer["ids"][row], answer["ids"][len(bad) + 1])


def test_a_length_that_the_row_has_not_is_clamped_and_marked(loaded):
    import tensorflow as tf

    translate = loaded["translate_ids"]
    ids = [[300, 301, 302]] * 5
    answer = translate(ids=tf.constant(ids), lengths=tf.constant([3, 4, MOST, -1, 0]))
    assert answer["truncated"].numpy().tolist() == [False, True, True, True, False]
    for row in (1, 2):
        np.testing.assert_array_equal(answer["ids"][row], answer["ids"][0])
    assert answer["num_tokens"].numpy()[3:].tolist() == [0, 0]
    nothing = tf.zeros((2, 0), tf.int32)
    answer = translate(ids=nothing, lengths=tf.constant([0, 1]))
    assert answer["num_tokens"].numpy().tolist() == [0, 0]
    assert answer["truncated"].numpy().tolist() == [False, True]
