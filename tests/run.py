"""The whole test suite with one command, on a machine that has nothing but Python.

    python3 tests/run.py                       everything: three backends, no TensorFlow
    python3 tests/run.py --backend jax --quick -- -k attention

Makes its virtual environments in `.venv`, with the exact versions and hashes of
`requirements`, and makes them again when those or `pyproject.toml` change. The one
without TensorFlow has files of the other. Bytecode lies beside them.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
BACKENDS = ("tensorflow", "jax", "torch")
NOTHING_SELECTED = 5  # pytest's exit code
#: Of tests at once, each of which holds a framework and what it compiled; and how many
#: stages they belong to, one more than cores: some tests wait for processes.
WORKERS = min(os.cpu_count() or 1, 4)
STAGES = min(WORKERS + 1, 4)


@dataclasses.dataclass(frozen=True)
class Environment:
    """A virtual environment below `.venv`: `requirements/NAME.txt` and PyTorch."""

    name: str

    @property
    def folder(self) -> Path:
        return ROOT / ".venv" / self.name

    @property
    def python(self) -> Path:
        if os.name == "nt":
            return self.folder / "Scripts" / "python.exe"
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The folder of what is installed."""
        if os.name == "nt":
            return self.folder / "Lib" / "site-packages"
        version = "python{}.{}".format(*sys.version_info)
        return self.folder / "lib" / version / "site-packages"

    @property
    def requirements(self) -> Path:
        return ROOT / "requirements" / f"{self.name}.txt"

    def install(self, other: Environment | None = None) -> int:
        """Makes the environment unless it is there already, made from the same.

        It is downloaded, or has the files of `other`.
        """
        parts = (sys.version, str(ROOT))
        files = (CONSTRAINTS, self.requirements, ROOT / "pyproject.toml")
        digest = hashlib.sha256("\n".join(parts).encode())
        for file in files:
            digest.update(file.read_bytes())
        stamp = self.folder / "stamp"
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return 0
        links = os.name != "nt"
        venv.create(self.folder, clear=True, symlinks=links, with_pip=other is None)
        code = self._link(other) if other else self._download()
        if code == 0:
            stamp.write_text(digest.hexdigest())
        return code

    def _download(self) -> int:
        steps = (
            ("--require-hashes", "--no-deps", "-r", self.requirements),
            # Without what it names: builds for GPUs bring gigabytes.
            ("--no-deps", "-c", CONSTRAINTS, "torch"),
        )
        with ThreadPoolExecutor() as pool:
            failed = any(list(pool.map(self._pip, steps)))
        return failed or self._pip(("--no-deps", "--no-build-isolation", "-e", "."))

    def _link(self, other: Environment) -> int:
        installed = {
            re.sub(r"[-_.]+", "-", found.name).lower(): found
            for found in metadata.distributions(path=[str(other.packages)])
        }
        pinned = r"^([\w.-]+)==(\S+) \\$"  # without what other systems need
        text = self.requirements.read_text(encoding="utf-8")
        needed = dict(re.findall(pinned, text, re.MULTILINE))
        for name in (*needed, "torch", "keras-transformer-mt"):
            found = installed.get(name)
            if not found or needed.get(name, found.version) != found.version:
                print(f"{other.name} has no {name} {needed.get(name, '')}", flush=True)
                return 1
            for file in found.files:
                if ".." not in file.parts:  # a program, which names the other's Python
                    target = self.packages / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _link_file(found.locate_file(file), target)
        return 0

    def _pip(self, arguments: tuple[str | Path, ...]) -> int:
        # Bytecode is written of what is imported; of all it takes a minute.
        command = [self.python, "-m", "pip", "-q", "--disable-pip-version-check"]
        command += ["install", "--no-compile"]
        done = subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        for line in done.stdout.splitlines():
            if not line.startswith("WARNING: Location"):
                print(line, flush=True)
        return done.returncode


