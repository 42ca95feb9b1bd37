"""What a run says of itself: progress, the test's scores, the model's card."""

import contextlib
import sys

from keras_transformer import backends

_SAMPLES = 5  # translations printed


def say(text):
    """A line to standard error; where nobody reads it any more, nothing."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def print_test(text, hypotheses, scores):
    """Prints some translations, exact matches and scores.

    Args:
        text: `ParallelText` of the test.
        hypotheses: a translation of each line.
        scores: of `evaluate`.
    """
    for i in range(0, len(text), max(len(text) // _SAMPLES, 1)):
        print(f"  source     {text.source[i]}")
        print(f"  model      {hypotheses[i]}")
        print(f"  reference  {text.target[i]}\n")
    exact = sum(h == r for h, r in zip(hypotheses, text.target, strict=True))
    print(f"exact matches: {exact} of {len(text)} ({exact / len(text):.1%})")
    for score in scores:
        print(score)


def model_card(config, step, lines):
    """The README.md of a model folder.

    Args:
        config: `RunConfig`.
        step: updates done.
        lines: scores, in words.
    """
    scores = "\n".join(f"* {line}" for line in lines) or "* not scored"
    return (
        f"# A translation model\n\n{step} steps of `keras-transformer train` on the "
        f"{backends.name} backend.\n\n## Scores\n\n{scores}\n\n"
        f"## Config\n\n```yaml\n{config.to_yaml()}```\n"
    )
