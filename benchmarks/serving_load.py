"""Many clients at one server: is every answer right, how fast, and is memory flat?

    python benchmarks/serving_load.py MODEL TEXT --clients 64 --seconds 300 --compare

Starts `keras-transformer serve` on a free port of this machine, sends lines of TEXT for
a bounded time and compares each answer with the translation that `Translator` gives.
With --compare, a server that translates one sentence at a time is measured as well;
with --peers litserve mosec (pip install litserve mosec), the same model behind these.
Exits with 1 where an answer is wrong or missing, where batches are not five times as
fast, or where a server's memory grows by more than a tenth: from the first quarter to
the last, after a warm-up, which --warm-up SECONDS lengthens for peers that compile.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

HOST = "127.0.0.1"
_LEAST_GAIN = 5.0  # of batches over one sentence at a time
_MOST_GROWTH = 1.1  # of the memory of a server that is warm


@dataclasses.dataclass
class Result:
    """What one run of clients saw."""

    seconds: float
    latencies: list[float]
    sentences: int
    wrong: list[str]
    failed: list[str]
    memory: list[float]  # MiB of the server, once a second

    @property
    def levels(self) -> tuple[float, float]:
        """The memory under load: medians of the first and of the last quarter, MiB."""
        quarter = max(len(self.memory) // 4, 1)
        parts = self.memory[:quarter], self.memory[-quarter:]
        first, last = (float(np.median(part or [0.0])) for part in parts)
        return first, last

    @property
    def grown(self) -> bool:
        """Whether the server needed more and more memory."""
        first, last = self.levels
        return last > _MOST_GROWTH * first

    def row(self) -> str:
        """One line of the table."""
        p50, p99 = (1000 * np.percentile(self.latencies or [0], [50, 99])).round()
        return (
            f"{len(self.latencies)} requests, {self.sentences / self.seconds:.1f} "
            f"sentences/s, p50 {p50:.0f} ms, p99 {p99:.0f} ms, wrong "
            f"{len(self.wrong)}, failed {len(self.failed)}"
            + (
                f", memory {self.levels[0]:.0f} → {self.levels[1]:.0f} MiB (most "
                f"{max(self.memory):.0f})"
                if self.memory
                else ""
            )
        )


@contextlib.contextmanager
def server(model: Path, *options: str) -> Iterator[int]:
    """A server of the model on a free port, ready; its port."""
    command = [sys.executable, "-m", "keras_transformer.cli.main", "serve", model]
    process = subprocess.Popen(
        [*map(str, command), "--port", "0", *options],
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        for line in process.stderr:
            print(f"  {line.rstrip()}", flush=True)
            if ready := re.search(r"ready after .*:(\d+)/", line):
                yield int(ready[1])
                break
        else:
            raise SystemExit("the server did not become ready")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        print(f"  stopped with exit code {process.returncode}")


@contextlib.contextmanager
def peer(name: str, model: Path) -> Iterator[int]:
    """A server of another library, as `server`."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            f"peers.serving_with_{name}",
            model.resolve(),
            str(port),
        ],
        cwd=Path(__file__).parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # it has processes of its own
    )
    try:
        body = json.dumps({"texts": ["a"]}).encode()
        for _ in range(600):
            with contextlib.suppress(OSError, EOFError):
                asyncio.run(ask([], port, "POST", "/translate", body))
                break
            time.sleep(0.2)
        else:
            raise SystemExit(f"{name} did not become ready")
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def ask(streams: list, port: int, method: str, path: str, body: bytes) -> bytes:
    """One request on a connection that is kept; the body of its answer."""
    if not streams:
        streams += await asyncio.open_connection(HOST, port)
    reader, writer = streams
    head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}"
    writer.write(f"{head}\r\n\r\n".encode() + body)
    await writer.drain()
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    size = int(re.search(r"content-length: (\d+)", head)[1])
    answer = await reader.readexactly(size)
    if " 200 " not in head.partition("\r\n")[0]:
        raise ConnectionError(answer.decode())
    return answer


