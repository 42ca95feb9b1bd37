"""Plain `fit` never holds logits of every token: measured as memory."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROWS, LENGTH, VOCABULARY_SIZE = 6, 512, 37_000
LOGITS = ROWS * LENGTH * VOCABULARY_SIZE * 4 / 2**20  # MiB

MEASURE = """
import json
import numpy as np
import keras
from keras_transformer.config import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models import Transformer

def peak():
    # Not ru_maxrss: a process inherits the peak of the one that started it.
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

config = TransformerConfig(
    vocabulary_size={vocabulary_size}, hidden_dim=16, intermediate_dim=8, num_heads=2,
    num_encoder_layers=1, num_decoder_layers=1, dropout=0.0,
)
def mean_logit(labels, logits):  # makes the model hold the logits
    return keras.ops.mean(logits, axis=-1)

def batch(length):
    ids = np.random.default_rng(0).integers(4, {vocabulary_size}, ({rows}, length))
    return {{"source": ids[:, :8], "target": ids}}, ids

# The plain model comes last: what the process has held once stays its peak.
for metrics in ([], [keras.metrics.MeanMetricWrapper(mean_logit)]):
    model = Transformer(config)
    model.compile(optimizer="sgd", loss=LabelSmoothedCrossEntropy(), metrics=metrics)
    # Warm: libraries, optimizer and metrics are there before memory is measured.
    model.train_on_batch(*batch(1))
    model.test_on_batch(*batch(1))
    begin = begin if metrics else peak()
    inputs, labels = batch({length})
    model.fit(inputs, labels, batch_size={rows}, verbose=0)
    trained = peak()
    if not metrics:
        model.evaluate(inputs, labels, batch_size={rows}, verbose=0)
    print(json.dumps([trained - begin, peak() - begin]))
"""


def test_training_never_holds_the_logits(run_python):
    """The growth of the peak of resident memory in MiB, by fit and by both."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux, which tells the memory")
    code = MEASURE.format(vocabulary_size=VOCABULARY_SIZE, rows=ROWS, length=LENGTH)
    # XLA as it is used, whatever the tests save on compilation.
    output = run_python(code, env={"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"})
    (fused, both), (plain, _) = map(json.loads, output.splitlines()[-2:])
    assert plain > LOGITS, f"{plain:.0f} MiB: the comparison holds no logits"
    assert both < plain / 2, f"fused {both:.0f} MiB, plain {plain:.0f} MiB"
    assert fused < plain / 2
