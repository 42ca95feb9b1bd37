"""The search in NumPy that stands in exports is the search of this package."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer
from keras_transformer.decoding import DecodingOptions
from keras_transformer.export import programs
from keras_transformer.models.search import search
from keras_transformer.models.word_attention import word_attention
from reference.search_options import OPTIONS
from reference.weights import numpy
from reference.weights import scatter

pytestmark = pytest.mark.one_backend

LENGTH = 9
SOURCE = np.array(
    [[5, 9, 7, 2, 0], [6, 2, 0, 0, 0], [8, 10, 3, 3, 2], [4, 7, 9, 2, 0]], "int32"
)
LIMITS = np.array([9, 4, 6, 8], "int32")


@pytest.fixture
def program(monkeypatch):
    """The module `search`, as it is found in the folder of an export."""
    monkeypatch.syspath_prepend(Path(programs.__file__).parent)
    for name in ("rules", "search"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("search")
    for name in ("rules", "search"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def model():
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "intermediate_dim": 7}
    model = Transformer(
        {"vocabulary_size": 11, "hidden_dim": 8, "num_heads": 2, **sizes}
    )
    return scatter(model, 3, 0.6)


class Decoder:
    """The step of an export, by the model itself."""

    def __init__(self, model, width, suppressed):
        self.mask = model.config.pad_id != SOURCE
        self.model, self.suppressed = model, suppressed
        memory, mask, _ = model.encode(ops.convert_to_tensor(SOURCE))
        self.constants, self.cache = model.start(memory, mask, width, LENGTH)

    def __call__(self, tokens, position, beams, count, names):
        rows = np.arange(len(beams))[:, None]
        cache = [
            tuple(ops.convert_to_tensor(numpy(part)[rows, beams]) for part in pair)
            for pair in self.cache
        ]
        logits, self.cache, weights = self.model.decode_step(
            ops.convert_to_tensor(tokens.astype("int32")),
            position,
            self.constants,
            cache,
            return_attention_weights=True,
        )
        likely = numpy(ops.log_softmax(logits)).copy()
        likely[..., self.suppressed] = -np.inf
        ids = np.argsort(-likely, axis=-1, kind="stable")[..., :count]
        outputs = {
            "logits": numpy(logits),
            "best_ids": ids,
            "best_log_probabilities": np.take_along_axis(likely, ids, axis=-1),
            "attention": numpy(word_attention(weights)),
        }
        return [outputs[name] for name in names]


def ids_of(model, options):
    config = model.config
    suppressed = sorted({*config.suppressed_ids, *options.suppressed_tokens})
    return {"start": config.start_id, "end": config.end_id, "suppressed": suppressed}


@pytest.mark.parametrize("name", OPTIONS)
def test_the_program_of_an_export_searches_as_the_package(program, model, name):
    options = DecodingOptions(**OPTIONS[name])
    ids = ids_of(model, options)
    decoder = Decoder(model, options.beam_size, ids["suppressed"])
    found = program.search(decoder, LIMITS, ids, options.model_dump())
    expected = search(
        model,
        ops.convert_to_tensor(SOURCE),
        ops.convert_to_tensor(LIMITS),
        length=LENGTH,
        options=options,
    )
    tokens, lengths, logs, scores, finished = map(numpy, expected[:-1])
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == (scores[row] > -np.inf).sum() > 0
        for rank, hypothesis in enumerate(hypotheses):
            length = lengths[row, rank]
            assert hypothesis.ids == tokens[row, rank, :length].tolist()
            assert hypothesis.finished == finished[row, rank]
            np.testing.assert_allclose(
                [hypothesis.log_probability, hypothesis.score],
                [logs[row, rank], scores[row, rank]],
                rtol=1e-4,
                atol=1e-4,
            )


@pytest.mark.parametrize("name", ["greedy", "beam", "everything"])
def test_nan_of_a_model_is_named(program, model, name):
    options = DecodingOptions(**OPTIONS[name])
    ids = ids_of(model, options)

    class Broken(Decoder):
        def __call__(self, *arguments):
            first, *others = super().__call__(*arguments)  # log-probabilities or logits
            first = first.copy()
            first[1] = np.nan
            return [first, *others]

    decoder = Broken(model, options.beam_size, ids["suppressed"])
    with pytest.raises(ValueError, match="the model gives NaN: its weights"):
        program.search(decoder, LIMITS, ids, options.model_dump())


def test_a_row_without_any_translation_has_no_hypothesis(program, model):
    options = DecodingOptions(beam_size=1, min_length=12, no_repeat_ngram_size=1)
    ids = ids_of(model, options)
    ids["suppressed"] = [n for n in range(11) if n not in (2, 5)]
    decoder = Decoder(model, 1, ids["suppressed"])
    found = program.search(decoder, LIMITS, ids, options.model_dump())
    assert found == [[]] * len(LIMITS)


def test_the_best_places_are_those_of_a_stable_sort(program):
    generator = np.random.default_rng(0)
    scores = generator.integers(-9, 3, (5, 400)).astype("float32")
    scores[:, ::3] = -np.inf
    scores[1, 7:] = -np.inf
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(program._best_places(scores, 8), expected)
