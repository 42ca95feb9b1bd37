"""Training and translation on many machines, on paper: the tables of `docs/scale.md`.

    python benchmarks/scale.py [--mfu 0.3] [--peak 989] [--device-tokens 3125]

The formulas, for N weights, p devices, d of them on each of h hosts:

    G = 4 N                         bytes of the gradients, which are float32
    sent = 2 (p - 1) / p G          by each device in a ring, each step
    compute = tokens of a device x FLOPs a token / (peak x MFU)
    reduce = 2 (d - 1) / d G / inside + 2 (h - 1) / h G / between
             + 2 (d + h - 2) latency
    hidden = min(reduce, 2/3 compute) where reductions overlap the backward pass, else 0
    efficiency = compute / (compute + reduce - hidden)

Figures that were measured come from `benchmarks/README.md`; what is assumed is an
option, or a constant with its reason.
"""

import argparse
import dataclasses

from gpu.mfu import training_flops
from peers.batches import SIZES

from keras_transformer.config import TransformerConfig

VOCABULARY_SIZE = 37_000  # the paper's, of English and German
TOKENS = 28  # of each side of a pair, the end included: WMT's mean, roughly
DEVICES = (8, 64, 512)
PER_HOST = 8
FEED, FEED_WITH_DROPOUT = 5.4e6, 176e3  # target tokens/s of one process
ENCODING = 30.7e3  # pairs/s of two processes
BACKWARD = 2 / 3  # of the work of a step, in which gradients become ready
LATENCY = 10e-6  # seconds of one message


@dataclasses.dataclass(frozen=True)
class Network:
    """Bytes a second, inside of a host for each device, and between hosts for each."""

    name: str
    inside: float
    between: float


NETWORKS = (
    Network("10 Gbit/s between hosts", 300e9, 1.25e9),
    Network("100 Gbit/s", 300e9, 12.5e9),
    Network("8 x 400 Gbit/s", 300e9, 400e9),
)
CORPORA = {"WMT14 en-de": 4.5e6, "WMT14 en-fr": 36e6, "web": 1e9}

#: Output tokens/s of two cores, 64 sentences at once, beams 1 and 4.
DECODING = {
    ("tiny", "EPYC (AVX2)", "JAX"): (11102, 3988),
    ("tiny", "EPYC (AVX2)", "CTranslate2"): (11613, 4067),
    ("base", "EPYC (AVX2)", "PyTorch"): (801, 351),
    ("base", "EPYC (AVX2)", "CTranslate2"): (1086, 397),
    ("base", "EPYC (AVX-512)", "JAX"): (1474, 603),
    ("base", "EPYC (AVX-512)", "PyTorch"): (1625, 591),
    ("base", "EPYC (AVX-512)", "PyTorch, bfloat16"): (2366, 627),
    ("base", "EPYC (AVX-512)", "CTranslate2"): (1535, 637),
}
LINE = 25  # output tokens of a line of news


@dataclasses.dataclass(frozen=True)
class Device:
    """An accelerator, and how much of a batch it has."""

    peak: float  # FLOP/s
    mfu: float  # the share of it that training reaches
    tokens: int  # target tokens of a step

    def rate(self, preset):
        """Target tokens/s of one device alone."""
        pairs = [TOKENS]
        work = training_flops(SIZES[preset], VOCABULARY_SIZE, pairs, pairs) / TOKENS
        return self.peak * self.mfu / work


def num_weights(preset):
    config = TransformerConfig.from_preset(preset, vocabulary_size=VOCABULARY_SIZE)
    return config.num_weights


def gradient_bytes(preset):
    return 4 * num_weights(preset)


def sent_bytes(preset, devices):
    """What each device sends in a ring of all, and receives."""
    return 2 * (devices - 1) / devices * gradient_bytes(preset)


def reduce_seconds(preset, devices, network):
    inner = min(devices, PER_HOST)
    hosts = devices // inner
    size = gradient_bytes(preset)
    seconds = 2 * (inner - 1) / inner * size / network.inside
    seconds += 2 * (hosts - 1) / hosts * size / network.between
    return seconds + 2 * (inner + hosts - 2) * LATENCY


