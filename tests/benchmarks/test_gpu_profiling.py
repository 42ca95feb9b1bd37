"""`gpu/profiling.py` at toy size, and how kernels are counted."""

import json
import subprocess

import pytest
from gpu import profiling


@pytest.mark.one_backend
@pytest.mark.slow
def test_a_training_is_profiled(ours, run_benchmark):
    arguments = ["--size", "toy", "--only", ours, "--kernels", 3]
    output, found = run_benchmark("gpu.profiling", *arguments)
    (numbers,) = found["milliseconds"].values()
    assert len(numbers["kernels"]) == 3
    assert 0 < numbers["busy"] <= numbers["span"]
    assert numbers["launches"] >= 3 and numbers["step"] > 0 and numbers["batch"] > 0
    assert f"### {ours}" in output and "gaps without a kernel" in output


@pytest.mark.one_backend
def test_gaps_are_where_no_kernel_runs():
    from peers.kernels import busy_and_span

    events = [("a", 10, 5), ("b", 12, 6), ("c", 13, 1), ("d", 30, 4)]
    assert busy_and_span(events) == (8 + 4, 24)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "matrix products"),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16", "matrix products"),
        ("flash_fwd_kernel", "attention, softmax"),
        ("multi_tensor_apply_kernel", "optimizer"),
        ("MemcpyH2D", "copies"),
        ("input_reduce_fusion_3", "reductions"),
        ("vectorized_elementwise_kernel", "element-wise"),
        ("something", "others"),
    ],
)
def test_a_kernel_has_a_kind(name, kind):
    from peers import kernels

    assert kernels.kind(name) == kind


@pytest.mark.no_backend
def test_a_profile_that_takes_too_long_is_named_and_left_out(
    tmp_path, monkeypatch, capsys
):
    def traced(options, environment, seconds):
        raise subprocess.TimeoutExpired("peers.kernels", seconds)

    monkeypatch.setenv("PATH", "")  # without nvidia-smi
    monkeypatch.setattr(profiling, "traced", traced)
    monkeypatch.setattr(profiling, "cut", lambda *_: None)
    monkeypatch.setattr(profiling, "installed", lambda *_: True)
    path = tmp_path / "found.json"
    arguments = ["profiling", "--size", "toy", "--only", "JAX", "--json", str(path)]
    monkeypatch.setattr("sys.argv", arguments)
    profiling.main()
    output, errors = capsys.readouterr()
    assert errors == "ours, JAX: did not end, left out\n" and "###" not in output
    assert json.loads(path.read_text())["milliseconds"] == {}


@pytest.mark.no_backend
def test_the_table_says_where_the_time_goes(capsys):
    numbers = {
        "step": 12.0,
        "span": 10.0,
        "busy": 9.0,
        "batch": 1.0,
        "launches": 3,
        "kinds": {"matrix products": 6.0, "copies": 3.0},
        "kernels": {"gemm": 6.0},
    }
    profiling.report("ours, JAX", numbers)
    output = capsys.readouterr().out
    assert "| kernels: matrix products | 6.000 | 60.0% |" in output
    assert "| gaps without a kernel | 1.000 | 10.0% |" in output
