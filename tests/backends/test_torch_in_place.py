"""A traced graph overwrites what nobody reads again, and nothing else."""

import keras
import pytest

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("PyTorch's own machinery", allow_module_level=True)

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from keras_transformer.backends.torch_in_place import write_in_place  # noqa: E402

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4)
Y = torch.linspace(0.5, 3.0, 12).reshape(3, 4)


def traced(function, *arguments):
    with torch.no_grad():
        module = make_fx(function, pre_dispatch=True)(*arguments)
    write_in_place(module.graph)
    module.recompile()
    return module


def in_place_calls(module):
    names = (str(node.target) for node in module.graph.nodes)
    return [name for name in names if name.split(".")[1:2] and "_." in name]


def test_a_chain_of_element_wise_operations_needs_the_memory_of_its_first():
    def function(x, y):
        return ((x @ y.T).log_softmax(-1) + y[:, :3] + 1.0).exp() * 2.0

    module = traced(function, X, Y)
    assert in_place_calls(module) == ["aten.add_.Tensor"] * 2 + [
        "aten.exp_.default",
        "aten.mul_.Tensor",
    ]
    assert torch.equal(module(X, Y), function(X, Y))


def test_the_second_operand_of_a_sum_holds_it_too():
    module = traced(lambda x, y: x + y.exp(), X, Y)
    assert in_place_calls(module) == ["aten.add_.Tensor"]
    assert torch.equal(module(X, Y), X + Y.exp())


def test_both_operands_may_be_the_same():
    def function(x):
        hidden = x.exp()
        return hidden * hidden

    module = traced(function, X)
    assert in_place_calls(module) == ["aten.mul_.Tensor"]
    assert torch.equal(module(X), function(X))


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, y: x + y, id="arguments"),
        pytest.param(lambda x, y: given_back(x.exp(), y), id="a_result"),
        pytest.param(lambda x, y: twice(x.exp(), y), id="read_later"),
        pytest.param(lambda x, y: seen_by(x.exp(), y), id="a_view_of_it_is_read_later"),
        pytest.param(lambda x, y: (x @ y.T).T + 1, id="a_view"),
        pytest.param(lambda x, y: x[:1].exp() + y, id="broadcast"),
        pytest.param(lambda x, y: x.exp() > y, id="another_dtype"),
        pytest.param(lambda x, y: y - x.exp(), id="no_commutative_operation"),
        pytest.param(lambda x, y: torch.add(y, x.exp(), alpha=2), id="with_a_factor"),
        pytest.param(lambda x, y: x.conj_physical() + y, id="itself_where_it_is_real"),
        pytest.param(lambda x, y: x.expand(2, 3, 4).exp().sum(0) + y, id="a_sum"),
    ],
)
def test_elsewhere_results_have_memory_of_their_own(function):
    x, y = X.clone(), Y.clone()
    module = traced(function, x, y)
    for _ in range(2):
        found, expected = module(x, y), function(x, y)
        for one, other in zip(parts(found), parts(expected), strict=True):
            assert torch.equal(one, other)
    assert torch.equal(x, X) and torch.equal(y, Y)
    assert not in_place_calls(module)


def test_a_long_computation_gives_the_same_bits():
    def function(x, y):
        rows = []
        for factor in range(1, 4):
            hidden = (x @ y.T * factor).relu() + x[:, :3]
            rows.append(hidden / (1.0 + hidden.abs()))
            x = x * rows[-1].sum() - y
        return rows

    x, y = X.clone(), Y.clone()
    module = traced(function, x, y)
    assert in_place_calls(module)
    for one, other in zip(module(x, y), function(x, y), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(x, X) and torch.equal(y, Y)


def twice(hidden, y):
    return hidden + y, hidden * y


def seen_by(hidden, y):
    view = hidden.reshape(-1)
    return hidden + y, view * 2


def given_back(hidden, y):
    return hidden, hidden + y


def parts(result):
    return result if isinstance(result, tuple) else (result,)
