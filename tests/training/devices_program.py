"""Trains a small model under a set-up of devices; `test_split_batches.py` runs it.

    python -m tests.training.devices_program KIND DEVICES PATH [VARIANT ...]

Writes PATH-RANK.npz: what each variant of the training ends with. The variant
`endless` trains until it is killed, under `fault` process 1 then raises an error. After
`late` the chief comes late to the first meeting.
"""

import sys
import time

import keras
import numpy as np
from keras import ops

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.backends.random_seed import set_random_seed
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import GradientNorm
from keras_transformer.training import NegativeLogLikelihood
from keras_transformer.training import TokenAccuracy
from keras_transformer.training import adam
from keras_transformer.training.distribution import open_distribution
from keras_transformer.training.moving_average import keep_weights

# So many rows that no weight has a gradient of the size of its rounding errors, which
# Adam would blow up.
STEPS, ROWS = 10, 32
LATE_SECONDS = 35  # the chief may encode a corpus before anybody trains

# The same trained alone is the truth: one device, without micro-batches.
VARIANTS = {
    "weighted": {"weighted": True, "dropout": 0.1, "r_drop": 2.0},
    "parts": {
        "weighted": False,
        "micro_batches": 2,
        "distillation": 0.5,
        "global_clipnorm": 1e-4,
        "use_ema": True,
        "optimizer": keras.optimizers.Adafactor,
        "weight_decay": 0.1,
    },
}


def batches(seed, steps):
    """Halves and quarters of each batch hold very different numbers of tokens."""
    rng = np.random.default_rng(seed)

    def ids(*lengths):
        table = rng.integers(3, 24, (steps, ROWS, 9))
        size = (steps, ROWS // len(lengths))
        ends = np.concatenate([rng.integers(*each, size) for each in lengths], axis=1)
        return np.where(np.arange(9) < ends[..., None], table, 0).astype("int32")

    source, labels = ids((2, 9)), ids((7, 10), (4, 6), (1, 3), (1, 2))
    target = np.concatenate([np.ones_like(labels[..., :1]), labels[..., :-1]], axis=-1)
    mask = (labels != 0).astype("float32")
    weights = mask / mask.sum((1, 2), keepdims=True)  # the whole batch's tokens
    return source, target, labels, weights


def own_rows(arrays, part, weighted):
    """Arguments of `fit` and `evaluate`: the share of this process of each batch."""
    index, count = part
    size = ROWS // count
    arrays = [array[:, index * size : (index + 1) * size] for array in arrays]
    source, target, labels, weights = [a.reshape(-1, a.shape[-1]) for a in arrays]
    return {
        "x": {"source": source, "target": target},
        "y": labels,
        "sample_weight": weights if weighted else None,
        "batch_size": size,
        "verbose": 0,
    }


def build(dropout=0.0, r_drop=0.0, distillation=0.0, optimizer=adam, **options):
    set_random_seed(0)
    config = TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=24,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=dropout,
    )
    model = Transformer(config)
    if distillation:
        model.teacher = Transformer(config)
    model.compile(
        optimizer=keep_weights(optimizer(1e-3, name="optimizer", **options)),
        loss=LabelSmoothedCrossEntropy(0.1, r_drop=r_drop, distillation=distillation),
        metrics=[NegativeLogLikelihood(), TokenAccuracy(), GradientNorm()],
    )
    return model


def train(distribution, weighted, micro_batches=1, **settings):
    """Ends of a training: weights, optimizer, logs of `fit` and `evaluate`."""
    model = build(**settings)
    model.micro_batches = micro_batches
    last = {}
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: last.update(logs)
    )
    arguments = own_rows(batches(0, STEPS), distribution.part, weighted)
    logs = model.fit(**arguments, epochs=1, shuffle=False, callbacks=[note]).history
    logs = {f"fit {name}": values[0] for name, values in logs.items()}
    logs |= {f"step {name}": value for name, value in last.items()}
    arguments = own_rows(batches(1, 3), distribution.part, weighted)
    evaluated = model.evaluate(**arguments, return_dict=True)
    logs |= {f"evaluate {name}": value for name, value in evaluated.items()}
    assert "evaluate nll" in logs and "evaluate gradient_norm" not in logs
    results = {f"logs/{key}": np.float32(value) for key, value in logs.items()}
    for index, variable in enumerate(model.weights + model.optimizer.variables):
        results[f"values/{index:03d} {variable.name}"] = backends.to_numpy(variable)
    return model, results


def train_endlessly(distribution, fails=False):
    model = build()
    arguments = own_rows(batches(0, STEPS), distribution.part, False)
    model.fit(**arguments, epochs=1)
    print("training", flush=True)
    if fails and not distribution.is_chief:
        raise ValueError("a fault")
    model.fit(**arguments, epochs=10**6)


def check_checkpoints(model):
    """All values can be read, and assigned again after the model has trained on."""
    model.evaluate(**own_rows(batches(1, 1), (0, 1), False))  # metrics hold something
    variables = model.variables + model.optimizer.variables
    variables = list({id(v): v for v in variables + model.metrics_variables}.values())
    values = [backends.to_numpy(variable) for variable in variables]
    for variable in variables:
        variable.assign(np.zeros_like(backends.to_numpy(variable)))
    for variable, value in zip(variables, values, strict=True):
        assert not np.any(backends.to_numpy(variable))
        variable.assign(value)
        np.testing.assert_array_equal(backends.to_numpy(variable), value)


def check_layouts(model):
    """All but what belongs to every feature alike is split."""
    for variable in model.weights:
        split = not variable.value.sharding.is_fully_replicated
        whole = ("gamma", "beta", "outer_bias")
        assert split != variable.path.endswith(whole), variable.path


def decode(model):
    """One compiled step of a search."""

    def step(source):
        memory, mask, _ = model.encode(source)
        constants, cache = model.start(memory, mask, 1, 4)
        tokens = ops.ones((source.shape[0], 1), "int32")
        return model.decode_step(tokens, 0, constants, cache)[0]

    source = batches(2, 1)[0][0, :2]
    return backends.to_numpy(backends.compile(step, model)(source))


def main(kind, devices, path, *variants):
    devices = devices if devices == "all" else int(devices)
    with open_distribution(kind, devices) as distribution:
        if variants[:1] == ("late",):
            variants = variants[1:]
            time.sleep(LATE_SECONDS if distribution.is_chief else 0)
            distribution.wait_for_preparation()
        if variants == ("fault",):
            return train_endlessly(distribution, fails=True)
        if variants == ("endless",):
            train_endlessly(distribution)
        results = {}
        for name in variants or VARIANTS:
            options = dict(VARIANTS[name])
            if kind == "none":
                options.pop("micro_batches", None)
            model, values = train(distribution, **options)
            results |= {f"{name}/{key}": value for key, value in values.items()}
            if name == "parts":
                results["parts/logs/decoded"] = decode(model)
        check_checkpoints(model)
        last = distribution.num_processes - 1
        assert distribution.any(distribution.process_index == last)
        assert not distribution.any(False)
        distribution.wait()
        # Of several processes, each gives another number.
        number = -0.5 - distribution.process_index
        assert distribution.max(number) == distribution.chiefs(number) == -0.5
        number = 0.5 + distribution.process_index
        assert distribution.max(number) == 0.5 + last
        assert distribution.chiefs(number) == 0.5
        results["num_replicas"] = distribution.num_replicas
        if kind == "model_parallel":
            check_layouts(model)
        np.savez(f"{path}-{distribution.process_index}.npz", **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
