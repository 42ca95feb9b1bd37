"""One token at a time with caches gives the logits of teacher forcing."""

import numpy as np
import pytest
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.models.shared_cache import MOST_HYPOTHESES
from reference import models
from reference import sizes
from reference.marks import on_one_backend
from reference.models import logits_of
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources


def hypotheses(beam_size):
    """(B, W, T): other tokens in each."""
    rows = ids([sizes.TARGET_LENGTH] * sizes.BATCH * beam_size, seed=3)
    return rows.reshape(sizes.BATCH, beam_size, sizes.TARGET_LENGTH)


def teacher_forced(model, tokens):
    """(B, W, T) -> logits (B, W, T, V)."""
    beam_size = tokens.shape[1]
    source = np.repeat(sources(), beam_size, axis=0)
    logits = logits_of(model, source, tokens.reshape(-1, tokens.shape[-1]))
    return logits.reshape(*tokens.shape, -1)


def step_by_step(model, tokens, length, beam_size, start="start"):
    """The same through the decoding contract, with caches of `length` positions."""
    memory, mask, _ = model.encode(ops.convert_to_tensor(sources()))
    constants, cache = getattr(model, start)(memory, mask, beam_size, length)
    logits = []
    for position in range(tokens.shape[-1]):
        step, cache, _ = model.decode_step(
            ops.convert_to_tensor(tokens[..., position]),
            ops.convert_to_tensor(position, dtype="int32"),
            constants,
            cache,
        )
        logits.append(numpy(step))
    return np.stack(logits, axis=2)


