"""The formulas of `benchmarks/gpu/roofline.py` against programs that are traced."""

import keras
import numpy as np
import pytest
from gpu import mfu
from gpu import roofline
from peers.batches import SIZES

BACKEND = keras.backend.backend()
VOCABULARY, ROWS, S, T = 50, 3, 7, 5


def products(jaxpr, times=1):
    """FLOPs of the matrix products of a program; of a loop, as often as it runs."""
    total = 0
    for equation in jaxpr.eqns:
        parameters = equation.params
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = parameters["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            size = np.prod([shape[axis] for axis in contracted])
            total += 2 * times * size * np.prod(equation.outvars[0].aval.shape)
        inner = times * parameters.get("length", 1)
        for value in parameters.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                if hasattr(part, "eqns") or hasattr(part, "jaxpr"):
                    total += products(getattr(part, "jaxpr", part), inner)
    return total


@pytest.mark.one_backend("jax")
@pytest.mark.skipif(BACKEND != "jax", reason="traces JAX")
def test_flops_are_those_of_a_traced_training_step():
    import jax
    from peers import ours

    ids = np.ones((ROWS, T), "int32")
    inputs = {"source": np.ones((ROWS, S), "int32"), "target": ids}
    weights = np.full((ROWS, T), 1 / ROWS / T, "float32")
    model, _ = ours.prepare([(inputs["source"], ids, ids)], "toy", VOCABULARY, True)
    data = (inputs, ids, weights)
    model._symbolic_build(data_batch=data)
    model.optimizer.build(model.trainable_variables)
    state = [
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    ]
    found = products(jax.make_jaxpr(model.train_step)(state, data).jaxpr)
    size = SIZES["toy"], VOCABULARY, ROWS * T
    parts = roofline.training(*size, S, T, fused=False)
    assert found == pytest.approx(sum(part.flops for part in parts.values()), rel=0.02)


@pytest.mark.no_backend
def test_flops_are_those_that_mfu_counts():
    """But for padding, what is computed twice, and the other half of causal scores."""
    size = SIZES["base"]
    parts = roofline.training(size, 37_000, 32_000, 32, 32)
    found = sum(part.flops for part in parts.values())
    counted = mfu.training_flops(size, 37_000, [32] * 1000, [32] * 1000)
    assert counted < found < 1.02 * counted


@pytest.mark.no_backend
def test_a_step_is_no_faster_than_its_products_or_its_bytes():
    parts = roofline.training(SIZES["base"], 37_000, 25_000, 32, 32)
    for name in roofline.BANDWIDTHS:
        peak, bandwidth = roofline.card(name)
        times = [part.seconds(peak, bandwidth, 1.0) for part in parts.values()]
        assert sum(times) >= sum(part.flops for part in parts.values()) / peak
        assert sum(times) >= sum(part.bytes for part in parts.values()) / bandwidth
        reached = roofline.utilisation(
            SIZES["base"], 37_000, 25_000, 32, 32, sum(times), peak
        )
        assert 0.2 < reached < 1.0


@pytest.mark.no_backend
def test_scores_that_are_held_cost_bytes():
    size = SIZES["base"], 37_000, 25_000
    apart = [
        roofline.training(*size, length, length, fused=False)["attention"].bytes
        - roofline.training(*size, length, length)["attention"].bytes
        for length in (32, 64)
    ]
    assert apart[0] > 0 and apart[1] == pytest.approx(2 * apart[0])


@pytest.mark.no_backend
def test_the_table_is_printed_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["roofline", "--size", "big"])
    roofline.main()
    output = capsys.readouterr().out
    for name in roofline.BANDWIDTHS:
        assert f"### {name}, MFU" in output
    assert output.count("| optimizer |") == len(roofline.BANDWIDTHS)
    assert output.count("| 256 | 4 |") == len(roofline.BANDWIDTHS)
