"""`gpu/training.py` and its peers, at toy size."""

import importlib.util

import keras
import numpy as np
import pytest

NORM = ("gamma", "beta")
#: What is measured beside this package's program, by the backend of the tests.
PEERS = {"jax": "JAX by hand", "torch": "torch.nn.Transformer compiled"}


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_table_of_training(run_benchmark, ours):
    peer = PEERS[keras.backend.backend()]
    output, found = run_benchmark(
        "gpu.training", "--size", "toy", "--rounds", 2, "--only", ours, peer
    )
    assert sorted(found["rounds"]) == sorted([ours, peer])
    rows = [line.split(" | ")[:3] for line in output.splitlines()]
    assert [row[2] for row in rows if row[0] == f"| {peer}"] == ["1.00"]
    assert [float(row[2]) > 0 for row in rows if row[0] == f"| {ours}"] == [True]
    for numbers in found["rounds"].values():
        assert [sorted(row) for row in numbers] == 2 * [
            [
                "first_step_seconds",
                "loss",
                "peak_bytes",
                "preparation_seconds",
                "tokens_per_second",
            ]
        ]
        assert np.isfinite(numbers[-1]["loss"])
    assert found["flops_per_target_token"] > 0
    assert found["matrix_flops_per_second"] > 0
    assert found["machine"]["versions"]["keras"] == keras.__version__


@pytest.mark.slow
@pytest.mark.one_backend
def test_marian_is_trained(run_benchmark):
    if not importlib.util.find_spec("transformers"):
        pytest.skip("needs transformers, of benchmarks/requirements.txt")
    output, found = run_benchmark(
        "gpu.training", "--size", "toy", "--rounds", 1, "--only", "Marian"
    )
    ((row,),) = found["rounds"].values()
    assert row["tokens_per_second"] > 0 and np.isfinite(row["loss"])
    assert "| Hugging Face Marian compiled |" in output


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
