import traceback

import keras
import pytest

from keras_transformer import backends

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("PyTorch's own machinery", allow_module_level=True)

from keras_transformer.backends.torch_tracing import trace  # noqa: E402


def test_gives_the_same_for_other_values():
    def function(values, nested):
        return {"sum": values + nested["a"][0], "product": (values * nested["a"][0],)}

    traced = trace(function, torch.ones(3), {"a": [torch.ones(3)]})
    result = traced(torch.arange(3.0), {"a": [torch.full((3,), 2.0)]})
    assert result["sum"].tolist() == [2, 3, 4]
    assert result["product"][0].tolist() == [0, 2, 4]


def test_parameters_stay_parameters_and_constants_are_folded():
    parameter = torch.nn.Parameter(torch.ones(3))
    constant = torch.arange(3.0)

    def function(values):
        return values * parameter + constant.cos().sum()

    traced = trace(function, torch.ones(3))
    parameter.data.fill_(5.0)
    expected = 5 + constant.cos().sum()
    assert torch.equal(traced(torch.ones(3)), expected.expand(3))


def test_random_numbers_are_drawn_again():
    def function(values):
        return torch.nn.functional.dropout(values, 0.5)

    traced = trace(function, torch.ones(1000))
    assert not torch.equal(traced(torch.ones(1000)), traced(torch.ones(1000)))


def test_two_random_calls_are_two():
    traced = trace(lambda v: torch.rand_like(v) - torch.rand_like(v), torch.ones(9))
    assert traced(torch.ones(9)).abs().sum() > 0


def test_equal_calls_are_made_once():
    calls = []

    def function(values):
        calls.append(values)
        return [torch.exp(values) for _ in range(3)]

    traced = trace(function, torch.ones(3))
    first, second, third = traced(torch.zeros(3))
    assert first is second is third
    assert len(calls) == 1


def test_what_is_written_between_two_reads_is_seen():
    def function(cache, value):
        before = cache.sum()
        cache = backends.update_cache(cache, value, torch.tensor(1))
        return before, cache.sum()

    traced = trace(function, torch.zeros(4, 1), torch.ones(1, 1))
    before, after = traced(torch.zeros(4, 1), torch.full((1, 1), 3.0))
    assert (before.item(), after.item()) == (0.0, 3.0)


def test_top_k_looks_at_the_values_of_each_run():
    traced = trace(lambda scores: backends.top_k(scores, 3), torch.arange(9.0))
    scores = torch.tensor([0.0, 5, 1, 5, 1, 5, 5, 0, 1])
    assert traced(scores)[1].tolist() == [1, 3, 5]
    assert traced(-scores)[1].tolist() == [0, 7, 2]


def test_what_is_written_into_is_fresh_at_each_run():
    def function(value):
        first, second = torch.zeros(4), torch.zeros(4)
        first[1:3][0] += value.sum()
        return first, second

    traced = trace(function, torch.ones(2))
    for _ in range(2):
        first, second = traced(torch.ones(2))
        assert (first.tolist(), second.tolist()) == ([0, 2, 0, 0], [0] * 4)


def test_the_values_of_a_trace_share_one_mode(monkeypatch):
    """Each new mode takes PyTorch a walk over the whole stack."""
    walk, walks = traceback.extract_stack, []

    def counted(*arguments, **options):
        walks.append(1)
        return walk(*arguments, **options)

    monkeypatch.setattr(traceback, "extract_stack", counted)
    trace(lambda x: ((x * 2 + 1) @ x.T).exp(), torch.ones(3, 4))
    assert len(walks) == 1
