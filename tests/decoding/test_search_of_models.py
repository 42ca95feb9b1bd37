"""The search of whole models against plain Python that reads each prefix anew.

`models.search.search` writes caches, shares them between hypotheses, reorders them and
adds up attention; the reference asks the same model for the logits of a whole prefix,
one sentence at a time and without padding.
"""

import functools

import numpy as np
import numpy_search
import pytest
from keras import ops
from lattices import assert_same
from lattices import hypotheses

from keras_transformer import Transformer
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding import search_loop
from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.decoding.sampling import sample_keys
from keras_transformer.models import Ensemble
from keras_transformer.models.search import search
from keras_transformer.models.shared_cache import MOST_HYPOTHESES
from keras_transformer.models.word_attention import word_attention
from reference.weights import scatter

PAD, START, END, VOCABULARY_SIZE, LENGTH = 0, 1, 2, 11, 7
SOURCE = np.array(
    [[5, 9, 7, 2, 0], [6, 2, 0, 0, 0], [8, 10, 3, 3, 2], [4, 7, 9, 2, 0]], "int32"
)
LIMITS = np.array([7, 4, 6, 7], "int32")
PREFIXES = ((), (3, 9), (7,), ())

#: Together all that can be asked of a beam search.
ASKED = {
    "coverage": {"coverage_penalty": 0.3, "length_penalty": 1.0, "prefix": True},
    "rules": {
        "normalization": "none",
        "patience": 1.5,
        "min_length": 4,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.4,
        "suppressed_tokens": (5, 8),
    },
    "groups": {
        "num_beam_groups": 3,
        "diversity_penalty": 0.8,
        "normalization": "average",
        "coverage_penalty": 0.2,
    },
    "no end": {"suppressed_tokens": (END,), "coverage_penalty": 0.3},
}


def member(seed, **fields):
    fields = {"hidden_dim": 8, "num_decoder_layers": 2} | fields
    fields |= {"num_heads": 2, "intermediate_dim": 7, "num_encoder_layers": 1}
    model = Transformer({"vocabulary_size": VOCABULARY_SIZE, **fields})
    return scatter(model, seed, deviation=0.5)


class Searched:
    """A model, its search, and what it says after each prefix."""

    def __init__(self, model):
        self.search = backends.compile(functools.partial(search, model), model)
        self._forward = backends.compile(functools.partial(forward, model), model)
        self._found = {}

    def read(self, row, tokens):
        """Logits of the token after a prefix; the attention up to it."""
        if (row, tokens) not in self._found:
            source = SOURCE[row : row + 1, : np.count_nonzero(SOURCE[row])]
            target = np.full((1, LENGTH), PAD, "int32")
            target[0, : len(tokens) + 1] = (START, *tokens)
            logits, attention = map(ops.convert_to_numpy, self._forward(source, target))
            last = logits[0, len(tokens)].astype("float64")
            self._found[row, tokens] = last, attention[0, : len(tokens) + 1].sum(0)
        return self._found[row, tokens]

    def reference(self, row, rules, beta):
        """What the NumPy searches ask for."""

        def logits_of(tokens):
            return self.read(row, tokens)[0]

        def process(tokens, logits):
            return numpy_search.processed(logits, tokens, END, **rules)

        def coverage_of(tokens):
            return beta * np.log(np.minimum(self.read(row, tokens)[1], 1.0)).sum()

        return logits_of, process, coverage_of


def forward(model, source, target):
    memory, mask, _ = model.encode(source)
    hidden, _, weights = model.decode(
        target, memory, mask, return_attention_weights=True
    )
    return model.logits(hidden), word_attention(weights)


@pytest.fixture(scope="module")
def one():
    return Searched(member(4))


@pytest.fixture(scope="module")
def two():
    """Members that differ in all but the vocabulary."""
    return Searched(
        Ensemble([member(5), member(6, hidden_dim=12, num_decoder_layers=1)])
    )


