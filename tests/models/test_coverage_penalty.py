"""The coverage penalty of a search, from the attention that the model really paid."""

import numpy as np
import pytest
from keras import ops
from keras import tree

from keras_transformer import Transformer
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.models.search import search
from reference import configs
from reference.weights import scatter

SOURCE = np.array([[5, 9, 7, 2], [6, 2, 0, 0], [8, 2, 0, 0]], "int32")
LIMITS = np.array([6, 3, 5], "int32")
BETA, ALPHA, LENGTH = 0.4, 0.6, 6


def random_model():
    config = configs.tiny(vocabulary_size=11, num_decoder_layers=2)
    return scatter(Transformer(config), seed=4, deviation=0.7)


@pytest.mark.one_backend
def test_is_what_the_formula_says():
    model = random_model()

    def run(source, limits):
        options = DecodingOptions(
            beam_size=3, top_beams=2, coverage_penalty=BETA, length_penalty=ALPHA
        )
        result = search(model, source, limits, length=LENGTH, options=options)
        memory, mask, _ = model.encode(source)
        attention = []
        for rank in range(2):
            tokens = result.tokens[:, rank]
            start = ops.ones_like(tokens[:, :1])
            target = ops.concatenate([start, tokens[:, :-1]], axis=1)
            *_, cross = model.decode(
                target, memory, mask, return_attention_weights=True
            )
            attention.append(cross[0])  # the last layer but one
        return tuple(result), attention

    compiled = backends.compile(run, model)
    result, attention = tree.map_structure(
        ops.convert_to_numpy, compiled(SOURCE, LIMITS)
    )
    _, lengths, log_probabilities, scores, *_ = result
    penalties = []
    for rank, weights in enumerate(attention):
        for row, length in enumerate(lengths[:, rank]):
            if not length:
                continue
            sums = weights[row].mean(0)[:length].sum(0)[SOURCE[row] != 0]
            coverage = BETA * np.log(np.minimum(sums, 1.0)).sum()
            penalties.append(coverage)
            penalty = ((5 + length) / 6) ** ALPHA
            expected = log_probabilities[row, rank] / penalty + coverage
            np.testing.assert_allclose(scores[row, rank], expected, atol=1e-4)
    assert (lengths[:, 0] > 0).all()
    assert min(penalties) < 0
