"""Console output and model card of a run: progress, and the scores of the test."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer import model_folder
from keras_transformer.control_characters import escaped
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError
from keras_transformer.evaluation import Score
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import strict_yaml

_CARD = """# A translation model

{step} steps of `keras-transformer train` on the {backend} backend, {date}. The weights
are {weights}.

## Use

In the folder that holds this file:

```
keras-transformer translate . < source.txt > target.txt
```

{languages}Whoever trained the model decides what it may be used for. Its texts have
licences of their own.

{words}{origin}## Scores

{scores}

## Config

```yaml
{config}```
"""
_SAMPLES = 5  # number of translations printed


def say(text: str) -> None:
    """Prints a line to standard error; ignores a closed stream."""
    with contextlib.suppress(OSError, ValueError):
        print(escaped(text), file=sys.stderr, flush=True)


class Counting:
    """Lines that say how many of some sentences are translated, every ten seconds.

    Args:
        what: the beginning of the lines.
        say: a function that receives them.
        interval: the seconds between them.
    """

    def __init__(
        self, what: str, say: Callable[[str], None], interval: float = 10.0
    ) -> None:
        self._what = what
        self._say = say
        self._interval = interval
        self._last = time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        now = time.monotonic()
        if now - self._last >= self._interval and done < count:
            self._last = now
            self._say(f"{self._what}: {done} of {count} translated")


def print_test(
    text: ParallelText, hypotheses: Sequence[str], scores: Iterable[Score]
) -> None:
    """Prints some translations, the number of exact matches and scores.

    On a terminal, control characters are escaped.

    Args:
        text: the `ParallelText` of the test.
        hypotheses: a translation of each line.
        scores: the result of `evaluate`.
    """
    shown = escaped if sys.stdout.isatty() else str
    for i in range(0, len(text), max(len(text) // _SAMPLES, 1)):
        print(shown(f"  source     {text.source[i]}"))
        print(shown(f"  model      {hypotheses[i]}"))
        print(shown(f"  reference  {text.target[i]}\n"))
    exact = sum(h == r for h, r in zip(hypotheses, text.target, strict=True))
    print(f"exact matches: {exact} of {len(text)} ({exact / len(text):.1%})")
    for score in scores:
        print(score)


def model_card(
    config: RunConfig,
    step: int,
    lines: Iterable[str],
    known_words: KnownWords | None = None,
    weights: str = "those of the last step",
) -> str:
    """The README.md of a model folder.

    Args:
        config: the `RunConfig`.
        step: the number of updates.
        lines: the scores as text lines.
        known_words: the `KnownWords` of the model, if known.
        weights: what the weights are, such as the mean of which steps.
    """
    scores = "\n".join(f"* {line}" for line in lines) or "* no test text (data.test)"
    facts = known_words.info() if known_words else {}
    words = "".join(f"* {name}: {fact}\n" for name, fact in facts.items())
    words = f"## Words\n\n{words}\n" if words else ""
    origin = _begun_from(config.model.get("folder"))
    return _CARD.format(
        step=step,
        backend=backends.name,
        weights=weights,
        date=datetime.datetime.now(datetime.UTC).date(),
        languages=_languages(config),
        words=words,
        origin=origin,
        scores=scores,
        config=strict_yaml.dump(_plain(config)),
    )


def _languages(config: RunConfig) -> str:
    """What a card says of the languages of the texts; "" where nobody named them."""
    if config.data.phrasebook:
        source, target = config.data.phrasebook.split("-")
        return f"It translates from {source} to {target}.\n\n"
    pairs = {
        f"{corpus.source_language}-{corpus.target_language}": None
        for corpus in config.data.train or ()
        if corpus.source_language and corpus.target_language
    }
    return f"It was trained on {', '.join(pairs)}.\n\n" if pairs else ""


def _plain(config: RunConfig) -> dict[str, Any]:
    """A config's sections, without the places that files have on this machine."""
    sections = config.plain()
    for name in {*sections} & {"data", "model", "tokenizer", "output"}:
        sections[name] = _without_places(sections[name])
    return sections


def _without_places(value: Any) -> Any:
    """The values of a section, of absolute paths only the last name."""
    if isinstance(value, dict):
        return {name: _without_places(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_places(part) for part in value]
    is_place = isinstance(value, str) and os.path.isabs(value)
    return Path(value).name if is_place else value


def _begun_from(folder: str | None) -> str:
    """What the card of `model.folder` says, such as whose it is; "" without one."""
    card = ""
    with contextlib.suppress(InputError):  # no reason to lose a trained model
        card = model_folder.card(folder).strip() if folder else ""
    lines = "\n".join(f"> {line}".rstrip() for line in card.splitlines())
    return f"## The model that it began with\n\n{lines}\n\n" if lines else ""
