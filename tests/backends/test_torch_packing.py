import functools
import gc

import keras
import numpy as np
import pytest

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("PyTorch's own machinery", allow_module_level=True)
if not torch.backends.mkldnn.is_available():
    pytest.skip("needs a PyTorch with oneDNN", allow_module_level=True)

from keras_transformer import Transformer  # noqa: E402
from keras_transformer import backends  # noqa: E402
from keras_transformer.backends import torch as torch_backend  # noqa: E402
from keras_transformer.backends import torch_packing  # noqa: E402
from keras_transformer.backends.torch_tracing import trace  # noqa: E402
from keras_transformer.decoding import DecodingOptions  # noqa: E402
from keras_transformer.models.search import search  # noqa: E402
from reference.weights import scatter  # noqa: E402

D = 512
GENERATOR = np.random.default_rng(0)


def random(*shape):
    return torch.from_numpy(GENERATOR.normal(size=shape).astype("float32"))


def weight(rows=D, columns=D):
    return torch.nn.Parameter(random(rows, columns) / D**0.5)


@pytest.fixture
def calls(monkeypatch):
    """The widths of the packed products that ran."""
    widths = []
    run = torch_packing.PackedProduct.__call__

    def noted(self, inputs):
        outputs = run(self, inputs)
        widths.append(outputs.shape[-1])
        return outputs

    monkeypatch.setattr(torch_packing.PackedProduct, "__call__", noted)
    return widths


def check(function, inputs):
    """A trace of the function against itself, on other inputs."""
    traced = trace(function, inputs)
    other = random(*inputs.shape)
    with torch.no_grad():
        expected = function(other)
        for found, wanted in zip(traced(other), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 4, 64])
def test_product_bias_and_relu_are_one(rows, calls):
    kernel, bias = weight(D, 3 * D), torch.nn.Parameter(random(3 * D))
    check(lambda x: [torch.relu(torch.matmul(x, kernel) + bias)], random(rows, 1, D))
    assert calls == [3 * D]


def test_products_of_the_same_inputs_are_one(calls):
    kernels = [weight(D, columns) for columns in (D, 2 * D, D)]
    biases = [torch.nn.Parameter(random(k.shape[1])) for k in kernels]

    def function(x):
        pairs = zip(kernels, biases, strict=True)
        return [torch.matmul(x, kernel) + bias for kernel, bias in pairs]

    check(function, random(2, 3, D))
    assert calls == [4 * D]


def test_what_follows_differs(calls):
    """Products of the same inputs of which one has a ReLU, one a bias, one neither."""
    first, second, third = weight(), weight(), weight()
    bias = torch.nn.Parameter(random(D))

    def function(x):
        return [
            torch.relu(torch.matmul(x, first)),
            torch.matmul(x, second) + bias,
            torch.matmul(x, third) + x,
        ]

    check(function, random(4, D))
    assert calls == [D] * 3


def test_one_follows_the_other(calls):
    first, second = weight(), weight()

    def function(x):
        hidden = torch.relu(torch.matmul(x, first))
        return [hidden, torch.matmul(hidden, second)]

    check(function, random(4, D))
    assert calls == [D] * 2


def test_a_product_that_is_used_twice_keeps_its_sum_apart(calls):
    kernel, bias = weight(), torch.nn.Parameter(random(D))

    def function(x):
        product = torch.matmul(x, kernel)
        return [product + bias, product]

    check(function, random(4, D))
    assert calls == [D]


def test_tied_logits(calls):
    embeddings = weight(1000, D)
    check(lambda x: [torch.matmul(x, embeddings.T)], random(4, 1, D))
    assert calls == [1000]


def test_small_weights_and_constants_are_left_alone(calls):
    small, constant = weight(8, 8), random(8, 8 * D * D // 8)
    check(lambda x: [torch.matmul(x, small), torch.matmul(x, constant)], random(4, 8))
    assert calls == []


def test_changed_weights_are_seen():
    kernel, bias = weight(), torch.nn.Parameter(random(D))
    inputs = random(3, D)
    traced = trace(lambda x: [torch.matmul(x, kernel) + bias], inputs)

    def check_again():
        expected = (inputs @ kernel + bias).detach()
        # The step below leaves weights, and so outputs, of a size of tens.
        np.testing.assert_allclose(traced(inputs)[0], expected, rtol=1e-5, atol=2e-5)

    check_again()
    with torch.no_grad():
        kernel.mul_(2.0)
    check_again()
    with torch.no_grad():
        bias.add_(1.0)
    check_again()
    (inputs @ kernel + bias).sum().backward()
    torch.optim.SGD([kernel, bias], lr=0.1).step()
    check_again()


def test_graphs_of_other_shapes_share_what_is_packed():
    gc.collect()
    before = len(torch_packing._products)
    linear = functools.partial(lambda kernel, x: [torch.matmul(x, kernel)], weight())
    traced = [trace(linear, random(n, D)) for n in (1, 2)]
    assert len(torch_packing._products) == before + 1
    del traced, linear
    gc.collect()
    assert len(torch_packing._products) == before


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_search_finds_the_same_and_follows_its_model(beam_size, monkeypatch, calls):
    monkeypatch.setattr(torch_packing, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(torch_backend, "EAGER_STEPS", 0)
    model = Transformer(
        {
            "vocabulary_size": 11,
            "hidden_dim": 8,
            "intermediate_dim": 7,
            "num_heads": 2,
            "num_encoder_layers": 1,
            "num_decoder_layers": 2,
        }
    )
    options = DecodingOptions(beam_size=beam_size, top_beams=beam_size)
    plain = functools.partial(search, model, length=7, options=options)
    compiled = backends.compile(plain, model)
    source = torch.tensor([[5, 9, 7, 2, 0], [6, 2, 0, 0, 0]], dtype=torch.int32)
    limits = torch.tensor([7, 4], dtype=torch.int32)
    for seed in (0, 1):
        scatter(model, seed, deviation=0.5)
        with torch.no_grad():
            expected = plain(source, limits)
        found = compiled(source, limits)
        np.testing.assert_array_equal(found.tokens, expected.tokens)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    assert calls