async def client(port, requests, expected, end, result):
    """Asks until the time is over."""
    streams: list = []
    for texts in requests:
        if time.monotonic() > end:
            break
        start = time.perf_counter()
        try:
            body = json.dumps({"texts": texts}).encode()
            answer = await ask(streams, port, "POST", "/translate", body)
        except (OSError, EOFError) as error:
            result.failed.append(repr(error))
            streams.clear()
            continue
        result.latencies.append(time.perf_counter() - start)
        result.sentences += len(texts)
        if json.loads(answer)["translations"] != [expected[text] for text in texts]:
            result.wrong.append(answer.decode())
    if streams:
        streams[1].close()


async def watch(port, end, result):
    """The memory of the server, from its own metrics."""
    streams: list = []
    while True:
        text = (await ask(streams, port, "GET", "/metrics", b"")).decode()
        found = re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)
        result.memory.append(float(found[1]) / 2**20 if found else 0.0)
        if time.monotonic() > end:
            streams[1].close()
            return
        await asyncio.sleep(1)


async def load(port, expected, clients, seconds, seed, watched=True) -> Result:
    """All clients at once; most requests are one sentence, some are a few."""
    result = Result(0.0, [], 0, [], [], [])
    texts = sorted(expected)

    def requests(number):
        drawn = random.Random(seed * clients + number)
        for _ in itertools.count():
            yield drawn.sample(texts, drawn.choice((1, 1, 1, 1, 1, 1, 1, 3)))

    start = time.monotonic()
    end = start + seconds
    await asyncio.gather(
        *([watch(port, end, result)] if watched else []),
        *(client(port, requests(i), expected, end, result) for i in range(clients)),
    )
    result.seconds = time.monotonic() - start
    return result


def offline(model: Path, lines: list[str], options: list[str]) -> dict[str, str]:
    """The translation of each line by a process of its own."""
    command = [sys.executable, "-m", "keras_transformer.cli.main", "translate", model]
    command += options
    done = subprocess.run(
        [*map(str, command)],
        input="".join(f"{line}\n" for line in lines).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    translations = done.stdout.decode().split("\n")[:-1]
    return dict(zip(lines, translations, strict=True))


def mixed_lengths(path: Path) -> list[str]:
    """Lines, their beginnings, and pairs of them: from a word to a long sentence."""
    lines = path.read_text(encoding="utf-8").splitlines()
    begun = [" ".join(line.split()[: 1 + i % 6]) for i, line in enumerate(lines)]
    pairs = [f"{a} {b}" for a, b in itertools.pairwise(lines[::4])]
    return list(dict.fromkeys(line for line in lines + begun + pairs if line.strip()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path, help="lines in the source language")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=10, help="seconds")
    parser.add_argument("--beam-size", help="default: the model's")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--peers", nargs="+", choices=("litserve", "mosec"), default=())
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.beam_size and arguments.peers:
        parser.error("--peers search as the model says, without --beam-size")
    options = ["--beam-size", arguments.beam_size] if arguments.beam_size else []
    lines = mixed_lengths(arguments.text)
    print(f"{len(lines)} texts, {os.cpu_count()} cores", flush=True)
    expected = offline(arguments.model, lines, options)
    runs = {"batches": server(arguments.model, *options)}
    if arguments.compare:
        one = server(arguments.model, *options, "--batch-size", "1")
        runs["one at a time"] = one
    runs |= {name: peer(name, arguments.model) for name in arguments.peers}
    speeds, faults = [], 0
    for name, running in runs.items():
        print(f"{name}:", flush=True)
        with running as port:
            for seconds in (arguments.warm_up, arguments.seconds):
                result = asyncio.run(
                    load(
                        port,
                        expected,
                        arguments.clients,
                        seconds,
                        arguments.seed,
                        watched=name not in arguments.peers,
                    )
                )
                print(f"  {seconds:g} s: {result.row()}", flush=True)
        print(*result.wrong[:3], *result.failed[:3], sep="\n", end="")
        faults += len(result.wrong) + len(result.failed) + result.grown
        if result.grown:
            first, last = result.levels
            print(f"  memory grew, warm: {first:.0f} → {last:.0f} MiB")
        speeds.append(result.sentences / result.seconds)
    if arguments.compare:
        ratio = speeds[0] / speeds[1]
        print(f"batches are {ratio:.1f} times as fast")
        faults += ratio < _LEAST_GAIN
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
