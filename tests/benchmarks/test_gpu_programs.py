"""Each program of `benchmarks/gpu` once, at toy size, and what its numbers rest on."""

import contextlib
import gc
import importlib
import importlib.util
import io
import json
import os
import subprocess
import time
import types
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import turns
from gpu import agreement
from gpu import cublas
from gpu import decoding
from gpu import environments
from gpu import mfu
from gpu import processes
from gpu import profiling
from gpu import quality
from gpu import report
from gpu import training
from peers.batches import by_length
from typer.testing import CliRunner

from keras_transformer.cli.main import application
from keras_transformer.data import phrasebook
from training.digit_text import VOCABULARY_SIZE
from training.digit_text import write_files
from training.digit_text import write_tsv

pytestmark = pytest.mark.one_backend
BACKEND = keras.backend.backend()
#: The name of this package's programs on the backend of the tests.
OURS = {"jax": "JAX", "torch": "PyTorch"}.get(BACKEND)
#: What is measured beside it.
PEER = {"jax": "JAX by hand", "torch": "torch.nn.Transformer compiled"}.get(BACKEND)


class Here(turns.Program):
    """A program of `turns.py` in this process."""

    def start(self, seconds=None):
        self.process = types.SimpleNamespace(poll=lambda: None)
        _, name, *arguments = map(str, self.arguments)
        module = importlib.import_module(name)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "serve", lambda work: vars(self).update(does=work))
            call(module, arguments)
        return True

    def work(self, job=None, seconds=None):
        return json.loads(json.dumps(self.does(job)))

    def end(self):
        pass


def call(module, arguments):
    """What the main function of a module prints."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [module.__name__, *map(str, arguments)])
        with contextlib.redirect_stdout(output):
            module.main()
    return output.getvalue()


@pytest.fixture
def run_benchmark(tmp_path, monkeypatch):
    """`run_benchmark(module, *arguments)`: what it printed, and wrote as JSON.

    Everything runs in this process, which has imported the backend already.
    """
    if OURS is None:
        pytest.skip("runs on JAX or PyTorch")

    def output_of(module, *arguments, **_):
        return call(importlib.import_module(module), arguments)

    monkeypatch.setattr(processes, "output_of", output_of)
    monkeypatch.setattr(training, "Program", Here)
    monkeypatch.setattr(decoding, "Program", Here)
    if BACKEND == "torch":
        import torch

        # For GPUs: here it would take minutes.
        monkeypatch.setattr(torch, "compile", lambda function: function)

    def run(module, *arguments):
        path = tmp_path / "found.json"
        output = call(module, [*arguments, "--json", path])
        return output, json.loads(path.read_text())

    yield run
    if BACKEND == "torch":
        torch.use_deterministic_algorithms(False)


# === The programs ===


def test_training(run_benchmark):
    ours = f"ours, {OURS}"
    arguments = ["--size", "toy", "--rounds", 1, "--float32", "--only", ours, PEER]
    output, found = run_benchmark(training, *arguments)
    assert f"\n{ours}: " in output  # as soon as it is known
    rows = [line.split(" | ")[:3] for line in output.splitlines()]
    assert [row[2] for row in rows if row[0] == f"| {PEER}"] == ["1.00"]
    assert [float(row[2]) > 0 for row in rows if row[0] == f"| {ours}"] == [True]
    assert all(np.isfinite(row["loss"]) for (row,) in found["rounds"].values())
    assert found["matrix_flops_per_second"] > 0


def test_decoding(run_benchmark):
    peer = "CTranslate2, float32"
    names = [f"ours, {OURS}"] + [peer] * bool(importlib.util.find_spec("ctranslate2"))
    arguments = ["--size", "toy", "--batch", 4, "--sentences", 6, "--rounds", 1]
    arguments += ["--seconds", 0, "--float32", "--beam", 2, "--only", *names]
    output, found = run_benchmark(decoding, *arguments)
    rounds = found["rounds"]["batch 4, beam 2"]
    assert sorted(rounds) == sorted(names)
    for name, (row,) in rounds.items():
        assert row["sentences"] == 6 and row["tokens_per_second"] > 0
        assert f"| {name} |" in output


def test_profiling(run_benchmark):
    arguments = ["--size", "toy", "--float32", "--kernels", 3]
    arguments += ["--only", f"ours, {OURS}"]
    output, found = run_benchmark(profiling, *arguments)
    (numbers,) = found["milliseconds"].values()
    assert len(numbers["kernels"]) == 3 and numbers["launches"] >= 3
    assert 0 < numbers["busy"] <= numbers["span"]
    assert f"### ours, {OURS}" in output and "gaps without a kernel" in output


def test_agreement(run_benchmark):
    name = f"{OURS}, float32"
    arguments = ["--size", "toy", "--steps", 1, "--beam", 2, "--deterministic"]
    output, found = run_benchmark(agreement, *arguments, "--only", name)
    ((ran, parts),) = found["runs"].items()
    assert ran == name and parts["training"]["equal"]
    assert parts["CPU, float32"]["logits"] == 0
    assert f"| {name} | CPU, float32 |" in output and f"| {name} | yes |" in output


CONFIG = f"""
data:
  train: [{{source: train.en, target: train.de}}]
  validation: {{source: val.en, target: val.de}}
  test: {{tsv: test.tsv}}
  batch_tokens: 64
