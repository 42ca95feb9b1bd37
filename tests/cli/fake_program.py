"""The program with a model that upper-cases, in place of a real one.

Some lines make it misbehave: `fault` raises an error of ours, `mistake` one of the
user's code, `bad` an `InputError`, `long` warns, `wait` sleeps, `cut` is cut off.
"""

import dataclasses
import sys
import time
import types
import warnings

import keras_transformer as package
from keras_transformer.errors import InputError


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    text: str
    tokens: list[str]
    log_probability: float
    score: float
    ids: tuple = ()
    finished: bool = True
    token_scores: list[float] | None = None
    pharaoh: str | None = None
    utility: float | None = None
    prefix_log_probability: float | None = None
    attention: dict | None = None


@dataclasses.dataclass(frozen=True)
class Options:
    """Stands for `DecodingOptions`."""

    top_beams: int = 1
    beam_size: int = 4
    sampling: bool = False
    mbr: str | None = None

    def updated(self, fields):
        names = {field.name for field in dataclasses.fields(self)}
        known = {name: value for name, value in fields.items() if name in names}
        return dataclasses.replace(self, **known)


class Translator:
    """Has the interface of the real one; `calls` are the lines of each call."""

    beam_size = 4
    attends = True
    decoding = Options()
    known_words = None

    def __init__(self):
        self.calls = []
        self.options = {}

    @classmethod
    def load(cls, folder, *others):
        cls.last = cls()
        cls.last.others = others
        return cls.last

    def info(self):
        return {"weights": 7}

    def translate(self, lines, *, return_details=False, first_line=1, **options):
        self.calls.append(list(lines))
        self.options = options
        if "fault" in lines:  # as if in a file of the package
            code = compile("raise RuntimeError('a fault')", package.__file__, "exec")
            exec(code)
        if "mistake" in lines:
            raise RuntimeError("a mistake of the user")
        if "bad" in lines:
            raise InputError(f"line {lines.index('bad') + first_line} is bad")
        if "long" in lines:
            number = lines.index("long") + first_line
            warnings.warn(f"line {number} is long", stacklevel=2)
        if "wait" in lines:
            print("waiting", file=sys.stderr, flush=True)
            time.sleep(60)
        if not return_details:
            return [line.upper() for line in lines]
        return [self._hypotheses(line, options) for line in lines]

    @staticmethod
    def _hypotheses(line, options):
        if not line:
            return [Hypothesis("", [], 0.0, 0.0)]
        text = line.upper()
        details = {}
        if options["return_token_scores"]:
            details["token_scores"] = [-1.0] * len(line)
        if options["return_alignments"]:
            details["pharaoh"] = "0-0"
        if line == "cut":
            details |= {"finished": False, "ids": (5, 6)}
        if options.get("mbr"):
            details["utility"] = 50.0
        if options.get("prefixes"):
            details["prefix_log_probability"] = -0.5
        return [
            Hypothesis(text + "!" * i, list(text), -2.0 - i, -1.0 - i, **details)
            for i in range(options.get("top_beams", 1))
        ]

    def compile(self, batch_size, longest, **options):
        self.options = options
        return iter([(batch_size, longest), (1, longest)])

    def score(self, sources, targets, *, first_line=1):
        self.calls.append(list(zip(sources, targets, strict=True)))
        if "bad" in targets:
            raise InputError(f"line {targets.index('bad') + first_line} is bad")
        return [
            types.SimpleNamespace(
                log_probability=-float(len(target)),
                tokens=[*target, "</s>"],
                token_scores=[-1.0] * len(target) + [0.0],
            )
            for target in targets
        ]


MODULE = types.ModuleType("keras_transformer.translator")
MODULE.Translator = Translator

if __name__ == "__main__":
    sys.modules[MODULE.__name__] = MODULE
    from keras_transformer.cli import backend
    from keras_transformer.cli.main import main

    backend.load_keras = lambda: None  # the fake model needs none
    main()
