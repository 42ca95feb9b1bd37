"""An engine that upper-cases, and a server in front of it in a process of its own.

Some texts make it misbehave: `fault` raises, `wait` blocks until `go` is set, `slow`
takes a tenth of a second, `nan` has a score that is no number, `lost` has no answer,
`end` ends the thread that asks.
"""

import math
import signal
import sys
import threading
import time

import numpy as np

from keras_transformer.arguments import check_lengths
from keras_transformer.config.about import About
from keras_transformer.translation.hypothesis import Hypothesis

LONGEST = 50


class FakeEngine:
    """A token a word; `batches` are the texts of each call and its options."""

    beam_size = 4
    attention = True
    end = "</s>"  # None: the source has no end
    language = None  # in front of the source
    known_words = None
    languages = None
    about = About()

    def __init__(self):
        self.batches = []
        self.go = threading.Event()
        self.prepared = threading.Event()
        self.prepared.set()

    @property
    def source_around(self):
        return int(self.language is not None), int(self.end is not None)

    def is_empty(self, text):
        return not text.strip()

    def count_tokens(self, texts):
        counts = [len(text.split()) + 1 for text in texts]
        check_lengths(counts, LONGEST)
        return counts

    def translate(self, texts, options):
        self.batches.append((list(texts), options))
        if "fault" in texts:
            raise RuntimeError("a fault")
        if "wait" in texts and not self.go.wait(30):
            raise TimeoutError
        if "slow" in texts:
            time.sleep(0.1)
        if "end" in texts:
            raise SystemExit
        return [self._hypotheses(text, options) for text in texts if text != "lost"]

    def warm_up(self, longest):
        self.prepared.wait(30)
        yield "nothing"

    def info(self):
        return {
            "engine": "fake",
            "attention": self.attention,
            "beam_size": self.beam_size,
        }

    def _hypotheses(self, text, options):
        before, after = self.source_around
        source = [self.language] * before + text.split() + [self.end] * after
        tokens = text.upper().split()
        weights = np.eye(len(tokens) + 1, len(source), dtype=np.float32)
        return [
            Hypothesis(
                text=text.upper() + "!" * rank,
                tokens=tokens,
                ids=[*range(len(tokens)), 2],
                log_probability=-2.0 - rank,
                score=math.nan if text == "nan" else -1.0 - rank,
                finished=True,
                attention={"cross": weights[None, None]} if options.attention else None,
                source_tokens=source if options.attention else None,
            )
            for rank in range(min(options.n_best, 3))  # a search may find fewer
        ]


if __name__ == "__main__":
    from keras_transformer.cli import exit_codes
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.server import serve
    from keras_transformer.serving.service import Service

    # A test run in the background ignores ctrl-C, and so would this process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    host, port = sys.argv[1:3]
    with exit_codes.reported():
        serve(Service(FakeEngine(), limits=Limits(batch_size=8)), host, int(port))
