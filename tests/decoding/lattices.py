"""Small worlds to search: the logits after each prefix come from a table.

B batch, W beam width, M states, V vocabulary.
"""

import numpy as np
from keras import ops
from numpy_search import Hypothesis

from keras_transformer import backends
from keras_transformer.decoding import beam_search
from keras_transformer.decoding import greedy_search

START, END, PAD = 1, 2, 0


class Lattice:
    """`decode_step` whose logits depend on all the tokens so far.

    The tokens are hashed into one of M states, held in the cache: a search that does
    not hand each hypothesis its own cache reads the wrong logits.

    Args:
        tables: (B, M, V) logits in each state; M is prime.
    """

    def __init__(self, tables):
        self.tables = np.asarray(tables, "float32")

    @classmethod
    def random(cls, seed, rows, vocabulary_size, num_states=499, spread=2.0):
        shape = (rows, num_states, vocabulary_size)
        return cls(np.random.default_rng(seed).normal(0.0, spread, shape))

    @classmethod
    def of(cls, transitions, vocabulary_size):
        """One row, from `{prefix: {token: probability}}`; the rest is impossible."""
        lattice = cls(np.full((1, 499, vocabulary_size), -1e9))
        for prefix, probabilities in transitions.items():
            state = lattice.state(prefix)
            if (lattice.tables[0, state] > -1e9).any():
                raise ValueError(f"two prefixes share the state {state}")
            for token, probability in probabilities.items():
                lattice.tables[0, state, token] = np.log(probability)
        return lattice

    def row(self, index):
        return Lattice(self.tables[index : index + 1])

    def state(self, prefix):
        state = 0
        for token in (START, *prefix):
            state = (state * 31 + token + 1) % self.tables.shape[1]
        return state

    def logits_of(self, row):
        tables = self.tables[row].astype("float64")
        return lambda prefix: tables[self.state(prefix)]

    def start(self, beam_size):
        """Constants and cache: the hash (B, W, 1, 1, 1), written where it stands."""
        rows = len(self.tables)
        cache = ops.zeros((rows, beam_size, 1, 1, 1), "int32")
        return ops.convert_to_tensor(self.tables), [cache]

    def search(self, limits, **options):
        """Greedy without `beam_size`; compiled; a list of hypotheses a row."""
        return hypotheses(self.result(limits, **options))

    def result(self, limits, **options):
        limits = ops.convert_to_tensor(np.asarray(limits, "int32"))
        constants, cache = self.start(options.get("beam_size", 1))
        return compiled_search(limits, constants, cache, **options)


def decode_step(tokens, position, constants, cache):
    rows, states, vocabulary_size = constants.shape
    (old,) = cache
    state = (old * 31 + ops.reshape(tokens, old.shape) + 1) % states
    offsets = ops.expand_dims(ops.arange(rows, dtype="int32") * states, 1)
    places = ops.reshape(state, tokens.shape) + offsets  # (B, W)
    flat = ops.reshape(constants, (rows * states, vocabulary_size))
    cache = [backends.update_cache(old, state, 0)]
    return ops.take(flat, places, axis=0), cache


def search(limits, constants, cache, **options):
    options = {"start_id": START, "end_id": END, "pad_id": PAD, **options}
    search = beam_search if "beam_size" in options else greedy_search
    return search(decode_step, constants, cache, limits, **options)


class Weightless:
    """What `backends.compile` needs of a model."""

    variables = ()


# One for all tests: what has a shape and options in common is compiled once.
compiled_search = backends.compile(search, Weightless)


def hypotheses(result):
    """A `SearchResult` as lists of `Hypothesis`, and checks what surrounds them."""
    result = map(ops.convert_to_numpy, result[:5])
    rows = []
    for tokens, lengths, *others in zip(*result, strict=True):
        row = []
        for ids, length, total, score, finished in zip(
            tokens, lengths, *others, strict=True
        ):
            assert (ids[length:] == PAD).all()
            assert (length == 0) == np.isneginf(score) == np.isneginf(total)
            assert finished == (length > 0 and ids[length - 1] == END)
            assert END not in ids[: length - 1]
            if length:
                row.append(Hypothesis(tuple(ids[:length]), total, score, finished))
            else:
                assert not finished
        rows.append(row)
    return rows


def assert_same(actual, expected, tolerance=1e-5):
    """The same tokens in the same order; numbers to `tolerance`."""
    assert [h.tokens for h in actual] == [h.tokens for h in expected]
    assert [h.finished for h in actual] == [h.finished for h in expected]
    for name in ("log_probability", "score"):
        np.testing.assert_allclose(
            [getattr(h, name) for h in actual],
            [getattr(h, name) for h in expected],
            rtol=tolerance,
            atol=tolerance,
        )
