"""The least time of a training step on a GPU, by formula: nothing is run.

    python -m gpu.roofline [--size base] [--tokens 25000] [--length 32] [--reached 0.7]

Run it in the folder of benchmarks; it needs no GPU. Each part of a step takes the time
of its FLOPs at the card's peak or that of its bytes at the bandwidth of its memory,
whichever is longer. `--reached` is the share of the peak that matrix products are taken
to reach: an assumption, for which `gpu.training` measures the true one. Launches, gaps
and the input are left out, so that a measured step takes longer than this one.

Prints, for each card, milliseconds a step by part, which part of the step that is, and
MFU; and the least milliseconds of a step of a search.

L layers, D hidden_dim, F intermediate_dim, V vocabulary, S and T positions of a
sentence pair, N = B S or B T positions of a batch.

Reference: Williams et al., 2009, https://doi.org/10.1145/1498765.1498785, the roofline
model.
"""

import argparse
from typing import NamedTuple

from peers.batches import SIZES

from gpu import mfu
from gpu.report import print_table

VOCABULARY = 37_000
#: Bytes a second of the memory, by the makers' data sheets.
BANDWIDTHS = {"A100": 2.04e12, "H100": 3.35e12, "H200": 4.8e12}
HALF, FULL = 2, 4  # bytes of bfloat16 and of float32
CHUNK = 2048  # tokens of the loss at a time


class Part(NamedTuple):
    """What a part of a step needs."""

    flops: float
    bytes: float
    by_tensor_cores: bool = True

    def seconds(self, peak, bandwidth, reached):
        # What is no matrix product is bound by memory alone.
        products = self.flops / (peak * reached) if self.by_tensor_cores else 0.0
        return max(products, self.bytes / bandwidth)


def training(size, vocabulary_size, tokens, S, T, fused=True):
    """`{name: Part}` of a training step in mixed bfloat16 with dropout.

    Args:
        size: (L, D, F, heads), see `peers.batches.SIZES`.
        vocabulary_size: V.
        tokens: target positions of the batch, padding included.
        S: source positions of a sentence.
        T: target positions of a sentence.
        fused: whether attention is one kernel, which holds no scores.
    """
    L, D, F, H = size
    rows = tokens / T
    sources, targets = rows * S, rows * T
    products = _products(L, D, F, sources, targets)
    weights = sum(count * D1 * D2 for count, D1, D2, _ in products)
    pairs = L * rows * (S * S + T * T + S * T)
    inner = L * F * (sources + targets)
    sublayers = L * D * (2 * sources + 3 * targets)
    table = vocabulary_size * D
    logits = targets * vocabulary_size
    parameters = weights + table
    # Forward, then the gradients of inputs and of weights.
    part = {
        "matrix products of the layers": Part(
            6 * sum(count * D1 * D2 * n for count, D1, D2, n in products),
            3
            * HALF
            * sum(count * (n * (D1 + D2) + D1 * D2) for count, D1, D2, n in products),
        ),
        # Each chunk reads the matrix twice and adds to its gradient in float32.
        "output matrix and loss": Part(
            6 * targets * table,
            logits * (3 * HALF + 2 * FULL)
            + -(-targets // CHUNK) * table * (2 * HALF + 2 * FULL),
        ),
        "attention": Part(
            # Products with keys and values; their gradients are five, where scores are
            # computed again, or four.
            (4 + (10 if fused else 8)) * D * pairs,
            11 * HALF * L * D * (sources + 2 * targets)
            + (0 if fused else H * pairs * (4 * FULL + 4 * HALF)),
        ),
        # Read input and update, write the sum and its normalization, and a byte of
        # dropout an element; then the same backward.
        "dropout, residual, normalization": Part(
            0.0, sublayers * 2 * (4 * HALF + 1), by_tensor_cores=False
        ),
        "activation and biases": Part(0.0, inner * 5 * HALF, by_tensor_cores=False),
        "embeddings": Part(
            0.0,
            (sources + targets) * D * (FULL + 2 * HALF + FULL) + table * FULL,
            by_tensor_cores=False,
        ),
        # Gradient twice, for its norm; weight and two moments, read and written; the
        # weight in bfloat16.
        "optimizer": Part(
            0.0, parameters * (8 * FULL + FULL + HALF), by_tensor_cores=False
        ),
    }
    return part


def _products(L, D, F, sources, targets):
    """(how many, rows, columns, positions) of the matrices of the layers."""
    return [
        (4 * L, D, D, sources),  # self-attention of the encoder
        (2 * L, D, F, sources),
        (4 * L, D, D, targets),  # of the decoder
        (2 * L, D, D, targets),  # queries and outputs of attention to the source
        (2 * L, D, D, sources),  # its keys and values
        (2 * L, D, F, targets),
    ]


def decoding(size, vocabulary_size, rows, positions):
    """The `Part` of a step of a search: `rows` hypotheses that see so many positions.

    Args:
        size: (L, D, F, heads).
        vocabulary_size: V.
        rows: sentences times beams.
        positions: of the source, and of what is written so far, together.
    """
    L, D, F, _ = size
    weights = L * (6 * D * D + 2 * D * F) + vocabulary_size * D
    cache = rows * L * positions * 2 * D
    return Part(2 * rows * weights + 2 * cache, HALF * (weights + cache))


def card(name):
    """(peak FLOP/s, bytes a second) of `BANDWIDTHS`."""
    return mfu.PEAKS[name] * 1e12, BANDWIDTHS[name]


def utilisation(size, vocabulary_size, tokens, S, T, seconds, peak):
    """MFU of a step that takes so long."""
    rows = int(tokens / T)
    lengths = [S] * rows, [T] * rows
    flops = mfu.training_flops(size, vocabulary_size, *lengths)
    return flops * (tokens / T / rows) / seconds / peak


def main():
    arguments = parse()
    size = SIZES[arguments.size]
    lengths = arguments.tokens, arguments.length, arguments.length
    parts = training(size, VOCABULARY, *lengths)
    print(
        f"{arguments.size}, {arguments.tokens} target tokens, {arguments.length} each"
    )
    for name in BANDWIDTHS:
        peak, bandwidth = card(name)
        times = {
            part: needs.seconds(peak, bandwidth, arguments.reached)
            for part, needs in parts.items()
        }
        total = sum(times.values())
        rows = [
            [part, f"{1e3 * seconds:.2f}", f"{seconds / total:.0%}"]
            for part, seconds in [*times.items(), ("a step", total)]
        ]
        reached = utilisation(size, VOCABULARY, *lengths, total, peak)
        print(f"\n### {name}, MFU {reached:.0%}")
        print_table(["training", "least ms a step", "of the step"], rows)
        rows = []
        for batch in (1, 64, 256):
            for beam in (1, 4):
                needs = decoding(size, VOCABULARY, batch * beam, 2 * arguments.length)
                seconds = needs.seconds(peak, bandwidth, arguments.reached)
                rows.append([str(batch), str(beam), f"{1e3 * seconds:.3f}"])
        print_table(["batch", "beam", "least ms a step of a search"], rows)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--tokens", type=int, default=25_000, help="of a batch")
    parser.add_argument("--length", type=int, default=32, help="of a sentence")
    reached = "share of the peak that matrix products are taken to reach"
    parser.add_argument("--reached", type=float, default=0.7, help=reached)
    return parser.parse_args()


if __name__ == "__main__":
    main()
