import logging

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.backends import programs


class Scale:
    """A model of one weight."""

    def __init__(self):
        self.weight = keras.Variable([1.0, 2.0], name="weight")
        self.variables = [self.weight]

    def powers(self, start, constants, *, count, offset=0.0):
        """In a loop: start * (weight * constant)^count + offset."""
        state = {"step": ops.zeros((), "int32"), "value": (start,)}

        def condition(state):
            return state["step"] < count

        def body(state, constants):
            value = state["value"][0] * self.weight * constants
            return {"step": state["step"] + 1, "value": (value,)}

        (value,) = backends.loop(condition, body, state, constants)["value"]
        return value + offset

    def twice(self, start, constants):
        """Two loops of the same shapes that do different things."""

        def condition(state):
            return state[0] < 3

        def add(state, constants):
            return state[0] + 1, state[1] + constants

        def multiply(state, constants):
            return state[0] + 1, state[1] * constants

        state = backends.loop(
            condition, add, (ops.zeros((), "int32"), start), constants
        )
        state = (ops.zeros((), "int32"), state[1])
        return backends.loop(condition, multiply, state, constants)[1]


def tensor(*values):
    return ops.convert_to_tensor(np.array(values, "float32"))


def numbers(result):
    return ops.convert_to_numpy(result).tolist()


def test_a_compiled_loop_equals_one_that_is_not():
    model = Scale()
    run = backends.compile(model.powers, model)
    for function in (model.powers, run):
        assert numbers(function(tensor(3, 5), tensor(1, 1), count=3)) == [3.0, 40.0]


def test_few_rows_give_the_same_numbers():
    model = Scale()
    run = backends.compile(model.powers, model, few_rows=True)
    assert numbers(run(tensor(3, 5), tensor(1, 1), count=3)) == [3.0, 40.0]


@pytest.mark.one_backend("jax")
def test_a_compiler_without_the_option_for_few_rows_is_left_as_it_is(monkeypatch):
    import keras_transformer.backends.jax as backend

    assert backend._is_known(*backend._EIGEN)
    monkeypatch.setattr(backend, "_EIGEN", ("xla_cpu_no_such_option", "x"))
    assert not backend._is_known(*backend._EIGEN)
    test_few_rows_give_the_same_numbers()


def test_new_constants_of_the_same_shape_are_seen():
    model = Scale()
    run = backends.compile(model.powers, model)
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=2)) == [1.0, 4.0]
    assert numbers(run(tensor(1, 1), tensor(3, 5), count=2)) == [9.0, 100.0]


def test_new_weights_are_seen():
    model = Scale()
    run = backends.compile(model.powers, model)
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=2)) == [1.0, 4.0]
    model.weight.assign([3.0, 5.0])
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=2)) == [9.0, 25.0]


def test_options_are_told_apart():
    model = Scale()
    run = backends.compile(model.powers, model)
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=1)) == [1.0, 2.0]
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=3, offset=7.0)) == [8.0, 15.0]
    assert numbers(run(tensor(1, 1), tensor(1, 1), offset=1.0, count=1)) == [2.0, 3.0]


def test_shapes_are_told_apart():
    model = Scale()
    run = backends.compile(model.powers, model)
    assert numbers(run(tensor(1, 1), tensor(1, 1), count=1)) == [1.0, 2.0]
    wide = run(tensor([1, 1], [3, 3]), tensor(1, 1), count=1)
    assert numbers(wide) == [[1.0, 2.0], [3.0, 6.0]]


def test_many_shapes_need_no_warning(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("tensorflow"), "propagate", True)
    model = Scale()
    run = backends.compile(model.powers, model)
    for rows in range(1, 8):
        run(tensor(*[[1, 1]] * rows), tensor(1, 1), count=1)
    assert not caplog.records


def test_two_loops_of_the_same_shapes_are_told_apart():
    model = Scale()
    run = backends.compile(model.twice, model)
    for _ in range(2):
        assert numbers(run(tensor(1, 2), tensor(2, 3))) == [7 * 8, 11 * 27]


def test_arrays_are_taken_like_tensors():
    model = Scale()
    run = backends.compile(model.powers, model)
    array = np.ones(2, "float32")
    assert numbers(run(array, array, count=2)) == [1.0, 4.0]


def test_a_loop_that_never_runs_gives_its_state_back():
    model = Scale()
    run = backends.compile(model.powers, model)
    assert numbers(run(tensor(3, 5), tensor(1, 1), count=0)) == [3.0, 5.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_scan_carries_and_stacks(compiled):
    def sums(start, chunks):
        def step(carry, chunk):
            first, second = chunk
            carry = carry + first * second
            return carry, {"carry": carry, "first": first}

        return backends.scan(step, start, chunks)

    if compiled:
        sums = backends.compile(sums, Scale())
    chunks = (tensor([1, 2], [3, 4], [5, 6]), tensor([1, 1], [2, 2], [3, 3]))
    carry, outputs = sums(tensor(0, 10), chunks)
    assert numbers(carry) == [1 + 6 + 15, 10 + 2 + 8 + 18]
    assert numbers(outputs["carry"]) == [[1, 12], [7, 20], [22, 38]]
    assert numbers(outputs["first"]) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("position", [0, 3, 4])
def test_update_cache_writes_one_position(position, count):
    rng = np.random.default_rng(position)
    cache = rng.normal(size=(2, 3, 5 * count, 7)).astype("float32")
    update = rng.normal(size=(2, 3, count, 7)).astype("float32")
    expected = cache.copy()
    expected[:, :, position * count : (position + 1) * count] = update
    for index in (position, ops.convert_to_tensor(position, "int32")):
        result = backends.update_cache(
            ops.convert_to_tensor(cache.copy()), ops.convert_to_tensor(update), index
        )
        np.testing.assert_array_equal(ops.convert_to_numpy(result), expected)


def test_update_cache_keeps_the_dtype_of_the_cache():
    cache = ops.zeros((1, 4, 2), "bfloat16")
    result = backends.update_cache(cache, ops.ones((1, 1, 2), "float32"), 1)
    assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"


def test_one_process_is_one_replica():
    assert numbers(backends.sum_over_replicas(tensor(3, 4))) == [3.0, 4.0]
    assert backends.num_separate_losses() == 1


def test_to_numpy_gives_a_copy():
    variable = keras.Variable([1.0, 2.0])
    values = backends.to_numpy(variable)
    variable.assign([3.0, 5.0])
    assert values.tolist() == [1.0, 2.0]
    assert backends.to_numpy(variable).tolist() == [3.0, 5.0]


def test_memory_is_measured_in_bytes():
    assert 0 <= backends.peak_memory(lambda: None) < backends.memory_limit()


def test_the_programs_that_are_kept_have_a_bound(monkeypatch):
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    made = []
    program_of = programs.kept(lambda *key: made.append(key) or object())
    first = program_of("a", 1)
    assert program_of("a", 1) is first
    program_of("b", 1)
    program_of("a", 1)
    program_of("c", 1)  # b is the longest unused
    assert program_of("a", 1) is first
    program_of("b", 1)
    assert made == [("a", 1), ("b", 1), ("c", 1), ("b", 1)]


def test_a_program_that_was_dropped_is_made_again(monkeypatch):
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 1)
    model = Scale()
    run = backends.compile(model.powers, model)
    for count in (1, 3, 1):
        assert numbers(run(tensor(1, 1), tensor(1, 1), count=count)) == [
            1.0,
            2.0**count,
        ]
