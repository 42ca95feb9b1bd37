"""The page about scale has what its program prints, from figures that were measured."""

import dataclasses
from pathlib import Path

import pytest
import scale

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).parents[2]
DEVICE = scale.parsed([])


def test_the_tables_of_the_page_are_those_of_the_program():
    page = (ROOT / "docs/scale.md").read_text("utf-8")
    for table in scale.tables(DEVICE):
        assert table in page


def test_measured_figures_are_those_of_the_benchmarks():
    measured = (ROOT / "benchmarks/README.md").read_text("utf-8")
    for rates in scale.DECODING.values():
        for rate in rates:
            assert f" {rate} |" in measured
    assert "| feed, target tokens/s | 5.4 M; 176 k with BPE-dropout" in measured
    assert "326 s, 30.7 k pairs/s" in measured


def test_a_ring_of_two_sends_the_gradients_once():
    size = scale.gradient_bytes("base")
    assert size == 4 * scale.num_weights("base")
    assert scale.sent_bytes("base", 2) == size
    assert scale.sent_bytes("base", 1) == 0


def test_efficiency_grows_with_the_work_of_a_step_and_falls_with_devices():
    slow, _, fast = scale.NETWORKS

    def of(devices, network=fast, overlaps=False, times=1):
        device = dataclasses.replace(DEVICE, tokens=times * DEVICE.tokens)
        return scale.efficiency("base", devices, network, device, overlaps=overlaps)

    assert of(1) == 1
    assert of(8) > of(64) > of(512) > of(512, slow)
    assert of(512) < of(512, times=4) < of(512, times=16) < 1
    assert of(512) < of(512, overlaps=True)
    # By hand: a step of 1 s, and gradients that take 1 s between two hosts.
    one = scale.Network(
        "one", inside=float("inf"), between=scale.gradient_bytes("base")
    )
    second = dataclasses.replace(DEVICE, tokens=DEVICE.rate("base"))
    found = scale.efficiency("base", 16, one, second, overlaps=False)
    assert found == pytest.approx(0.5, abs=1e-3)
