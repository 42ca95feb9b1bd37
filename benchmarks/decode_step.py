"""What one forward definition costs on PyTorch: the traced `decode_step` against a
step written by hand in raw PyTorch, on the same weights.

    python benchmarks/decode_step.py [--presets tiny base] [--repeats 300] [--threads 1]

The two take turns in one process, so that whatever else the machine does hits both.
Prints the medians and their ratio; exits with 1 where a ratio is above the bar.
"""

import argparse
import itertools
import os
import statistics
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "torch")

import torch
import torch.nn.functional as F

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.backends.torch_tracing import trace
from keras_transformer.layers import sinusoidal_table

BAR = 1.3
VOCABULARY_SIZE, SOURCE_LENGTH, LENGTH, POSITION = 8000, 24, 64, 3


class RawStep:
    """A step of the paper's post-norm decoder, as one would write it for speed."""

    def __init__(self, model):
        self.config = model.config
        self.embeddings = model.target_embedding.embeddings.value.detach()
        self.scale = self.config.hidden_dim**0.5
        table = sinusoidal_table(LENGTH, self.config.hidden_dim)
        self.positions = torch.from_numpy(table)
        self.places = torch.arange(LENGTH)
        self.blocks = [self._block(block) for block in model.decoder_blocks]

    def _block(self, block):
        itself, cross = block.self_attention, block.cross_attention
        network = block.feed_forward
        kernels = (
            itself.query_kernel,
            itself.key_kernel,
            itself.value_kernel,
            itself.output_kernel,
            cross.query_kernel,
            cross.output_kernel,
            network.inner_kernel,
            network.outer_kernel,
        )
        norms = [
            (residual.norm.gamma.value.detach(), residual.norm.beta.value.detach())
            for residual in (
                block.self_attention_residual,
                block.cross_attention_residual,
                block.feed_forward_residual,
            )
        ]
        biases = network.inner_bias.value.detach(), network.outer_bias.value.detach()
        return [kernel.value.detach().t() for kernel in kernels], biases, norms

    def __call__(self, tokens, position, constants, cache):
        embedded = F.embedding(tokens, self.embeddings)
        hidden = embedded * self.scale + self.positions[position]
        bias = torch.where(self.places <= position, 0.0, -1e9)
        for block, keys_values, memory in zip(
            self.blocks, cache, constants["memory"], strict=True
        ):
            hidden = self._decode(
                block, hidden, position, bias, keys_values, memory, constants["bias"]
            )
        return F.linear(hidden, self.embeddings)

    def _decode(self, block, hidden, position, bias, keys_values, memory, memory_bias):
        kernels, (inner_bias, outer_bias), norms = block
        query, key, value, output, cross_query, cross_output, inner, outer = kernels
        heads, size = self.config.num_heads, self.config.head_dim
        rows, width, dim = hidden.shape

        keys, values = keys_values
        keys[:, :, :, position] = F.linear(hidden, key).view(rows, width, heads, size)
        values[:, :, :, position] = F.linear(hidden, value).view(
            rows, width, heads, size
        )
        queries = F.linear(hidden, query).view(rows, width, heads, 1, size)
        update = self._attend(queries, keys, values, bias).view(rows, width, dim)
        hidden = self._add(hidden, F.linear(update, output), norms[0])

        queries = F.linear(hidden, cross_query).view(rows, width, heads, size)
        update = self._attend(queries.transpose(1, 2), *memory, memory_bias)
        update = update.transpose(1, 2).reshape(rows, width, dim)
        hidden = self._add(hidden, F.linear(update, cross_output), norms[1])

        update = F.linear(
            F.relu(F.linear(hidden, inner, inner_bias)), outer, outer_bias
        )
        return self._add(hidden, update, norms[2])

    def _attend(self, queries, keys, values, bias):
        queries = queries * self.config.head_dim**-0.5
        scores = torch.matmul(queries, keys.transpose(-1, -2)) + bias
        return torch.matmul(F.softmax(scores, -1), values)

    def _add(self, hidden, update, norm):
        epsilon = self.config.layer_norm_epsilon
        return F.layer_norm(hidden + update, hidden.shape[-1:], *norm, epsilon)


def clone(cache):
    return [tuple(tensor.clone() for tensor in pair) for pair in cache]


def medians(functions, repeats):
    """Seconds of each of `functions`, which take turns."""
    seconds = [[] for _ in functions]
    for _ in range(repeats):
        for function, times in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


def measure(model, rows, beam_size, repeats):
    """Seconds of the traced and of the raw step, and how far their logits differ."""
    shape = (rows, SOURCE_LENGTH)
    source = torch.randint(4, VOCABULARY_SIZE, shape, dtype=torch.int32)
    encoded = model.encode(source)
    constants, cache = model.start(
        encoded.memory, encoded.source_mask, beam_size, LENGTH
    )
    tokens = torch.full((rows, beam_size), model.config.start_id, dtype=torch.int32)
    position = torch.tensor(POSITION)
    raw, raw_cache = RawStep(model), clone(cache)
    traced = trace(model.decode_step, tokens, position, constants, clone(cache))

    def run_traced():
        return traced(tokens, position, constants, cache)[0]

    def run_raw():
        return raw(tokens, POSITION, constants, raw_cache)

    difference = (run_traced() - run_raw()).abs().max().item()
    return *medians([run_traced, run_raw], repeats), difference


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--presets", nargs="+", default=["tiny", "base"])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(
        "| preset | batch | beams | traced, ms | raw, ms | ratio | logits differ by |"
    )
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for preset in arguments.presets:
        model = Transformer(
            TransformerConfig.from_preset(preset, vocabulary_size=VOCABULARY_SIZE)
        )
        for rows, beam_size in itertools.product((1, 32), (1, 4)):
            with torch.no_grad():
                traced, raw, difference = measure(
                    model, rows, beam_size, arguments.repeats
                )
            worst = max(worst, traced / raw)
            print(
                f"| {preset} | {rows} | {beam_size} | {traced * 1e3:.3f} "
                f"| {raw * 1e3:.3f} | {traced / raw:.3f} | {difference:.1e} |",
                flush=True,
            )
    return 1 if worst > BAR else 0


if __name__ == "__main__":
    sys.exit(main())