def efficiency(preset, devices, network, device, *, overlaps):
    """Devices' work to what they would do without each other, of equal shares."""
    compute = device.tokens / device.rate(preset)
    reduce = reduce_seconds(preset, devices, network)
    hidden = min(reduce, BACKWARD * compute) if overlaps else 0.0
    return compute / (compute + reduce - hidden)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def bytes_table():
    head = ["model", "weights", *(f"sent at {p}, MB" for p in DEVICES)]
    rows = []
    for preset in ("tiny", "base", "big"):
        sent = (f"{sent_bytes(preset, p) / 1e6:.0f}" for p in DEVICES)
        rows.append([f"`{preset}`", f"{num_weights(preset) / 1e6:.1f} M", *sent])
    return table(head, rows)


def efficiency_table(device):
    head = ["model", "network", *(f"{p} devices" for p in DEVICES)]
    rows = []
    for preset in ("base", "big"):
        for network in NETWORKS:
            pairs = []
            for p in DEVICES:
                values = (
                    efficiency(preset, p, network, device, overlaps=overlaps)
                    for overlaps in (False, True)
                )
                pairs.append(" to ".join(f"{value:.2f}" for value in values))
            rows.append([f"`{preset}`", network.name, *pairs])
    return table(head, rows)


def steps_table(device):
    """What more tokens between two reductions do."""
    head = ["tokens of a device", "of all 512", "100 Gbit/s", "8 x 400 Gbit/s"]
    rows = []
    for times in (1, 4, 16):
        larger = dataclasses.replace(device, tokens=times * device.tokens)
        values = (
            f"{efficiency('base', 512, network, larger, overlaps=False):.2f}"
            for network in NETWORKS[1:]
        )
        total = f"{512 * larger.tokens / 1e6:.1f} M"
        rows.append([f"{larger.tokens:,}".replace(",", " "), total, *values])
    return table(head, rows)


def feed_table(device):
    head = ["model", "devices", "tokens/s of all", "of a host", "of a feed's 5.4 M"]
    rows = []
    for preset in ("base", "big"):
        for p in DEVICES:
            of_host = min(p, PER_HOST) * device.rate(preset)
            total = p * device.rate(preset)
            rates = f"{total / 1e6:.1f} M", f"{of_host / 1e6:.2f} M"
            rows.append([f"`{preset}`", p, *rates, f"{of_host / FEED:.2f}"])
    return table(head, rows)


def corpus_table(device):
    head = ["corpus", "pairs", "encoded once, hours", "on disk, GB", "order, GB"]
    head += [f"epoch of `base` at {p}, hours" for p in DEVICES]
    rows = []
    for name, pairs in CORPORA.items():
        size = pairs * (2 * TOKENS * 2 + 2 * 8)  # ids of two bytes, offsets of eight
        epochs = []
        for p in DEVICES:
            share = efficiency("base", p, NETWORKS[2], device, overlaps=False)
            seconds = pairs * TOKENS / (p * device.rate("base") * share)
            epochs.append(f"{seconds / 3600:.2g}")
        hours = f"{pairs / ENCODING / 3600:.2g}"
        sizes = f"{size / 1e9:.3g}", f"{4 * pairs / 1e9:.2g}"
        rows.append([name, f"{pairs / 1e6:g} M", hours, *sizes, *epochs])
    return table(head, rows)


def machine_hours(rate, lines=1e6):
    return lines * LINE / rate / 3600


def translation_table():
    head = ["model", "two cores of", "engine", "greedy, hours", "beam 4, hours"]
    head += ["machines for 10⁹ lines in a day, greedy", "beam 4"]
    rows = []
    for (preset, processor, engine), rates in DECODING.items():
        hours = [machine_hours(rate) for rate in rates]
        machines = (f"{1000 * each / 24:.0f}" for each in hours)
        shown = (f"{each:.2f}" for each in hours)
        rows.append([f"`{preset}`", processor, engine, *shown, *machines])
    return table(head, rows)


def tables(device):
    """All tables of the page, in its order."""
    return [
        bytes_table(),
        efficiency_table(device),
        steps_table(device),
        feed_table(device),
        corpus_table(device),
        translation_table(),
    ]


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--peak", type=float, default=989, help="TFLOP/s of a device")
    parser.add_argument("--mfu", type=float, default=0.3, help="share that is reached")
    parser.add_argument("--device-tokens", type=int, default=3125, help="of a step")
    found = parser.parse_args(arguments)
    return Device(1e12 * found.peak, found.mfu, found.device_tokens)


if __name__ == "__main__":
    print("\n\n".join(tables(parsed())))