@pytest.fixture(scope="module")
def halved():
    """A model whose rows go on, at last one alone, without those that are done."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_loop, "MANY_ROWS", 2)
        yield Searched(member(4))


def rules_of(options, row):
    rules = ("min_length", "no_repeat_ngram_size", "repetition_penalty")
    rules = {name: options[name] for name in rules if name in options}
    rules["suppressed"] = {PAD, START, *options.get("suppressed_tokens", ())}
    rules["prefix"] = PREFIXES[row] if options.get("prefix") else ()
    return rules


def found_by(searched, options, **inputs):
    if options.get("prefix"):
        rows = [(*prefix, *[FREE] * (2 - len(prefix))) for prefix in PREFIXES]
        inputs["prefix"] = np.array(rows, "int32")
    options = {name: value for name, value in options.items() if name != "prefix"}
    arguments = (SOURCE, LIMITS, *([inputs] if inputs else []))
    options = DecodingOptions(**options)
    return hypotheses(searched.search(*arguments, length=LENGTH, options=options))


def compare_beams(searched, options):
    beta = options.get("coverage_penalty", 0.0)
    found = found_by(searched, options)
    for row, actual in enumerate(found):
        logits_of, process, coverage_of = searched.reference(
            row, rules_of(options, row), beta
        )
        expected = numpy_search.any_beam_search(
            lambda tokens, of=logits_of, process=process: process(tokens, of(tokens)),
            LIMITS[row],
            options["beam_size"],
            options["top_beams"],
            END,
            functools.partial(
                numpy_search.normalized,
                normalization=options.get("normalization", "gnmt"),
                alpha=options.get("length_penalty", 0.6),
            ),
            coverage_of=coverage_of,
            patience=options.get("patience"),
            num_groups=options.get("num_beam_groups", 1),
            diversity_penalty=options.get("diversity_penalty", 0.0),
        )
        assert_same(actual, expected, 1e-4)
    return found


@pytest.mark.parametrize(
    ("width", "name"),
    [
        (3, "coverage"),
        *(
            pytest.param(*case, marks=pytest.mark.one_backend)
            for case in (
                (3, "rules"),
                (3, "groups"),
                (3, "no end"),
                (8, "coverage"),
                (9, "coverage"),
                (9, "groups"),
            )
        ),
    ],
)
def test_equals_the_reference(one, width, name):
    assert width in (3, MOST_HYPOTHESES, MOST_HYPOTHESES + 1)
    options = {**ASKED[name], "beam_size": width, "top_beams": (width + 1) // 2}
    found = compare_beams(one, options)
    if name != "groups":  # of which a mean prefers what is cut, and longer
        assert {h.finished for row in found for h in row} >= {name != "no end"}


@pytest.mark.one_backend  # `test_search_loop.py` halves on each
@pytest.mark.parametrize("name", ["rules", "groups"])
def test_halves_of_a_batch_equal_the_reference(halved, name):
    compare_beams(halved, {**ASKED[name], "beam_size": 3, "top_beams": 2})


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("width", "name"),
    [(3, "coverage"), (9, "rules")],
)
def test_an_ensemble_equals_the_reference(two, width, name):
    compare_beams(two, {**ASKED[name], "beam_size": width, "top_beams": 3})


GREEDY = {**ASKED["rules"], "prefix": True, "beam_size": 1}
del GREEDY["patience"]


@pytest.mark.one_backend
@pytest.mark.parametrize("members", ["one", "two"])
def test_greedy_search_equals_the_reference(members, request):
    searched = request.getfixturevalue(members)
    for row, (actual,) in enumerate(found_by(searched, GREEDY)):
        logits_of, process, _ = searched.reference(row, rules_of(GREEDY, row), 0.0)
        tokens = ()
        while len(tokens) < LIMITS[row] and END not in tokens:
            tokens += (int(np.argmax(process(tokens, logits_of(tokens)))),)
        assert actual.tokens == tokens


@pytest.mark.parametrize(
    "members", ["one", pytest.param("halved", marks=pytest.mark.one_backend)]
)
def test_samples_equal_the_reference(members, request):
    searched = request.getfixturevalue(members)
    drawn = {"temperature": 1.3, "top_k": 6, "top_p": 0.9}
    options = {**GREEDY, **drawn, "sampling": True, "top_beams": 3}
    keys = np.stack([sample_keys(1, (row,), 3) for row in range(len(SOURCE))])
    for row, samples in enumerate(found_by(searched, options, keys=keys)):
        logits_of, process, _ = searched.reference(row, rules_of(options, row), 0.0)
        for key, actual in zip(keys[row], samples, strict=True):
            tokens, total = numpy_search.sample(
                *(logits_of, process, LIMITS[row], key, END),
                num_forced=len(PREFIXES[row]),
                **drawn,
            )
            assert actual.tokens == tokens
            np.testing.assert_allclose(actual.log_probability, total, atol=1e-4)
