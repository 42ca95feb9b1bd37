"""A corpus larger than memory: how it is encoded, opened again, held and fed.

    python benchmarks/corpus_feed.py [--pairs 200000] [--workers N] [--folder PATH]
        [--repeat 1]

Writes synthetic gzipped text (about 12 tokens a side) into a temporary folder, or into
`--folder`, where a second call finds it encoded (and repeated). Each stage is a process
of its own:

    encode   tokenizer and ids from text; peak of the resident memory
    repeat   with `--repeat`: the encoded text so many times over, in place of it
    feed     from the encoded text to the first batch; target tokens a second; memory
             that is the process's own, and with the pages of files that it has read
    train    the tiny model's target tokens a second, and the resident memory that the
             corpus adds to the model's

Prints ratios to the bars and exits with 1 where one is missed.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SHARDS = 4
BATCH_TOKENS = 4096
BARS = {"memory": 2.0, "opening": 10.0, "feed": 20.0}  # GiB, seconds, times training
WORDS = 30_000
LETTERS = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))


def write_shards(folder, pairs):
    """Sentences of Zipf-distributed words; the target is the source in other words."""
    random = np.random.default_rng(1)
    vocabularies = [
        [
            "".join(LETTERS[(random.random(length) ** 2 * len(LETTERS)).astype(int)])
            for length in random.integers(2, 9, WORDS)
        ]
        for _ in range(2)
    ]
    for shard in range(SHARDS):
        with (
            gzip.open(folder / f"{shard}.source.gz", "wt", compresslevel=1) as source,
            gzip.open(folder / f"{shard}.target.gz", "wt", compresslevel=1) as target,
        ):
            for start in range(0, pairs // SHARDS, 10_000):
                count = min(10_000, pairs // SHARDS - start)
                for row in zipf_rows(random, count):
                    for file, words in zip((source, target), vocabularies, strict=True):
                        file.write(" ".join(words[word] for word in row) + "\n")


def zipf_rows(random, count):
    lengths = np.clip(random.gamma(3.0, 3.0, count), 1, 60).astype(int)
    words = (WORDS ** random.random(lengths.sum()) - 1).astype(int)
    return np.split(words, np.cumsum(lengths)[:-1])


def load(folder, **data):
    """The training pairs of the corpus in a folder."""
    from keras_transformer.training.config import RunConfig
    from keras_transformer.training.corpora import Corpora
    from keras_transformer.training.corpora import make_tokenizers

    sides = {
        side: [folder / f"{shard}.{side}.gz" for shard in range(SHARDS)]
        for side in ("source", "target")
    }
    config = RunConfig(
        tokenizer={"vocabulary_size": 8000}, data={"train": [sides], **data}
    )
    corpora = Corpora(config.data)
    tokenizers = make_tokenizers(config.tokenizer, corpora.sample, folder)
    trained = time.perf_counter()
    pairs = corpora.encode(*tokenizers, folder / "encoded", say=print_now)
    return pairs, trained


def repeat(folder, times):
    """Puts a corpus of so many times the pairs in the place of the encoded one."""
    import hashlib

    from keras_transformer.data.checksums import ChecksumWriter
    from keras_transformer.data.encoded_writer import CHECKSUMS
    from keras_transformer.data.encoded_writer import FILES
    from keras_transformer.data.encoded_writer import MANIFEST
    from keras_transformer.data.encoded_writer import write_manifest

    began = time.perf_counter()
    (path,) = (p.parent for p in (folder / "encoded").glob(f"[!.]*/{MANIFEST}"))
    manifest = json.loads((path / MANIFEST).read_text())
    checksums = []
    for name in FILES:
        content, writer = (path / name).read_bytes(), ChecksumWriter()
        with (path / name).open("wb") as file:
            for part in repeated(name, content, times):
                file.write(part)
                writer.add(part)
        checksums.append(writer.checksums())
    content = np.concatenate(checksums).tobytes()
    (path / CHECKSUMS).write_bytes(content)
    for key in ("pairs", "source_ids", "target_ids"):
        manifest[key] *= times
    for report in manifest["reports"]:
        report["kept"] *= times
    manifest["checksums_sha256"] = hashlib.sha256(content).hexdigest()
    write_manifest(path, manifest)
    return {"pairs": manifest["pairs"], "seconds": time.perf_counter() - began}


def repeated(name, content, times):
    """The bytes of a file of an encoded corpus, so many times over."""
    if name.endswith("ids"):
        yield from [content] * times
        return
    offsets = np.frombuffer(content, np.int64)
    yield offsets[:1].tobytes()
    for number in range(times):
        yield (offsets[1:] + number * offsets[-1]).tobytes()


def batches_of(pairs):
    from keras_transformer.data.batching import TokenBatches

    return TokenBatches(
        pairs.pairs, BATCH_TOKENS, shares=pairs.shares, bpe_dropout=pairs.bpe_dropout
    )


def encode(folder, workers):
    began = time.perf_counter()
    pairs, trained = load(folder, workers=workers)
    ended = time.perf_counter()
    return {
        "tokenizer_seconds": trained - began,
        "encoding_seconds": ended - trained,
        "pairs_per_second": len(pairs.pairs) / max(ended - trained, 1e-9),
        "peak_gib": peak(),
    }


def feed(folder, seconds=10.0):
    import keras_transformer.data.batching  # noqa: F401  # not the corpus's seconds

    began = time.perf_counter()
    pairs, _ = load(folder)
    opened = time.perf_counter() - began
    batches = batches_of(pairs)
    batches[0]
    result = {"mapping_seconds": opened, "opening_seconds": time.perf_counter() - began}
    result |= {"own_gib": resident("RssAnon"), "peak_gib": peak()}
    began = time.perf_counter()
    batches[len(batches)]
    result["next_epoch_seconds"] = time.perf_counter() - began
    result["tokens_per_second"] = speed(batches, seconds)
    dropped, _ = load(folder, bpe_dropout=0.1)
    sampled = batches_of(dropped)
    sampled[0]
    result["tokens_per_second_with_bpe_dropout"] = speed(sampled, seconds)
    result["padding"], result["padding_with_bpe_dropout"] = (
        1 - tokens / positions for tokens, positions in map(fill, (batches, sampled))
    )
    return result


def speed(batches, seconds):
    tokens, step, began = 0, 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        tokens += np.count_nonzero(batches[step % len(batches)][1])
        step += 1
    return tokens / taken


def fill(batches):
    some = [batches[step][1] for step in range(min(len(batches), 50))]
    return sum(map(np.count_nonzero, some)), sum(labels.size for labels in some)


def train(folder, steps=30):
    """The model first, on a few pairs, then the corpus: what that adds."""
    import keras

    from keras_transformer import Transformer
    from keras_transformer import TransformerConfig
    from keras_transformer.data.batching import TokenBatches
    from keras_transformer.losses import LabelSmoothedCrossEntropy

    config = TransformerConfig.from_preset("tiny", vocabulary_size=8000)
    model = Transformer(config)
    model.compile(keras.optimizers.Adam(1e-4), LabelSmoothedCrossEntropy(0.1))
    pairs, _ = load(folder)
    some = pairs.pairs.take(np.arange(20_000))
    del pairs
    options = {"steps_per_epoch": steps, "shuffle": False, "verbose": 0}
    model.fit(TokenBatches(some, BATCH_TOKENS).from_step(0), **options)
    before = resident()
    pairs, _ = load(folder)
    batches = batches_of(pairs)
    model.fit(batches.from_step(0), **options)
    began = time.perf_counter()
    model.fit(batches.from_step(steps), **options)
    seconds = time.perf_counter() - began
    tokens = sum(np.count_nonzero(batches[step][1]) for step in range(steps, 2 * steps))
    return {
        "model_gib": before,
        "added_gib": peak() - before,
        "tokens_per_second": tokens / seconds,
    }


def resident(kind="VmRSS"):
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{kind}:")[2].split()[0]) / 2**20


def peak():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def print_now(text):
    print(text, file=sys.stderr, flush=True)


def stage(name, folder, workers, times=1):
    """Runs a stage in a process of its own; what it found."""
    command = [sys.executable, __file__, "--stage", name, "--folder", str(folder)]
    command += ["--workers", str(workers), "--repeat", str(times)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    for key, value in found.items():
        print(f"{name:7} {key:36} {value:14,.3f}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--stage", choices=["encode", "repeat", "feed", "train"])
    parser.add_argument("--repeat", type=int, default=1, help="times the encoded text")
    arguments = parser.parse_args()
    if arguments.stage:
        found = {
            "encode": lambda: encode(arguments.folder, arguments.workers),
            "repeat": lambda: repeat(arguments.folder, arguments.repeat),
            "feed": lambda: feed(arguments.folder),
            "train": lambda: train(arguments.folder),
        }[arguments.stage]()
        print(json.dumps(found))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "0.source.gz").exists():
            write_shards(folder, arguments.pairs)
        stage("encode", folder, arguments.workers)
        if arguments.repeat > 1:
            stage("repeat", folder, arguments.workers, arguments.repeat)
        fed = stage("feed", folder, arguments.workers)
        trained = stage("train", folder, arguments.workers)
    feeds = fed["tokens_per_second"] / trained["tokens_per_second"]
    ratios = {
        "memory": BARS["memory"] / trained["added_gib"],
        "opening": BARS["opening"] / fed["opening_seconds"],
        "feed": feeds / BARS["feed"],
    }
    for name, ratio in ratios.items():
        print(f"{name:8} {ratio:8.2f} x the bar of {BARS[name]:g}")
    return int(min(ratios.values()) < 1)


if __name__ == "__main__":
    sys.exit(main())
