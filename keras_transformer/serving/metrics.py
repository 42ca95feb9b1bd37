"""Prometheus metrics of a server."""

import contextlib
import time
from collections.abc import Iterator

import prometheus_client
from prometheus_client import Counter
from prometheus_client import Gauge
from prometheus_client import Histogram

PREFIX = "keras_transformer_"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of one server, in a separate registry."""

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        prometheus_client.PlatformCollector(registry=registry)
        self.requests = Counter(
            f"{PREFIX}requests",
            "Answered requests.",
            ["route", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            f"{PREFIX}request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.waiting = Gauge(
            f"{PREFIX}waiting_sentences", "Sentences in the queue.", registry=registry
        )
        self.sentences = Counter(
            f"{PREFIX}sentences", "Translated sentences.", registry=registry
        )
        self.batch_sentences = Histogram(
            f"{PREFIX}batch_sentences",
            "Sentences translated at once.",
            buckets=_SIZES,
            registry=registry,
        )
        self.batch_seconds = Histogram(
            f"{PREFIX}batch_seconds",
            "Time of the model per batch.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.warm_up_seconds = Gauge(
            f"{PREFIX}warm_up_seconds",
            "Compile time before the server was ready.",
            registry=registry,
        )
        self.ready = Gauge(
            f"{PREFIX}ready", "1 where the server translates.", registry=registry
        )

    @contextlib.contextmanager
    def batch(self, size: int) -> Iterator[None]:
        """Times one batch; one that fails is not counted."""
        start = time.perf_counter()
        yield
        self.batch_seconds.observe(time.perf_counter() - start)
        self.batch_sentences.observe(size)
        self.sentences.inc(size)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts one answer."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)
