"""Loops whose steps are recorded: CUDA graphs, of which plain calls stand in here."""

import keras
import pytest

if keras.backend.backend() != "torch":
    pytest.skip("the CUDA graphs of PyTorch", allow_module_level=True)

import torch

from keras_transformer import backends
from keras_transformer.backends import torch as torch_backend
from keras_transformer.backends import torch_graphs
from keras_transformer.decoding import DecodingOptions
from keras_transformer.models.search import search
from reference import models
from reference.weights import scatter


@pytest.fixture
def records(monkeypatch):
    """The steps that were recorded; they repeat themselves as plain calls."""
    steps = []

    def record(step):
        for _ in range(2):  # as CUDA does, which must leave nothing behind
            step()
        steps.append(step)
        return step

    monkeypatch.setattr(torch_backend, "EAGER_STEPS", 2)
    monkeypatch.setitem(torch_graphs.RECORDERS, "cpu", record)
    monkeypatch.setattr(torch_graphs, "_arenas", {})
    return steps


class Weightless:
    variables = ()


def compiled(body, condition):
    def program(state, constants):
        return backends.loop(condition, body, state, constants)

    return backends.compile(program, Weightless)


def test_a_recorded_loop_ends_where_an_eager_one_does(records):
    run = compiled(
        lambda state, constants: (state[0] + 1, state[1] * constants[0]),
        lambda state: state[0] < 9,
    )
    for base in (2.0, 3.0, 0.5):
        state = torch.tensor(0), torch.ones(3)
        count, powers = run(state, (torch.tensor(base),))
        assert count.item() == 9
        assert powers.tolist() == [base**9] * 3
    assert len(records) == 1
    done, values = run((torch.tensor(9), torch.ones(3)), (torch.tensor(2.0),))
    assert (done.item(), values.tolist()) == (9, [1.0] * 3)  # no step at all


def test_what_a_loop_gives_is_not_written_again_by_the_next_one(records):
    def body(state, constants):
        count, cache = state
        value = constants[0] * (count + 1)
        return count + 1, backends.update_cache(cache, value.reshape(1, 1), count)

    run = compiled(body, lambda state: state[0] < 4)
    found = [
        run((torch.tensor(0), torch.zeros(4, 1)), (torch.tensor(scale),))[1]
        for scale in (1.0, 10.0, 100.0)
    ]
    assert [cache[:, 0].tolist() for cache in found] == [
        [scale, 2 * scale, 3 * scale, 4 * scale] for scale in (1.0, 10.0, 100.0)
    ]
    assert len(records) == 1


def test_parts_of_a_state_may_change_places(records):
    run = compiled(
        lambda state, _: (state[0] + 1, state[2], state[1]), lambda state: state[0] < 5
    )
    for _ in range(2):
        _, first, second = run((torch.tensor(0), torch.zeros(2), torch.ones(2)), ())
        assert (first.tolist(), second.tolist()) == ([1, 1], [0, 0])
    assert len(records) == 1


def test_loops_of_other_shapes_share_memory(records):
    run = compiled(
        lambda state, _: (state[0] + 1, state[1] + 1), lambda state: state[0] < 5
    )
    arenas = set()
    for size in (8, 3, 8, 20, 3):
        _, values = run((torch.tensor(0), torch.zeros(size)), ())
        assert values.tolist() == [5.0] * size
        (arena,) = torch_graphs._arenas.values()
        arenas.add(arena.data_ptr())
    assert len(records) == 3
    assert len(arenas) == 1  # all of them fit into the alignment of the first


@pytest.mark.parametrize("rows", [3, 40])  # one loop; several, with ever fewer rows
@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(),
        DecodingOptions(beam_size=3),
        DecodingOptions(beam_size=2, coverage_penalty=0.2),
    ],
    ids=["greedy", "beam", "coverage"],
)
def test_a_recorded_search_finds_what_an_eager_one_finds(
    records, monkeypatch, rows, options
):
    model = scatter(models.build("paper"), seed=3, deviation=0.5)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 40, (rows, 5), generator=generator, dtype=torch.int32)
    limits = torch.full((rows,), 14, dtype=torch.int32)

    def find(source, limits, *, length):
        return search(model, source, limits, length=length, options=options)

    with monkeypatch.context() as context:
        context.setattr(torch_backend, "EAGER_STEPS", 10**6)
        expected = backends.compile(find, model)(ids, limits, length=14)
    assert not records
    run = backends.compile(find, model)
    for _ in range(3):
        found = run(ids, limits, length=14)
        assert found.tokens.equal(expected.tokens)
        assert found.lengths.equal(expected.lengths)
        torch.testing.assert_close(found.scores, expected.scores)
    assert records


def test_steps_that_cannot_be_recorded_are_traced(records, monkeypatch):
    def refuse(step):
        raise RuntimeError("no capture here")

    monkeypatch.setitem(torch_graphs.RECORDERS, "cpu", refuse)
    run = compiled(
        lambda state, _: (state[0] + 1, state[1] + 2), lambda state: state[0] < 7
    )
    with pytest.warns(UserWarning, match="no capture here"):
        _, values = run((torch.tensor(0), torch.zeros(1)), ())
    assert values.tolist() == [14.0]
    _, values = run((torch.tensor(0), torch.zeros(1)), ())
    assert values.tolist() == [14.0]
