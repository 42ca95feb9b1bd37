"""The loop of a search: who takes part in its steps, and what is left of each row."""

from typing import Any
from typing import NamedTuple

import numpy as np
import pytest
from keras import ops
from lattices import END
from lattices import Lattice
from lattices import Weightless

from keras_transformer import backends
from keras_transformer.decoding.search_loop import MANY_ROWS
from keras_transformer.decoding.search_loop import one_loop
from keras_transformer.decoding.search_loop import search_loop

LENGTH = 9


class State(NamedTuple):
    position: Any  # ()
    done: Any  # (B * G,)
    total: Any  # (B * G, 2), the sum of the steps that a row has taken
    cache: Any  # (B, 1)


def run(ends, names, seen, groups):
    """Steps of rows that end after `ends` (B * G,) of them."""
    rows = names.shape[0]

    def body(state, constants):
        ends, names = constants
        seen.append(names.shape[0])
        step = ops.cast(ops.repeat(names + state.cache, groups, axis=0), "int32")
        total = ops.where(
            ops.expand_dims(state.done, 1), state.total, state.total + step
        )
        position = state.position + 1
        done = ops.logical_or(state.done, position >= ends)
        return State(position, done, total, state.cache + 1)

    state = State(
        ops.zeros((), "int32"),
        ends <= 0,
        ops.zeros((rows * groups, 2), "int32"),
        ops.zeros((rows, 1), "int32"),
    )
    return search_loop(body, state, (ends, names), rows=rows, length=LENGTH)


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        (5 * MANY_ROWS + 3, 3),
        *(
            pytest.param(rows, groups, marks=pytest.mark.one_backend)
            for rows in (1, MANY_ROWS - 1, MANY_ROWS)
            for groups in (1, 3)
        ),
    ],
)
def test_each_row_takes_its_own_steps(rows, groups):
    random = np.random.default_rng(rows)
    # Some are done before the first step, some never are.
    ends = random.integers(0, LENGTH + 3, rows).repeat(groups)
    ends = (ends - random.integers(0, 2, rows * groups)).astype("int32")
    names = random.integers(0, 100, (rows, 2)).astype("int32")
    seen = []
    program = backends.compile(
        lambda ends, names: run(ends, names, seen, groups), Weightless
    )
    state = program(ends, names)
    steps = np.clip(ends, 0, LENGTH)
    # Of names and the number of the step, which the cache counts.
    expected = names.repeat(groups, 0) * steps[:, None]
    expected = expected + (steps * (steps - 1) // 2)[:, None]
    np.testing.assert_array_equal(ops.convert_to_numpy(state.total), expected)
    assert int(state.position) == steps.max()
    assert state.cache == ()
    np.testing.assert_array_equal(ops.convert_to_numpy(state.done), ends <= LENGTH)
    halves = [rows]
    while halves[-1] >= MANY_ROWS:
        halves.append(halves[-1] // 2)
    found = sorted(set(seen), reverse=True)
    assert found == halves[: len(found)]  # the last half may be done from the start
    assert len(found) > 1 or len(halves) == 1


def test_within_one_loop_all_rows_take_part_to_the_end():
    seen, rows = [], 2 * MANY_ROWS
    ends = np.arange(rows, dtype="int32") % LENGTH

    def whole(ends, names):
        with one_loop():
            return run(ends, names, seen, 1)

    state = backends.compile(whole, Weightless)(ends, np.ones((rows, 2), "int32"))
    np.testing.assert_array_equal(ops.convert_to_numpy(state.done), True)
    expected = ends * (ends + 1) // 2
    np.testing.assert_array_equal(ops.convert_to_numpy(state.total)[:, 0], expected)
    assert set(seen) == {rows}


def test_rows_that_only_fill_a_batch_take_no_part():
    """In eager mode, in which each step is seen."""
    if backends.name != "torch":
        pytest.skip("other loops are programs")
    rows = 4 * MANY_ROWS
    ends = np.zeros(rows, "int32")
    ends[[3, rows - 1]] = LENGTH
    seen = []
    ends, names = map(ops.convert_to_tensor, (ends, np.ones((rows, 2), "int32")))
    run(ends, names, seen, 1)
    assert seen == [MANY_ROWS // 2] * LENGTH


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 3, "top_beams": 2},
        pytest.param({}, marks=pytest.mark.one_backend),
    ],
)
def test_a_large_batch_gives_what_its_rows_give_alone(options):
    rows = 2 * MANY_ROWS + 6
    lattice = Lattice.random(5, rows, 7)
    # Every other row soon prefers to end.
    lattice.tables[::2, :, END] += 3.0
    limits = np.arange(rows) % 11
    whole = lattice.search(limits, length=10, **options)
    parts = [
        Lattice(lattice.tables[part]).search(limits[part], length=10, **options)
        for part in (slice(i, i + 10) for i in range(0, rows, 10))
    ]
    assert whole == [row for part in parts for row in part]