tokenizer: {{vocabulary_size: {VOCABULARY_SIZE}}}
model: {{hidden_dim: 16, intermediate_dim: 32, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1}}
training: {{steps: 4, warmup_steps: 2, validate_every: 4, checkpoint_every: 4}}
decoding: {{beam_size: 1}}
output: runs/digits
"""


def start_here(run, environment):
    """`Run.start` in this process."""
    run.folder.parent.mkdir(parents=True, exist_ok=True)
    threshold = gc.get_threshold()
    done = CliRunner().invoke(application(), run.command)
    gc.set_threshold(*threshold)  # a command changes it
    run.log.write_text(done.output, encoding="utf-8")
    run.process = types.SimpleNamespace(
        poll=lambda: done.exit_code, returncode=done.exit_code
    )


def test_a_run_of_quality_is_scored_and_not_made_twice(
    run_benchmark, tmp_path, monkeypatch
):
    monkeypatch.setattr(quality.Run, "start", start_here)
    monkeypatch.setattr(quality, "_WAITING", 0.0)
    (tmp_path / "digits.yaml").write_text(CONFIG)
    for name, count in (("train", 40), ("val", 4)):
        write_files(tmp_path, name, count)
    write_tsv(tmp_path / "test.tsv", 4)
    arguments = [tmp_path / "digits.yaml", "--output", tmp_path / "runs"]
    arguments += ["--grid", "model.dropout=0.2"]
    output, found = run_benchmark(quality, *arguments)
    (run,) = found["runs"]
    assert run["ended"] and run["step"] == 4 and run["seed"] == 1
    assert sorted(run["test"]) == ["BLEU", "TER", "chrF2"]
    assert "| model.dropout=0.2 | 1 | test BLEU |" in output
    (log,) = (tmp_path / "runs").glob("*.log")
    text = log.read_text()
    assert "model folder" in text
    output, again = run_benchmark(quality, *arguments)
    assert again["runs"] == found["runs"] and log.read_text() == text


# === What their numbers rest on ===


@pytest.mark.one_backend("jax")
@pytest.mark.skipif(BACKEND != "jax", reason="is JAX itself")
def test_the_loop_of_jax_by_hand_is_the_same_model_and_learns(monkeypatch):
    import jax
    from peers import jax_loop
    from peers.batches import batches
    from peers.ours import build

    monkeypatch.setattr(jax_loop, "DROPOUT", 0.0)
    model = build("toy", 50)
    random = np.random.default_rng(1)
    source, target = (random.integers(4, 50, (3, size)) for size in (7, 5))
    source[1, 4:] = 0
    forward = jax_loop._Forward(weights_by_hand(model), 2, jax.random.key(1))
    found = forward.logits(source, target)
    expected = model({"source": source, "target": target})
    np.testing.assert_allclose(found, expected, atol=2e-5)
    data = [tuple(ids[:8] for ids in batch) for batch in batches(50)[:1]]
    train = jax_loop.trainer(data, "toy", 50, bfloat16=False)
    first = float(train(1))
    assert float(train(60)) < first - 0.2


def weights_by_hand(model):
    """The weights of a model of this package, as `jax_loop.initialize` nests them."""
    values = {variable.path: variable.value for variable in model.weights}

    def with_norm(path, part):
        norm = f"{path}_residual/norm"
        return {**part, "norm": {n: values[f"{norm}/{n}"] for n in ("gamma", "beta")}}

    def attention(path):
        names = ("query", "key", "value", "output")
        return with_norm(path, {n[0]: values[f"{path}/{n}_kernel"] for n in names})

    def network(path):
        layers = {
            name: {kind: values[f"{path}/{name}_{kind}"] for kind in ("kernel", "bias")}
            for name in ("inner", "outer")
        }
        return with_norm(path, layers)

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


#: A child of `turns.py`: its lines before the numbers are not its answers.
CHILD = "from turns import serve; print('noise'); serve(lambda job: {'twice': 2 * job})"


@pytest.mark.no_backend
def test_programs_prepare_side_by_side_and_say_why_one_is_left_out(capsys):
    programs = [
        turns.Program("works", ["-c", CHILD], {}),
        turns.Program("refuses", ["-c", "import turns; turns.refuse('no card')"], {}),
        turns.Program("fails", ["-c", "raise SystemExit(3)"], {}),
    ]
    ready = turns.prepared(programs, turns.Clock(1), at_once=3)
    assert [program.name for program in ready] == ["works"]
    assert [program.fault for program in programs] == [None, "no card", "has failed"]
    told = []
    found = turns.play(
        ready, 2, turns.Clock(1), 4, tell=lambda *numbers: told.append(numbers)
    )
    ready[0].end()
    assert found == {"works": [{"twice": 8}] * 2}
    assert told == [("works", {"twice": 8})] * 2
    assert "refuses: no card, left out" in capsys.readouterr().err


#: A child that keeps what it was told, and fails at the number 3.
TOLD = (
    "from turns import serve\n"
    "told = []\n"
    "def work(job):\n"
    "    told.append(job)\n"
    "    return {'told': told, 'fails': 1 / (3 - job['number'])}\n"
    "serve(work)"
)


@pytest.mark.no_backend
def test_programs_are_told_all_their_jobs_before_they_are_measured(capsys):
    programs = [turns.Program(name, ["-c", TOLD], {}) for name in ("works", "fails")]
    ready = turns.prepared(programs, turns.Clock(1), at_once=2)
    numbers = {"works": (1, 2), "fails": (1, 3)}
    turns.warm(
        ready,
        lambda program: [{"number": number} for number in numbers[program.name]],
        turns.Clock(1),
    )
    assert [program.name for program in ready] == ["works"]
    assert programs[1].fault == "not prepared in time"
    found = ready[0].work({"number": 1})
    ready[0].end()
    told = [{"number": number, "prepare": True} for number in (1, 2)]
    assert found["told"] == [*told, {"number": 1}]


@pytest.mark.no_backend
def test_what_is_not_installed_is_a_row_with_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(environments, "installed", lambda *names: False)
    for program, folder in ((training, "batches"), (decoding, "folder")):
        monkeypatch.setattr("sys.argv", ["program", "--only", "TensorFlow"])
        made = program.make_programs(
            program.parse(),
            {**training.TOY, "preset": "toy", "bfloat16": True, "matrix_size": 8},
            *[folder, True][: 1 + (program is decoding)],
        )
        faults = made[1]
        assert faults == {
            "ours, TensorFlow": "tensorflow not installed",
            "ours, TensorFlow, MirroredStrategy": "tensorflow not installed",
        }
    training.report({}, {}, faults, 1e9, None, None)
    assert (
        "| ours, TensorFlow | left out: tensorflow not installed |"
        in capsys.readouterr().out
    )


@pytest.mark.no_backend
def test_few_minutes_make_a_small_table():
    assert environments.is_short(4) and not environments.is_short(9.5)
    assert training.SHORT["buckets"] < training.FULL["buckets"]


@pytest.mark.no_backend
@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_ctranslate2_finds_the_cublas_of_either_cuda(tmp_path):
    links, libraries = tmp_path / "links", tmp_path / "nvidia" / "cu13" / "lib"
    libraries.mkdir(parents=True)
    assert cublas.environment(links, [tmp_path / "nvidia"]) == {}
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        (libraries / name).touch()
    found = cublas.environment(links, [tmp_path / "nvidia"])
    assert found == {"LD_LIBRARY_PATH": str(links)}
    assert (links / "libcublas.so.12").resolve() == libraries / "libcublas.so.13"
    assert (links / "libcublasLt.so.12").resolve() == libraries / "libcublasLt.so.13"
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        (libraries / name).touch()
    found = cublas.environment(links, [tmp_path / "nvidia"])
    assert found == {"LD_LIBRARY_PATH": str(libraries)}


@pytest.mark.no_backend
def test_flops_are_those_counted_by_hand():
    size = (1, 2, 3, 1)  # layers, D, F, heads
    # Encoder 4 * 4 + 2 * 6 = 28 weights, decoder 8 * 4 + 2 * 6 = 44, output 5 * 2 = 10.
    products = 6 * (28 * 2 + (44 + 10) * 3)
    attention = 12 * 1 * 2 * (2 * 2 + (1 + 2 + 3) + 2 * 3)
    assert mfu.training_flops(size, 5, [2], [3]) == products + attention == 1692
    both = mfu.training_flops(size, 5, [2, 4], [3, 1])
    assert both == 1692 + mfu.training_flops(size, 5, [4], [1])
    padded = (np.array([[7, 2, 0, 0]]), None, np.array([[5, 6, 2, 0, 0]]))
    assert mfu.flops_per_token(size, 5, [padded]) == 1692 / 3
    # Big has 214 M weights in products, each 6 FLOPs, and a little attention.
    flops = mfu.training_flops((6, 1024, 4096, 16), 37_000, [29], [29]) / 29
    assert flops == pytest.approx(6 * 214e6, rel=0.01)


@pytest.mark.no_backend
def test_a_card_is_known_by_its_name():
    peaks = {
        "NVIDIA H200": 989e12,
        "NVIDIA H100 80GB HBM3": 989e12,
        "NVIDIA H100 PCIe": 756e12,
        "NVIDIA A100-SXM4-40GB": 312e12,
        "NVIDIA A10G": 70e12,
        "NVIDIA GH200 480GB": 989e12,
        "NVIDIA L4": 121e12,
        "NVIDIA GeForce RTX 4090": 165e12,
        # Other models, whose names hold these.
        "NVIDIA L400": None,
        "NVIDIA GB200": None,
        "NVIDIA GeForce RTX 4090 Laptop GPU": None,
    }
    assert {name: mfu.peak_of(name) for name in peaks} == peaks


@pytest.mark.no_backend
def test_batches_are_of_similar_length_spread_over_all():
    sentences = [[5] * length for length in (3, 40, 17, 16, 2)]
    sizes = [
        ([len(row) for row in rows], length)
        for rows, length in by_length(sentences, 2, most=9)
    ]
    assert sizes == [([40, 17], 64), ([16, 3], 16), ([2], 16)]
    sentences = [[5] * length for length in range(1, 101)]
    few = by_length(sentences, 1, most=4)
    assert [len(rows[0]) for rows, _ in few] == [100, 75, 50, 25]


def test_kernels_have_kinds_and_gaps_between_them():
    from peers import kernels

    kinds = {
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT": "matrix products",
        "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16": "matrix products",
        "flash_fwd_kernel": "attention, softmax",
        "multi_tensor_apply_kernel": "optimizer",
        "MemcpyH2D": "copies",
        "input_reduce_fusion_3": "reductions",
        "vectorized_elementwise_kernel": "element-wise",
        "something": "others",
    }
    assert {name: kernels.kind(name) for name in kinds} == kinds
    events = [("a", 10, 5), ("b", 12, 6), ("c", 13, 1), ("d", 30, 4)]
    assert kernels.busy_and_span(events) == (8 + 4, 24)


@pytest.mark.no_backend
def test_differences_are_the_largest():
    one, other = (
        {
            "logits": np.array(logits),
            "losses": np.array([2.0, last]),
            "ids": np.array(ids),
            "scores": np.array(scores),
        }
        for logits, last, ids, scores in (
            ([1.0, -4.0], 4.0, [[5, 6, 0], [7, 8, 9]], [-1.0, -2.0]),
            ([1.5, -4.25], 5.0, [[5, 6], [7, 8]], [-3.0, -2.5]),
        )
    )
    assert agreement.differences(other, one) == {
        "logits": 0.5,
        "largest_logit": 4.0,
        "losses": 0.25,
        "texts": 2,
        "same_texts": 1,
        "largest_margin": 0.5,
    }


@pytest.mark.no_backend
def test_weights_are_compared_by_name(tmp_path):
    paths = [tmp_path / "one.h5", tmp_path / "other.h5"]
    for path, value in zip(paths, (1.0, 1.5), strict=True):
        with h5py.File(path, "w") as file:
            file["a/b"], file["c"] = np.zeros(3), np.full(2, value)
    found = agreement.weight_differences(*paths)
    assert found == {"equal": False, "largest_difference": 0.5}


@pytest.mark.no_backend
@pytest.mark.parametrize("deterministic", [False, True])
def test_trainings_are_without_tf32(monkeypatch, tmp_path, deterministic):
    started = []

    def run(command, env, timeout=None, **_):
        started.append(env)
        return subprocess.CompletedProcess(command, 0, "1.5\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("XLA_FLAGS", "--of_the_user")
    settings = {"size": "toy", "steps": 1, "beam": 2, "seed": 1}
    settings["deterministic"] = deterministic
    runs = agreement.Runs(settings, tmp_path, agreement.Clock(1))
    assert runs.trained(agreement.JAX, "float32", 1)[1] == 1.5
    host, environment = started
    assert host["JAX_PLATFORMS"] == "cpu"
    assert environment["NVIDIA_TF32_OVERRIDE"] == "0"
    assert environment["JAX_DEFAULT_MATMUL_PRECISION"] == "highest"
    ours = ["--xla_gpu_deterministic_ops=true"] if deterministic else []
    assert environment["XLA_FLAGS"].split() == ["--of_the_user", *ours]
    assert ("CUBLAS_WORKSPACE_CONFIG" in environment) == deterministic


@pytest.mark.no_backend
def test_what_takes_too_long_is_named_and_left_out(tmp_path, monkeypatch, capsys):
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
def test_a_grid_is_every_combination():
    assert quality.grid([]) == [[]]
    assert quality.grid(["a.b=1,2", "c=x"]) == [["a.b=1", "c=x"], ["a.b=2", "c=x"]]
    with pytest.raises(SystemExit, match="KEY=A,B"):
        quality.grid(["a.b"])
    folders = {
        quality.Run("c/x.yaml", Path("runs"), settings, seed).folder
        for settings in ([], ["model.dropout=0.1"])
        for seed in (1, 2)
    }
    assert len(folders) == 4


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("model.droupot=0.1,0.2", "droupot"),
        ("data.test.tsv=nowhere.tsv", "nowhere.tsv"),
    ],
)
def test_what_is_wrong_is_told_before_a_training(tmp_path, monkeypatch, axis, message):
    (tmp_path / "digits.yaml").write_text(CONFIG)
    write_files(tmp_path, "val", 4)
    write_tsv(tmp_path / "test.tsv", 4)
    arguments = ["quality", str(tmp_path / "digits.yaml"), "--grid", axis]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(quality, "train", lambda *_: pytest.fail("trains"))
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        quality.main()


@pytest.mark.no_backend
def test_a_phrasebook_is_scored(tmp_path):
    references = phrasebook.load("en", "de", "test")[1]
    lines = "".join(f"{line}\n" for line in references)
    (tmp_path / "test.hypotheses.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("data: {phrasebook: en-de}")
    assert round(quality._test(tmp_path)["BLEU"][0], 6) == 100


@pytest.mark.no_backend
def test_means_are_over_seeds_and_the_best_comes_first():
    runs = [
        ([], 1, 30.0, 40.0, True),
        (["a=1"], 1, 33.0, 37.0, True),
        (["a=1"], 2, 35.0, 38.0, True),
        (["a=1"], 3, 99.0, 99.0, False),
    ]
    names = ("settings", "seed", "best_validation_bleu", "test", "ended")
    rows = [dict(zip(names, run, strict=True)) for run in runs]
    for row in rows:
        row["test"] = {"BLEU": [row["test"], "signature"]}
    assert quality.summary(rows) == [
        ["a=1", "2", "validation BLEU", "34.00 ± 1.41"],
        ["a=1", "2", "test BLEU", "37.50 ± 0.71"],
        ["as it is", "1", "validation BLEU", "30.00"],
        ["as it is", "1", "test BLEU", "40.00"],
    ]


#: An nvidia-smi: says what card there is; asked to go on, lines of its load.
PROGRAM = """#!/bin/sh
case "$*" in
*--loop=1*) echo "1980, 2619, 650.5, 60"
    echo "1200, 2619, 700.5, 65"
    echo "[N/A], 2619, 700.5, 65"
    echo "1710, 2619, 600.5, 61"
    touch {folder}/told
    exec sleep 60;;
