"""The formula of model FLOPs utilisation, against numbers counted by hand."""

import numpy as np
import pytest
from gpu import mfu

pytestmark = pytest.mark.no_backend

SIZE = (1, 2, 3, 1)  # layers, D, F, heads


def test_flops_are_those_counted_by_hand():
    # Encoder 4 * 4 + 2 * 6 = 28 weights, decoder 8 * 4 + 2 * 6 = 44, output 5 * 2 = 10.
    products = 6 * (28 * 2 + (44 + 10) * 3)
    attention = 12 * 1 * 2 * (2 * 2 + (1 + 2 + 3) + 2 * 3)
    assert products + attention == 1308 + 384
    assert mfu.training_flops(SIZE, 5, [2], [3]) == 1692


def test_flops_of_a_batch_are_the_sum_over_its_pairs():
    both = mfu.training_flops(SIZE, 5, [2, 4], [3, 1])
    alone = mfu.training_flops(SIZE, 5, [4], [1])
    assert both == 1692 + alone


def test_padding_is_not_counted():
    source = np.array([[7, 2, 0, 0]])
    labels = np.array([[5, 6, 2, 0, 0]])
    batch = (source, None, labels)
    assert mfu.flops_per_token(SIZE, 5, [batch]) == 1692 / 3


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA A100 80GB PCIe", 312e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA GH200 480GB", 989e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
        # Other models, whose names hold these.
        ("NVIDIA L400", None),
        ("NVIDIA GB200", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("x86_64, 2 cores", None),
    ],
)
def test_a_card_is_known_by_its_name(name, peak):
    assert mfu.peak_of(name) == peak


def test_big_costs_what_its_weights_say():
    # 214 M weights in products, each 6 FLOPs, and a little attention.
    flops = mfu.training_flops((6, 1024, 4096, 16), 37_000, [29], [29]) / 29
    assert flops == pytest.approx(6 * 214e6, rel=0.01)