@pytest.mark.parametrize(
    ("name", "beam_size"),
    [
        on_one_backend("paper", None),
        ("paper", sizes.BEAM_SIZE),
        on_one_backend("window", sizes.BEAM_SIZE),
        on_one_backend("as T5", sizes.BEAM_SIZE),
        on_one_backend("rotary, grouped, gated", sizes.BEAM_SIZE),
        on_one_backend("deep, additive, unlike sides", sizes.BEAM_SIZE),
        on_one_backend("rotary, grouped, gated", None),
        on_one_backend("recurrent", sizes.BEAM_SIZE),
        on_one_backend("convolutional, dilated", sizes.BEAM_SIZE),
        on_one_backend("ssru", sizes.BEAM_SIZE),
        on_one_backend("ssru, pre-norm", None),
        on_one_backend("paper", 1),
        on_one_backend("pre-norm", sizes.BEAM_SIZE),
        on_one_backend("pre-norm, nothing tied", 1),
        on_one_backend("post-norm, normalized ends", sizes.BEAM_SIZE),
        on_one_backend("halves", 1),
        on_one_backend("window", None),
        on_one_backend("learned, deep encoder", sizes.BEAM_SIZE),
        on_one_backend("recurrent, nothing tied", 1),
        on_one_backend("recurrent", None),
        on_one_backend("recurrent, no attention", sizes.BEAM_SIZE),
        on_one_backend("convolutional", 1),
        on_one_backend("convolutional, dilated", None),
    ],
)
def test_steps_are_teacher_forcing(name, beam_size):
    model = models.model(name)
    tokens = hypotheses(beam_size or 1)
    length = sizes.TARGET_LENGTH + 6  # the cache may be longer than the target
    expected = teacher_forced(model, tokens)
    for start in ("start", "start_search"):
        found = step_by_step(model, tokens, length, beam_size, start)
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=start)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["paper", "ssru"])
def test_steps_are_teacher_forcing_in_mixed_precision(name):
    model = models.model(name, "mixed_float16")
    tokens = hypotheses(1)
    found = step_by_step(model, tokens, sizes.TARGET_LENGTH, 1)
    expected = teacher_forced(model, tokens)
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "name",
    [
        on_one_backend("learned, deep encoder"),
        "ssru",
        "recurrent",
        "convolutional, dilated",
    ],
)
def test_a_compiled_step_is_teacher_forcing(name):
    """As a search runs it: one program, the position a tensor."""
    model = models.build(name)
    tokens = hypotheses(sizes.BEAM_SIZE)

    def decode(tokens, source):
        memory, mask, _ = model.encode(source)
        constants, cache = model.start(memory, mask, tokens.shape[1], tokens.shape[2])

        def step(state, constants):
            position, logits, cache = state
            column = ops.take(tokens, position, axis=2)
            new, cache, _ = model.decode_step(column, position, constants, cache)
            here = ops.equal(ops.arange(tokens.shape[2]), position)
            here = ops.reshape(here, (1, 1, -1, 1))
            logits = ops.where(here, ops.expand_dims(new, 2), logits)
            return position + 1, logits, cache

        shape = (*tokens.shape, model.config.target_vocabulary_size)
        state = (ops.zeros((), "int32"), ops.zeros(shape, "float32"), cache)
        return backends.loop(
            lambda state: state[0] < tokens.shape[2], step, state, constants
        )[1]

    run = backends.compile(decode, model)
    inputs = ops.convert_to_tensor(tokens), ops.convert_to_tensor(sources())
    for seed in (0, 1):  # the weights may change between calls
        randomize(model, seed)
        expected = teacher_forced(model, tokens)
        np.testing.assert_allclose(numpy(run(*inputs)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["paper", "recurrent", "convolutional, dilated"])
def test_an_order_of_hypotheses_is_an_order_of_caches(name):
    """A search may gather the cache along W: constants are not concerned."""
    model = models.model(name)
    tokens, order = hypotheses(sizes.BEAM_SIZE), [2, 0, 1]
    memory, mask, _ = model.encode(ops.convert_to_tensor(sources()))

    def run(permute):
        constants, cache = model.start(memory, mask, sizes.BEAM_SIZE, 3)
        for position in range(3):
            column = tokens[..., position]
            if permute and position == 2:
                cache = tree.map_structure(
                    lambda tensor: ops.take(tensor, order, axis=1), cache
                )
                column = column[:, order]
            logits, cache, _ = model.decode_step(
                ops.convert_to_tensor(column),
                ops.convert_to_tensor(position, dtype="int32"),
                constants,
                cache,
            )
        return numpy(logits)

    np.testing.assert_allclose(run(True), run(False)[:, order], rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "beam_size"),
    [
        ("paper", 3),
        ("paper", MOST_HYPOTHESES),
        ("paper", MOST_HYPOTHESES + 1),
        ("window", 3),
        ("ssru", 3),
        ("recurrent", 3),
        ("convolutional, dilated", 3),
    ],
)
def test_a_reordered_hypothesis_has_the_past_of_the_one_it_continues(name, beam_size):
    """As in a search: several may continue one, at each step others."""
    model = models.model(name)
    columns = hypotheses(beam_size)
    rng = np.random.default_rng(0)
    memory, mask, _ = model.encode(ops.convert_to_tensor(sources()))
    length = columns.shape[2]
    constants, cache = model.start_search(memory, mask, beam_size, length)
    pasts = np.zeros((sizes.BATCH, beam_size, length), "int32")
    for position in range(length):
        column = columns[..., position]
        logits, cache, _ = model.decode_step(
            ops.convert_to_tensor(column),
            ops.convert_to_tensor(position, dtype="int32"),
            constants,
            cache,
        )
        pasts[..., position] = column  # what stands behind it does not matter
        expected = teacher_forced(model, pasts)[:, :, position]
        np.testing.assert_allclose(numpy(logits), expected, rtol=1e-5, atol=1e-5)
        beams = rng.integers(beam_size, size=(sizes.BATCH, beam_size)).astype("int32")
        cache = model.reorder(cache, ops.convert_to_tensor(beams))
        pasts = np.take_along_axis(pasts, beams[..., None], axis=1)
