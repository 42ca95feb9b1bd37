"""Training: this package against KerasHub, torch.nn, Marian and x-transformers.

    pip install -c constraints.txt -r benchmarks/requirements.txt
    python benchmarks/training_speed.py [--preset tiny] [--rounds 5] [--steps 8]
    python benchmarks/training_speed.py --preset base --rounds 3 --steps 2 --float32

Everyone trains on the same ids, in the same batches of about 4096 target tokens, with
dropout 0.1 and Adam, and attends as the masks of the padding say. The Keras programs
run plain `model.fit`, the others a loop as their documentation has it. Label smoothing
is 0.1 but for KerasHub, which has none for sparse labels and saves that work. All but
"as it comes" have the memory allocator that `keras-transformer train` takes.

Prints target tokens a second (padding not counted), the median over rounds, and the
ratio to the fastest peer, the median of the rounds' ratios; then the ratio to
KerasHub's layers on the same backend, of the fastest of each.
"""

import argparse
import json

from turns import Program
from turns import by_backend
from turns import by_speed
from turns import chosen
from turns import fastest
from turns import machine
from turns import median
from turns import ratio
from turns import take_turns

from keras_transformer.cli import allocator

_TENSORFLOW, _JAX, _TORCH = (
    {"KERAS_BACKEND": backend, **allocator.settings()}
    for backend in ("tensorflow", "jax", "torch")
)

#: `{name: (program, variant, environment)}`; a name without "ours" is a peer's.
PROGRAMS = {
    f"{name}{suffix}": (program, variant, environment)
    for name, program, settings, environment in (
        ("ours, TensorFlow", "ours", {}, _TENSORFLOW),
        ("ours, TensorFlow XLA", "ours", {"jit_compile": True}, _TENSORFLOW),
        ("ours, JAX", "ours", {}, _JAX),
        ("ours, PyTorch", "ours", {}, _TORCH),
        ("KerasHub, TensorFlow", "keras_hub", {}, _TENSORFLOW),
        ("KerasHub, TensorFlow XLA", "keras_hub", {"jit_compile": True}, _TENSORFLOW),
        ("KerasHub, JAX", "keras_hub", {}, _JAX),
        ("KerasHub, PyTorch", "keras_hub", {}, _TORCH),
        ("torch.nn.Transformer as it comes", "torch_nn", {}, {}),
        ("torch.nn.Transformer", "torch_nn", {}, _TORCH),
        ("Hugging Face Marian", "marian", {}, _TORCH),
        ("x-transformers", "x_transformers", {}, _TORCH),
    )
    for suffix, variant in (
        ("", {**settings, "bfloat16": False}),
        (", bfloat16", {**settings, "bfloat16": True}),
    )
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--preset", default="tiny", choices=["tiny", "base", "big"])
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="in a round")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    parser.add_argument(
        "--float32",
        action="store_true",
        help="leave out bfloat16, for which few processors have instructions",
    )
    arguments = parser.parse_args()
    programs = []
    for name in chosen(PROGRAMS, arguments.only):
        program, variant, environment = PROGRAMS[name]
        if arguments.float32 and variant["bfloat16"]:
            continue
        options = {
            **variant,
            "preset": arguments.preset,
            "vocabulary_size": arguments.vocabulary_size,
            "steps": arguments.steps,
        }
        command = ["-m", "peers.train", program, json.dumps(options)]
        programs.append(Program(name, command, environment))
    found = take_turns(programs, arguments.rounds)
    print(f"{arguments.preset}, {machine()}\n")
    peers = [name for name in found if not name.startswith("ours")]
    key = "tokens_per_second"
    best = fastest(found, peers, key)
    print("| program | target tokens/s | to the fastest peer | loss after all rounds |")
    print("|---|---|---|---|")
    for name, rows in by_speed(found, key):
        speed, loss = median(rows, key), rows[-1]["loss"]
        print(f"| {name} | {speed:.0f} | {ratio(rows, best, key)} | {loss:.3f} |")
    for backend, times in by_backend(found, key).items():
        print(f"\n{backend}: {times} times KerasHub's layers")


if __name__ == "__main__":
    main()
