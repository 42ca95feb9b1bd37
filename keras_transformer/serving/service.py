"""Service: a model behind a queue, shared by all requests of a server."""

import dataclasses
import functools
import time
import traceback
from collections.abc import Callable
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.serving.batching import Batcher
from keras_transformer.serving.engine import Codes
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.naming import check_name
from keras_transformer.translation.sentence_splitting import can_split

#: TF Serving's clients send versions; a model folder has one.
VERSION = 1
#: Every model has it, beside its own name.
DEFAULT_NAME = "default"


class Service:
    """A model behind a queue, with start and stop.

    Args:
        engine: the engine of the model.
        name: the model's name in paths; `default`, which every model has, if left out.
        limits: the limits of requests.
        languages: codes of source and target; those of its folder if left out. Where
            they are known, requests with others are refused.
        warm_up_tokens: compile at start for sentences of up to this length, for best
            translations and for single sentences with all details of the page. The
            first greedy search of a beam search server still compiles.

    Raises:
        InputError: where the name does not fit into a path.
    """

    def __init__(
        self,
        engine: Engine,
        name: str | None = None,
        limits: Limits | None = None,
        *,
        languages: tuple[str | None, str | None] = (None, None),
        warm_up_tokens: int = 32,
    ) -> None:
        self.engine = engine
        self.name = check_name(DEFAULT_NAME if name is None else name)
        limits = limits or Limits()
        self.limits = dataclasses.replace(
            limits,
            # The queue could never take more.
            sentences=min(limits.sentences, limits.queue_sentences),
            # A request may be one sentence.
            request_characters=max(limits.request_characters, limits.characters),
        )
        if engine.languages is None and not any(languages):
            about = engine.about
            languages = about.source_language, about.target_language
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
        """Whether the model's thread has ended without a stop."""
        return self.batcher.ended and not self._stopping

    def start(
        self,
        done: Callable[[float | None], None] = lambda seconds: None,
        compiled: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Compiles in the background, then translates.

        Args:
            done: called once, in the model's thread, with the seconds this took, or
                with None where it failed.
            compiled: called, in the same thread, with what has been compiled for, after
                each step.
        """

        def prepare() -> None:
            start = time.perf_counter()
            try:
                for step in self.engine.warm_up(self._warm_up_tokens):
                    compiled(step)
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
        """Finishes accepted requests."""
        self._stopping = True
        self.batcher.stop()

    def check_languages(self, *requested: str | None) -> Codes:
        """Refuses a request for other languages than the model's, or for none.

        Returns:
            The languages of the request, of a multilingual model the served ones in
            place of those left out.

        Raises:
            InputError: naming the languages that the model has.
        """
        for side, served, language in zip(
            ("src_lang", "tgt_lang"), self.languages, requested, strict=True
        ):
            if served and language and served.lower() != language.lower():
                raise InputError(
                    f"{side} {language!r} is not served here; give {served!r}"
                )
        if self.engine.languages is not None:
            pairs = zip(requested, self.languages, strict=True)
            requested = tuple(code or served for code, served in pairs)
            self.engine.languages.pair(*requested)
        source, target = requested
        return source, target

    @property
    def source_language(self) -> str | None:
        """The language of texts whose request tells none, where it is known."""
        known = self.engine.languages
        return self.languages[0] or (None if known is None else known.source)

    @functools.cached_property
    def directions(self) -> list[dict[str, Any]]:
        """Each source language and its targets, as LibreTranslate has them.

        Empty where the model does not know its languages.
        """
        served = self.languages
        pairs = {served[0]: [served[1]]} if served[0] and served[1] else {}
        if (known := self.engine.languages) is not None:
            pairs = {
                source: [
                    target
                    for target in known.target_languages
                    if target != source
                    and served[1] in (None, target)
                    and known.has_pair(source, target)
                ]
                for source in known.source_languages
                if served[0] in (None, source)
            }
        return [
            {"code": code, "name": code, "targets": targets}
            for code, targets in pairs.items()
        ]

    def info(self) -> dict[str, Any]:
        """Information for clients."""
        source, target = self.languages
        known = self.engine.known_words
        limits = {"sentences", "characters", "request_characters", "body_bytes"}
        return {
            "name": self.name,
            "ready": self.ready,
            "source_language": source,
            "target_language": target,
            "training_text": self.engine.about.training_text,
            **_languages(self.engine, source, target),
            "splits_sentences": can_split(),
            **self.engine.info(),
            **({"knows": known.summary, "examples": known.examples} if known else {}),
            "limits": {name: getattr(self.limits, name) for name in sorted(limits)},
        }


def _languages(
    engine: Engine, source: str | None, target: str | None
) -> dict[str, Any]:
    """The languages of a multilingual model, and those of who says none."""
    if (languages := engine.languages) is None:
        return {}
    return {
        "source_language": source or languages.source,
        "target_language": target or languages.target,
        "source_languages": languages.source_languages,
        "target_languages": languages.target_languages,
    }
