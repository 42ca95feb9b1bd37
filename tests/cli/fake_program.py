"""The program with a model that upper-cases, in place of a real one.

Some lines make it misbehave: `fault` raises an error of ours, `bad` an `InputError`,
`wait` sleeps.
"""

import dataclasses
import sys
import time
import types

from keras_transformer.errors import InputError


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    text: str
    tokens: list[str]
    log_probability: float
    score: float
    ids: tuple = ()
    finished: bool = True


class Translator:
    """Has the interface of the real one; `calls` are the lines of each call."""

    beam_size = 4

    def __init__(self):
        self.calls = []
        self.options = {}

    @classmethod
    def load(cls, folder):
        cls.last = cls()
        return cls.last

    def info(self):
        return {"weights": 7}

    def translate(self, lines, *, return_details=False, first_line=1, **options):
        self.calls.append(list(lines))
        self.options = options
        if "fault" in lines:
            raise RuntimeError("a fault")
        if "bad" in lines:
            raise InputError(f"line {lines.index('bad') + first_line} is bad")
        if "wait" in lines:
            print("waiting", file=sys.stderr, flush=True)
            time.sleep(60)
        if not return_details:
            return [line.upper() for line in lines]
        return [self._hypotheses(line, options["top_beams"]) for line in lines]

    @staticmethod
    def _hypotheses(line, top_beams):
        if not line:
            return [Hypothesis("", [], 0.0, 0.0)]
        text = line.upper()
        return [
            Hypothesis(text + "!" * i, list(text), -2.0 - i, -1.0 - i)
            for i in range(top_beams)
        ]

    def score(self, sources, targets):
        self.calls.append(list(zip(sources, targets, strict=True)))
        return [
            types.SimpleNamespace(log_probability=-float(len(target)))
            for target in targets
        ]


MODULE = types.ModuleType("keras_transformer.translator")
MODULE.Translator = Translator

if __name__ == "__main__":
    sys.modules[MODULE.__name__] = MODULE
    from keras_transformer.cli.main import main

    main()