def _link_file(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without such links
        shutil.copy2(source, target)


FULL = Environment("test")
NO_TENSORFLOW = Environment("no-tensorflow")


class Run:
    """Runs stages, some of them at once, and keeps count; a failure stops none."""

    def __init__(self, quick: bool, pytest_arguments: list[str]) -> None:
        self.quick = quick
        self.pytest_arguments = pytest_arguments
        self.failed_stages: list[str] = []
        self.passed = self.failed = self.skipped = 0
        self.reports: list[ElementTree.Element] = []
        self._workers = WORKERS  # of one stage
        self._programs = tempfile.TemporaryDirectory()
        self._lock = threading.Lock()

    def stage(self, name: str, action: Callable[[], int]) -> bool:
        """Prints one line with its result and seconds; says whether it passed."""
        print(f"--- {name}", flush=True)
        start = time.monotonic()
        passed = action() == 0
        if not passed:
            self.failed_stages.append(name)
        seconds = time.monotonic() - start
        print(
            f"--- {name}: {'ok' if passed else 'FAILED'}, {seconds:.0f} s", flush=True
        )
        return passed

    def stages_at_once(self, stages: dict[str, Callable[[], int]]) -> None:
        """The longest come first, so that all end together."""
        self._workers = max(1, WORKERS // min(STAGES, len(stages)))
        with ThreadPoolExecutor(STAGES) as pool:
            list(pool.map(self.stage, stages, stages.values()))

    def ruff(self, *arguments: str) -> int:
        command = [FULL.python, "-m", "ruff", *arguments, "-q", "."]
        return subprocess.run(command, cwd=ROOT).returncode

    def types(self) -> int:
        command = [FULL.python, "-m", "mypy", "--no-error-summary"]
        return subprocess.run(command, cwd=ROOT).returncode

    def tests(
        self, name: str, environment: Environment, marker: str, backend: str
    ) -> int:
        """One run of pytest, printed at its end; its counts are added to the totals.

        While it runs, lines say how much of it is done.
        """
        # The last of the long ones: with one worker it would end alone.
        workers = max(self._workers, min(WORKERS, 2 if marker == "no_backend" else 1))
        if self.quick:
            marker += " and not slow"
        # Threads that wait for each other are slow where workers share the cores.
        variables = {"OMP_NUM_THREADS": "1", **os.environ, "KERAS_BACKEND": backend}
        # The tests start hundreds of processes: none shall compile all Python anew.
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        variables["PYTHONPYCACHEPREFIX"] = str(ROOT / ".venv" / "bytecode")
        with tempfile.TemporaryDirectory() as folder:
            # What JAX has compiled, for all stages and the processes that they start.
            variables.setdefault("JAX_COMPILATION_CACHE_DIR", self._programs.name)
            variables.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
            report = Path(folder) / "report.xml"
            command = [environment.python, "-m", "pytest", "-q", "--no-header", "-rsfE"]
            command += ["--durations=10", "--durations-min=1", f"--junitxml={report}"]
            # By file: what a module's fixtures make is made once. In conftest's order.
            command += ["-n", str(workers), "--dist=loadfile"]
            command += ["--no-loadscope-reorder"]
            command += ["-m", marker, *self.pytest_arguments]
            lines = []
            with subprocess.Popen(
                command,
                cwd=ROOT,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            ) as process:
                for line in process.stdout:
                    lines.append(line)
                    if share := re.fullmatch(r"([.sFExX]+) *\[ *(\d+%)\]\n", line):
                        failed = "F" in share[1] or "E" in share[1]
                        end = ", with failures" if failed else ""
                        print(f"    {name}: {share[2]}{end}", flush=True)
            with self._lock:
                print(*lines, sep="", end="", flush=True)
                self._count(report)
        code = process.returncode
        return 0 if code == NOTHING_SELECTED else code

    def nothing_skipped_everywhere(self) -> int:
        names = skipped_everywhere(self.reports)
        for name, reason in names.items():
            print(f"skipped on every stage: {name}: {reason}", flush=True)
        return len(names)

    def _count(self, report: Path) -> None:
        if not report.exists():  # the process died
            self.failed += 1
            return
        suites = ElementTree.parse(report).getroot()
        self.reports.append(suites)
        print("--- seconds of the slowest files:", ", ".join(slowest_files(suites)))
        for suite in suites.iter("testsuite"):
            failed = int(suite.get("failures")) + int(suite.get("errors"))
            skipped = int(suite.get("skipped"))
            self.failed += failed
            self.skipped += skipped
            self.passed += int(suite.get("tests")) - failed - skipped


def slowest_files(report: ElementTree.Element, count: int = 12) -> list[str]:
    """`name seconds` of the test files that took longest, by a report of pytest."""
    seconds = collections.Counter()
    for case in report.iter("testcase"):
        name = case.get("classname").removeprefix("tests.")
        seconds[name] += float(case.get("time"))
    return [f"{name} {total:.0f}" for name, total in seconds.most_common(count)]


def skipped_everywhere(reports: list[ElementTree.Element]) -> dict[str, str]:
    """`{test: reason}` of the tests that no stage ran, by pytest's reports of them.

    Passed over: reasons that name what the machine lacks ("needs ...").
    """
    ran, skipped = set(), {}
    for case in (case for report in reports for case in report.iter("testcase")):
        module, name = case.get("classname"), case.get("name")
        skip = case.find("skipped")
        if skip is None or skip.get("type") != "pytest.skip":
            ran |= {module, f"{module}.{name}"}
            continue
        # Of a module that is skipped as a whole, its reason is in the text.
        reason = skip.get("message") if module else (skip.text or "")
        if not re.search(r"(^|Skipped: )(needs |could not import )", reason):
            skipped[f"{module}.{name}" if module else name] = reason
    return {name: skipped[name] for name in sorted(skipped.keys() - ran)}


def parse_arguments() -> argparse.Namespace:
    summary = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--quick", action="store_true", help="leave out slow tests")
    parser.add_argument(
        "--no-install", action="store_true", help="use the environments as they are"
    )
    parser.add_argument(
        "pytest_arguments", nargs="*", help="after --: arguments for pytest"
    )
    return parser.parse_args()


def run_stages(run: Run, backends: list[str], install: bool) -> None:
    if install and not run.stage("install", FULL.install):
        return
    run.stage("ruff check", partial(run.ruff, "check"))
    run.stage("ruff format", partial(run.ruff, "format", "--check"))
    tests = {
        backend: (FULL, "not no_backend", backend)
        for backend in BACKENDS
        if backend in backends
    }
    # Where a process imports Keras all the same, PyTorch is there soonest.
    tests["no backend"] = FULL, "no_backend", "torch"
    linked = partial(NO_TENSORFLOW.install, FULL)
    others = [backend for backend in backends if backend != "tensorflow"]
    if others and (not install or run.stage("install without TensorFlow", linked)):
        for backend in others:
            name = f"{backend} without TensorFlow"
            tests[name] = NO_TENSORFLOW, "no_tensorflow", backend
    stages = {name: partial(run.tests, name, *stage) for name, stage in tests.items()}
    run.stages_at_once({**stages, "types": run.types})
    if set(backends) == set(BACKENDS) and not run.quick and not run.pytest_arguments:
        run.stage("every test ran somewhere", run.nothing_skipped_everywhere)


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036  # this runs before pip could object
        print("The tests need Python 3.11 or newer.", file=sys.stderr)
        return 2
    arguments = parse_arguments()
    run = Run(arguments.quick, arguments.pytest_arguments)
    run_stages(run, arguments.backend or list(BACKENDS), not arguments.no_install)
    if run.failed_stages:
        print(f"failed: {', '.join(run.failed_stages)}")
    print(f"{run.passed} passed, {run.failed} failed, {run.skipped} skipped")
    return 1 if run.failed_stages or not run.passed else 0


if __name__ == "__main__":
    sys.exit(main())