*) echo "{card}"; exit {status};;
esac
"""


@pytest.mark.no_backend
@pytest.mark.skipif(os.name == "nt", reason="needs a program that sh runs")
def test_a_card_is_named_and_watched(tmp_path, monkeypatch):
    path = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def machine(card, status, told):
        path.write_text(PROGRAM.format(folder=tmp_path, card=card, status=status))
        path.chmod(0o755)
        with report.Machine() as machine:
            end = time.monotonic() + 30
            while told and not (tmp_path / "told").exists() and time.monotonic() < end:
                time.sleep(0.01)
        return machine

    found = machine("NVIDIA H200, 570.86, 143771, 1980, 3201, 700.00", 0, told=True)
    assert found.card == found.facts["device"] == "NVIDIA H200"
    assert found.facts["card"]["power.limit"] == "700.00"
    assert found.facts["load"] == {
        "clocks.sm": {"median": 1710, "highest": 1980},
        "clocks.mem": {"median": 2619, "highest": 2619},
        "power.draw": {"median": 650.5, "highest": 700.5},
        "temperature.gpu": {"median": 61, "highest": 65},
    }
    found = machine("No devices were found", 6, told=False)
    assert found.card is None and {"card", "load"}.isdisjoint(found.facts)


def head(preset, device="NVIDIA H200", **versions):
    machine = {"device": device, "versions": {"jax": "0.10.2", **versions}}
    settings = {"preset": preset, "source": None}
    return {"benchmark": "decoding", "settings": settings, "machine": machine}


@pytest.mark.no_backend
def test_what_a_command_has_done_is_gone_on_with_on_the_same_machine(tmp_path):
    path = tmp_path / "found.json"
    assert report.begun(None, head("base")) == {}
    assert report.begun(path, head("base")) == {}
    before = head("base")
    before["machine"]["load"] = {"clocks.sm": {"median": 1980}}
    report.write_json(path, {**before, "rounds": {"batch 1, beam 1": {}}})
    assert report.begun(path, head("base"))["rounds"] == {"batch 1, beam 1": {}}
    for other, message in (
        (head("big"), "settings.preset base, here big"),
        (head("base", "NVIDIA L4"), "device NVIDIA H200, here NVIDIA L4"),
        (head("base", torch="2.9"), "versions.torch None, here 2.9"),
        ({**head("base"), "benchmark": "quality"}, "benchmark decoding, here quality"),
    ):
        with pytest.raises(SystemExit, match=f"{message}: give another file"):
            report.begun(path, other)
