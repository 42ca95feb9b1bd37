"""Programs that are measured against each other, in turns.

Each runs in a process of its own, with the environment that suits it. It prepares,
prints `ready`, and for each line that it is sent does one round of work and answers
with one line of JSON. Only one prepares or works at a time; the others sleep. So
whatever else the machine does hits all of them, and a ratio is taken within a round.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path


class Program:
    """A child process that works when it is told to.

    Args:
        name: in the tables.
        arguments: of `python`.
        environment: added to that of this process.
    """

    def __init__(self, name, arguments, environment):
        self.name = name
        self.arguments = arguments
        self.environment = environment
        self.process = None

    def start(self):
        """Whether it could prepare; its errors have gone to the terminal."""
        self.process = subprocess.Popen(
            [sys.executable, *map(str, self.arguments)],
            cwd=Path(__file__).parent,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._answer() == "ready"

    def work(self):
        """The numbers of one round; None where the process has died."""
        print("work", file=self.process.stdin, flush=True)
        answer = self._answer()
        return json.loads(answer) if answer else None

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def _answer(self):
        # Libraries print lines of their own: ours are the marked ones.
        for line in self.process.stdout:
            if line.startswith("> "):
                return line[2:].strip()
        return ""


def serve(work):
    """The child's side: calls `work()` for each line, and answers with its result."""
    print("> ready", flush=True)
    for _ in sys.stdin:
        print("> " + json.dumps(work()), flush=True)


def take_turns(programs, rounds):
    """`{name: [numbers of each round]}` of the programs that did all rounds."""
    # One after the other: compilers that share the processors take for ever.
    programs = [program for program in programs if program.start()]
    found = {program.name: [] for program in programs}
    for _ in range(rounds):
        for program in list(programs):
            numbers = program.work()
            if numbers is None:
                programs.remove(program)
            else:
                found[program.name].append(numbers)
    for program in programs:
        program.end()
    return {name: rows for name, rows in found.items() if len(rows) == rounds}


def chosen(names, parts):
    """Those of the names that have one of the parts; all where there are no parts."""
    return [name for name in names if not parts or any(part in name for part in parts)]


def fastest(found, names, key):
    """The rounds of whichever of the names is highest; None where none was measured."""
    rows = [found[name] for name in names if name in found]
    return max(rows, key=lambda rows: median(rows, key), default=None)


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def ratio(rows, others, key):
    """The median over rounds of how much higher the first is; `-` without others."""
    if others is None:
        return "-"
    pairs = zip(rows, others, strict=True)
    return f"{statistics.median(row[key] / other[key] for row, other in pairs):.2f}"


def by_speed(found, key):
    """`(name, rounds)`, the highest first."""
    return sorted(found.items(), key=lambda item: -median(item[1], key))


def machine():
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
