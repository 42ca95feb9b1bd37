import numpy as np
import pytest
from keras import ops
from lattices import assert_same
from lattices import hypotheses

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.models.search import search
from reference.marks import all_on_one_backend
from reference.weights import scatter

VOCABULARY_SIZE, LENGTH = 13, 11
SENTENCES = [[5, 9, 2], [7, 2], [4, 4, 12, 8, 11, 6, 2], [10, 3, 5, 2]]
LIMITS = [6, 11, 3, 9]
BEAM_SIZES = (1, 3)
SEED = 4  # of weights with which some hypotheses end and others reach their limit


def source(sentences, length=7):
    ids = [sentence + [0] * (length - len(sentence)) for sentence in sentences]
    return np.array(ids, "int32")


class Searches:
    """A random Transformer and its searches, compiled and not."""

    def __init__(self, dtype=None, **fields):
        config = TransformerConfig.from_preset(
            "tiny",
            vocabulary_size=VOCABULARY_SIZE,
            hidden_dim=12,
            intermediate_dim=17,
            num_heads=2,
            num_encoder_layers=1,
            num_decoder_layers=2,
            dropout=0.0,
            **fields,
        )
        self.model = Transformer(config, dtype=dtype)
        self.randomize(SEED)
        self.compiled = backends.compile(self.run, self.model)

    def randomize(self, seed, spread=0.6):
        scatter(self.model, seed, spread)

    def run(self, source, limits, *, beam_size):
        options = DecodingOptions(beam_size=beam_size, top_beams=beam_size)
        return search(self.model, source, limits, length=LENGTH, options=options)

    def eager(self, *arguments, **options):
        arguments = map(ops.convert_to_tensor, arguments)
        return hypotheses(self.run(*arguments, **options))

    def __call__(self, source, limits, **options):
        limits = np.array(limits, "int32")
        return hypotheses(self.compiled(source, limits, **options))

    def teacher_forced(self, source, tokens):
        """The log-probability of `tokens` after each row, without any search."""
        labels = np.zeros((len(tokens), LENGTH), "int32")
        for row, ids in enumerate(tokens):
            labels[row, : len(ids)] = ids
        target = np.concatenate([np.ones_like(labels[:, :1]), labels[:, :-1]], axis=1)
        logits = self.model({"source": source, "target": target})
        log_probabilities = ops.convert_to_numpy(ops.log_softmax(logits, axis=-1))
        chosen = np.take_along_axis(log_probabilities, labels[..., None], axis=2)
        return [
            row[: len(ids), 0].sum() for row, ids in zip(chosen, tokens, strict=True)
        ]


@pytest.fixture(scope="module")
def searches():
    return Searches()


@pytest.mark.parametrize("beam_size", all_on_one_backend(BEAM_SIZES, but=(3,)))
@pytest.mark.parametrize(
    "fields",
    [
        {},
        pytest.param(
            {"attention_window": 2, "normalize_first": True},
            marks=pytest.mark.one_backend,
        ),
        pytest.param(
            {"position": "learned", "max_sequence_length": 16, "value_dim": 5},
            marks=pytest.mark.one_backend,
        ),
    ],
)
def test_log_probabilities_are_those_of_teacher_forcing(searches, fields, beam_size):
    searches = Searches(**fields) if fields else searches
    results = searches(source(SENTENCES), LIMITS, beam_size=beam_size)
    owners = [i for i, row in enumerate(results) for _ in row]
    found = [hypothesis for row in results for hypothesis in row]
    expected = searches.teacher_forced(
        source(SENTENCES)[owners], [h.tokens for h in found]
    )
    actual = [h.log_probability for h in found]
    np.testing.assert_allclose(actual, expected, atol=1e-4)
    for limit, row in zip(LIMITS, results, strict=True):
        assert all(len(h.tokens) <= limit for h in row)
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)


@pytest.mark.one_backend
@pytest.mark.parametrize("beam_size", BEAM_SIZES)
def test_a_padded_batch_equals_one_by_one(searches, beam_size):
    together = searches(source(SENTENCES), LIMITS, beam_size=beam_size)
    for row in (0, 1):
        ids = source([SENTENCES[row]], len(SENTENCES[row]))
        (alone,) = searches.eager(ids, LIMITS[row : row + 1], beam_size=beam_size)
        assert_same(together[row], alone, 1e-4)


@pytest.mark.parametrize(
    "beam_size", [3, pytest.param(1, marks=pytest.mark.one_backend)]
)
def test_compiled_equals_not_compiled(searches, beam_size):
    """Also with other sentences of the same shape, and with weights changed since."""
    found, finished = [], []
    for sentences, seed in (
        (SENTENCES, SEED),
        (SENTENCES[::-1], SEED),
        (SENTENCES, 0),
    ):
        searches.randomize(seed)
        compiled = searches(source(sentences), LIMITS, beam_size=beam_size)
        eager = searches.eager(source(sentences), LIMITS, beam_size=beam_size)
        for row, expected in zip(compiled, eager, strict=True):
            assert_same(row, expected, 1e-4)
        found.append([row[0].tokens for row in compiled])
        finished += [row[0].finished for row in compiled]
    searches.randomize(SEED)
    assert found[0] != found[1]
    assert found[0] != found[2]
    assert set(finished) == {True, False}


def test_bfloat16_sums_in_float32():
    searches = Searches(dtype="mixed_bfloat16")
    searches.randomize(SEED, spread=0.3)
    results = searches(source(SENTENCES), LIMITS, beam_size=3)
    assert {h.score.dtype.name for row in results for h in row} == {"float32"}
    expected = searches.teacher_forced(
        source(SENTENCES), [row[0].tokens for row in results]
    )
    actual = [row[0].log_probability for row in results]
    np.testing.assert_allclose(actual, expected, atol=0.1)
