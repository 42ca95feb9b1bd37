"""`gpu/training.py` and its peer in plain JAX, at toy size."""

import keras
import numpy as np
import pytest

NORM = ("gamma", "beta")


@pytest.mark.slow
def test_the_table_of_training(run_benchmark, ours):
    output, found = run_benchmark(
        "gpu.training", "--size", "toy", "--rounds", 2, "--only", ours
    )
    (numbers,) = found["rounds"].values()
    assert f"| {ours} |" in output
    assert [sorted(row) for row in numbers] == 2 * [
        [
            "first_step_seconds",
            "loss",
            "peak_bytes",
            "preparation_seconds",
            "tokens_per_second",
        ]
    ]
    assert found["flops_per_target_token"] > 0
    assert found["matrix_flops_per_second"] > 0
    assert found["machine"]["versions"]["keras"] == keras.__version__


@pytest.fixture
def jax_loop(monkeypatch):
    if keras.backend.backend() != "jax":
        pytest.skip("is JAX itself")
    from peers import jax_loop

    monkeypatch.setattr(jax_loop, "DROPOUT", 0.0)
    return jax_loop


def weights_by_hand(model):
    """The weights of a model of this package, as `jax_loop.initialize` nests them."""
    values = {variable.path: variable.value for variable in model.weights}

    def norm(path):
        return {name: values[f"{path}_residual/norm/{name}"] for name in NORM}

    def attention(path):
        kernels = {
            name[0]: values[f"{path}/{name}_kernel"]
            for name in ("query", "key", "value", "output")
        }
        return {**kernels, "norm": norm(path)}

    def network(path):
        parts = {
            part: {name: values[f"{path}/{part}_{name}"] for name in ("kernel", "bias")}
            for part in ("inner", "outer")
        }
        return {**parts, "norm": norm(path)}

    encoder = {
        "itself": attention("encoder_0/self_attention"),
        "network": network("encoder_0/feed_forward"),
    }
    decoder = {
        "itself": attention("decoder_0/self_attention"),
        "memory": attention("decoder_0/cross_attention"),
        "network": network("decoder_0/feed_forward"),
    }
    embedding = values["embedding/embeddings"]
    return {"embedding": embedding, "encoder": [encoder], "decoder": [decoder]}


def test_the_loop_by_hand_is_the_same_model(jax_loop):
    import jax
    from peers.ours import build

    model = build("toy", 50)
    random = np.random.default_rng(1)
    source, target = (random.integers(4, 50, (3, size)) for size in (7, 5))
    source[1, 4:] = 0
    forward = jax_loop._Forward(weights_by_hand(model), 2, jax.random.key(1))
    np.testing.assert_allclose(
        forward.logits(source, target),
        model({"source": source, "target": target}),
        atol=2e-5,
    )


def test_the_loop_by_hand_learns(jax_loop):
    from peers.batches import batches

    data = [tuple(ids[:8] for ids in batch) for batch in batches(50)[:1]]
    train = jax_loop.trainer(data, "toy", 50, bfloat16=False)
    first = float(train(1))
    assert float(train(60)) < first - 0.2
