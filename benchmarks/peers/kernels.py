"""Which kernels a training of this package runs, for `gpu/profiling.py`.

python -m peers.kernels OPTIONS_AS_JSON, in the folder of benchmarks
"""

import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import keras

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from peers import ours
from peers.batches import PAD
from peers.batches import load

#: Kinds of kernels by what their names hold, in lower case; the first that fits counts.
KINDS = {
    "attention, softmax": ("flash", "fmha", "attention", "softmax"),
    "matrix products": ("gemm", "nvjet", "cutlass", "cublas", "dot", "matmul", "::mm"),
    "optimizer": ("adam", "multi_tensor", "foreach"),
    "normalization": ("layer_norm", "layernorm", "batch_norm"),
    "embeddings": ("embedding", "index", "gather", "scatter", "segment", "sort"),
    "copies": ("memcpy", "memset", "copy", "transpose", "concat", "cat_"),
    "reductions": ("reduce", "reduction", "sum", "norm"),
    "element-wise": (
        "elementwise",
        "element_wise",
        "loop",
        "fusion",
        "wrapped",
        "aten",
    ),
}


def main():
    print(json.dumps(measured(**json.loads(sys.argv[1]))))


def measured(batches, most, **options):
    """Milliseconds a step: of all, of the device, of each kind and the longest kernels.

    Args:
        batches: file of `peers.corpus`; one pass over it is traced.
        most: how many kernels to name.
        options: of `ours.prepare`.
    """
    data = load(batches)
    _, train = ours.prepare(data, **options)
    steps = len(data)
    train(2 * steps)
    start = time.perf_counter()
    train(steps)
    untraced = time.perf_counter() - start
    events = _TRACES[keras.backend.backend()](lambda: train(steps))
    per_step = 1e-6 / steps
    by_name = {}
    for name, _, duration in events:
        by_name[name] = by_name.get(name, 0) + duration * per_step
    kinds = {}
    for name, duration in by_name.items():
        kinds[kind(name)] = kinds.get(kind(name), 0) + duration
    longest = sorted(by_name.items(), key=lambda item: -item[1])[:most]
    busy, span = busy_and_span(events)
    return {
        "step": 1e3 * untraced / steps,
        "batch": 1e3 * _seconds_of_input(options["vocabulary_size"], data) / steps,
        "busy": busy * per_step,
        "span": span * per_step,
        "launches": len(events) / steps,
        "kinds": kinds,
        "kernels": dict(longest),
    }


def _seconds_of_input(vocabulary_size, data):
    """What `TokenBatches` takes to make as many batches of these pairs anew."""
    rows = [
        TokenRows.from_lists([row[row != PAD][:-1] for ids in side for row in ids])
        for side in zip(*((source, labels) for source, _, labels in data), strict=True)
    ]
    tokens = max(labels.size for _, _, labels in data)
    batches = TokenBatches(EncodedPairs(*rows), tokens)
    batches[0]  # the order of the epoch
    start = time.perf_counter()
    for index in range(len(data)):
        batches[index]
    return time.perf_counter() - start


def kind(name):
    """See `KINDS`."""
    name = name.lower()
    fitting = (k for k, parts in KINDS.items() if any(part in name for part in parts))
    return next(fitting, "others")


def busy_and_span(events):
    """How long any of (name, start, duration) ran, and from the first to the last."""
    intervals = sorted((start, start + duration) for _, start, duration in events)
    busy, last = 0, intervals[0][0]
    for start, end in intervals:
        busy += max(end - max(start, last), 0)
        last = max(last, end)
    return busy, last - intervals[0][0]


def _trace_jax(function):
    """[(name, start, duration)] in nanoseconds, of the device."""
    profiler = importlib.import_module("jax").profiler
    with tempfile.TemporaryDirectory() as folder:
        with profiler.trace(folder):
            function()
        (path,) = Path(folder).rglob("*.xplane.pb")
        data = profiler.ProfileData.from_file(str(path))
    planes = list(data.planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:GPU")]
    lines = [line for plane in devices for line in plane.lines if "Stream" in line.name]
    if not devices:  # a CPU's operations are in lines of its threads
        lines = [line for plane in planes for line in plane.lines]
    return [
        (event.name, event.start_ns, event.duration_ns)
        for line in lines
        for event in line.events
        if devices or "hlo_op" in dict(event.stats)
    ]


def _trace_torch(function):
    """[(name, start, duration)] in nanoseconds, of the device."""
    torch = importlib.import_module("torch")
    activities = [torch.profiler.ProfilerActivity.CPU]
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        function()
    wanted = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
    return [
        (
            event.name,
            1e3 * event.time_range.start,
            1e3 * event.time_range.elapsed_us(),
        )
        for event in profile.events()
        if event.device_type == wanted and not event.cpu_children
    ]


_TRACES = {"jax": _trace_jax, "torch": _trace_torch}


if __name__ == "__main__":
    main()
