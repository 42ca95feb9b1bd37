"""Programs that are measured against each other, in turns.

Each runs in a process of its own, with the environment that suits it. It prepares,
prints `ready`, and for each line that it is sent does one round of work and answers
with one line of JSON. Only one prepares or works at a time; the others sleep. So
whatever else the machine does hits all of them, and a ratio is taken within a round.
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import platform
import site
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

#: Of the time that there is, what may pass before the last program is ready.
_PREPARING = 0.7


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
        self.fault = None  # why it is left out

    def start(self, seconds=None):
        """Whether it could prepare, in the time; its errors are on the terminal."""
        self.process = subprocess.Popen(
            [sys.executable, *map(str, self.arguments)],
            cwd=Path(__file__).parent,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        answer = self._answer(seconds)
        if answer != "ready":
            killed = self.process.wait() < 0
            self.fault = answer or ("not ready in time" if killed else "has failed")
        return self.fault is None

    def work(self, job=None, seconds=None):
        """The numbers of one round; None where the process has died or is too slow."""
        try:
            print(json.dumps(job), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return None
        answer = self._answer(seconds)
        return json.loads(answer) if answer else None

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def _answer(self, seconds):
        timer = threading.Timer(seconds or 0, self.process.kill)
        if seconds is not None:
            timer.start()
        # Libraries print lines of their own: ours are the marked ones.
        for line in self.process.stdout:
            if line.startswith("> "):
                timer.cancel()
                return line[2:].strip()
        timer.cancel()
        return ""


def serve(work):
    """The child's side: answers each line with what `work(job)` returns."""
    print("> ready", flush=True)
    for line in sys.stdin:
        print("> " + json.dumps(work(json.loads(line))), flush=True)


def refuse(reason):
    """The child's side: says why it cannot prepare, and ends."""
    print(f"> {reason}", flush=True)
    sys.exit()


class Clock:
    """How much of the time of a whole benchmark is left.

    Args:
        minutes: None: as long as it takes.
    """

    def __init__(self, minutes=None):
        self.seconds = None if minutes is None else 60 * minutes
        self.began = time.monotonic()

    def left(self, share=1.0):
        """Seconds until this share of the time has passed, not below 1; or None."""
        if self.seconds is None:
            return None
        return max(share * self.seconds - (time.monotonic() - self.began), 1.0)

    def lasts(self, seconds=0.0):
        """Whether so many are left."""
        passed = time.monotonic() - self.began
        return self.seconds is None or passed + seconds < self.seconds


def prepared(programs, clock, at_once=1):
    """Those of the programs that are ready to work.

    Args:
        programs: to be started.
        clock: whatever is not ready in most of its time is left out.
        at_once: how many prepare side by side. Compilers that share a few processors
            take for ever.
    """

    def start(program):
        if program.start(clock.left(_PREPARING)):
            return True
        program.end()
        print(f"{program.name}: {program.fault}, left out", file=sys.stderr)
        return False

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        ready = list(pool.map(start, programs))
    return list(itertools.compress(programs, ready))


def warm(programs, jobs_of, clock):
    """Has the programs prepare for all of their jobs, side by side.

    Each is told its jobs with `"prepare": true`, before any clock runs. A program that
    fails, or is not done in most of the time, is removed from the list.

    Args:
        programs: those that are ready.
        jobs_of: what a program will be told to do, a list.
        clock: of the whole benchmark.
    """

    def told(program):
        for job in jobs_of(program):
            if program.work({**job, "prepare": True}, clock.left(_PREPARING)) is None:
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(max(len(programs), 1)) as pool:
        done = list(pool.map(told, programs))
    for program, is_done in zip(list(programs), done, strict=True):
        if not is_done:
            programs.remove(program)
            program.end()
            program.fault = "not prepared in time"
            print(f"{program.name}: {program.fault}, left out", file=sys.stderr)


def play(programs, rounds, clock, job=None, tell=None):
    """`{name: [numbers of each round]}` of the programs that did all rounds.

    A program that fails is removed from the list. Where the time ends there are fewer
    rounds, for all of them.

    Args:
        programs: those that are ready.
        rounds: the most of them.
        clock: of the whole benchmark.
        job: what each is told to do.
        tell: `tell(name, numbers)` is called after each round of a program.
    """
    found = {program.name: [] for program in programs}
    longest = 0.0
    for done in range(rounds):
        if done and not clock.lasts(longest):
            rounds = done
            break
        began = time.monotonic()
        for program in list(programs):
            numbers = program.work(job, clock.left())
            if numbers is None:
                programs.remove(program)
                program.end()
                program.fault = "did not finish a round"
                print(f"{program.name}: {program.fault}", file=sys.stderr)
            else:
                found[program.name].append(numbers)
                if tell:
                    tell(program.name, numbers)
        longest = max(longest, time.monotonic() - began)
        if done and not clock.lasts():  # the clock has cut this round
            rounds = done
            break
    return {name: rows[:rounds] for name, rows in found.items() if len(rows) >= rounds}


def take_turns(programs, rounds, minutes=None, job=None, at_once=1, tell=None):
    """What `play` finds, by programs that begin here and end here.

    Args:
        programs: to be started.
        rounds: the most of them.
        minutes: for all of it; a program that would take longer is left out.
        job: what each is told to do.
        at_once: how many prepare side by side.
        tell: `tell(name, numbers)` is called after each round of a program.
    """
    clock = Clock(minutes)
    programs = prepared(programs, clock, at_once)
    found = play(programs, rounds, clock, job, tell)
    for program in programs:
        program.end()
    return found


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


def by_backend(found, key):
    """`{backend: ratio}`, the fastest of ours to the fastest of KerasHub's on it."""
    ratios = {}
    for backend in ("TensorFlow", "JAX", "PyTorch"):
        ours, theirs = (
            fastest(
                found, [n for n in found if n.startswith(f"{whose}, {backend}")], key
            )
            for whose in ("ours", "KerasHub")
        )
        if ours and theirs:
            ratios[backend] = ratio(ours, theirs, key)
    return ratios


def by_speed(found, key):
    """`(name, rounds)`, the highest first."""
    return sorted(found.items(), key=lambda item: -median(item[1], key))


def compile_python(*trees):
    """Compiles what programs import, as installers do: else each start compiles it.

    Args:
        trees: checkouts of the package, beside what is installed.
    """
    packages = [tree / "keras_transformer" for tree in trees]
    folders = map(str, [*site.getsitepackages(), *packages])
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", *folders]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def machine():
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
