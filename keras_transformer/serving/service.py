"""A model behind a queue: what all requests of one server share."""

import dataclasses
import time
import traceback
from collections.abc import Callable
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.serving.batching import Batcher
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.naming import check_name

#: TF Serving's clients ask for versions; a model folder has one.
VERSION = 1


class Service:
    """Starts, answers and stops.

    Args:
        engine: the model.
        name: by which clients of TF Serving know it.
        limits: what is taken on.
        languages: codes of source and target, where they are known; requests that
            name others are refused.
        warm_up_tokens: up to this length, sentences whose best translation is asked
            for, and single ones with all that the page shows, wait for no compiler;
            the first greedy search beside a beam search does.

    Raises:
        InputError: where no path can hold the name.
    """

    def __init__(
        self,
        engine: Engine,
        name: str = "default",
        limits: Limits | None = None,
        *,
        languages: tuple[str | None, str | None] = (None, None),
        warm_up_tokens: int = 32,
    ) -> None:
        self.engine = engine
        self.name = check_name(name)
        limits = limits or Limits()
        self.limits = dataclasses.replace(
            limits,
            # No queue would ever take more.
            sentences=min(limits.sentences, limits.queue_sentences),
            # A request may be one sentence.
            request_characters=max(limits.request_characters, limits.characters),
        )
        self.languages = languages
        self.metrics = Metrics()
        self.batcher = Batcher(engine, self.limits, self.metrics)
        self._prepared = False
        self._stopping = False
        self._warm_up_tokens = warm_up_tokens
        self.metrics.ready.set_function(lambda: self.ready)

    @property
    def ready(self) -> bool:
        """Whether sentences are translated."""
        return self._prepared and not self._stopping and not self.batcher.ended

    @property
    def failed(self) -> bool:
        """Whether the thread of the model has ended, though nobody stopped it."""
        return self.batcher.ended and not self._stopping

    def start(
        self, done: Callable[[float | None], None] = lambda seconds: None
    ) -> None:
        """Compiles in the background, then translates.

        Args:
            done: called once, in the thread of the model: with the seconds that this
                took, or with None where it failed.
        """

        def prepare() -> None:
            start = time.perf_counter()
            try:
                for _ in self.engine.warm_up(self._warm_up_tokens):
                    if self._stopping:
                        return
            except Exception:
                traceback.print_exc()
                done(None)
                return
            seconds = time.perf_counter() - start
            self.metrics.warm_up_seconds.set(seconds)
            self._prepared = True
            done(seconds)

        self.batcher.start(prepare)

    def stop(self) -> None:
        """Finishes what was taken on."""
        self._stopping = True
        self.batcher.stop()

    def check_languages(self, *asked: str | None) -> None:
        """Refuses a request for other languages than the model's.

        Raises:
            InputError: naming the languages that the model has.
        """
        for side, own, wanted in zip(
            ("src_lang", "tgt_lang"), self.languages, asked, strict=True
        ):
            if own and wanted and own.lower() != wanted.lower():
                raise InputError(f"{side} {wanted!r} is not served here; give {own!r}")

    def info(self) -> dict[str, Any]:
        """What a client may want to know."""
        source, target = self.languages
        known = self.engine.known_words
        limits = {"sentences", "characters", "request_characters", "body_bytes"}
        return {
            "name": self.name,
            "ready": self.ready,
            "source_language": source,
            "target_language": target,
            **self.engine.info(),
            **({"knows": known.summary, "examples": known.examples} if known else {}),
            "limits": {name: getattr(self.limits, name) for name in sorted(limits)},
        }
