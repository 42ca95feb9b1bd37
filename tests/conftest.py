"""What the tests share: the backend, the measured data, a fresh process."""

from __future__ import annotations

import collections
import gc
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Compiling takes most of the time of small tests.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
if os.environ["KERAS_BACKEND"] == "jax":  # two thirds of the time
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")
else:  # also processes of JAX that PyTorch's tests start
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

if os.environ["KERAS_BACKEND"] != "torch":
    gc.set_threshold(100_000)  # as commands have it: tracing makes many objects

if importlib.util.find_spec("torch") and (
    os.environ["KERAS_BACKEND"] == "torch" or importlib.util.find_spec("tensorflow")
):
    import torch  # noqa: F401  # loaded after TensorFlow it can crash the process

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_ignore_collect(collection_path, config):
    """Passes over files without the mark that is asked for: importing takes long."""
    mark = config.option.markexpr.partition(" ")[0]
    if mark in ("no_backend", "no_tensorflow") and collection_path.suffix == ".py":
        return mark not in collection_path.read_text("utf-8") or None
    return None


def pytest_collection_modifyitems(config, items):
    leave_to_one_backend(config, items)
    slow_files_first(items)


def leave_to_one_backend(config, items):
    """Leaves what is marked `one_backend` to that one, unless EVERY_TEST is set.

    It is PyTorch, which compiles nothing, where the mark names no other. In a module
    that is marked so, `each_backend` marks what is not.
    """
    if os.environ.get("EVERY_TEST"):
        return

    def elsewhere(item):
        own = {mark.name: mark for mark in reversed(item.own_markers)}
        mark = own.get("one_backend")
        if not mark and not {"each_backend", "no_backend"} & own.keys():
            mark = item.get_closest_marker("one_backend")
        return mark and os.environ["KERAS_BACKEND"] not in (mark.args or ("torch",))

    left = list(filter(elsewhere, items))
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


def slow_files_first(items):
    """A long file that a worker takes last leaves the other workers idle."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    sizes = collections.Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -sizes[item.path]))


def pytest_sessionfinish():
    gc.unfreeze()  # Hypothesis looks for who holds an object


# Hides modules as if they were not installed, for `import` and `find_spec` alike.
_HIDE = """
import sys
class _Hiding:
    def __init__(self, finder):
        self._finder = finder
    def find_spec(self, name, *arguments):
        if name.partition(".")[0] not in {names!r}:
            return self._finder.find_spec(name, *arguments)
    def __getattr__(self, name):
        return getattr(self._finder, name)
sys.meta_path[:] = [_Hiding(finder) for finder in sys.meta_path]
"""
_RUN_MODULE = """
import runpy, sys
sys.argv = {arguments!r}
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module", autouse=True)
def little_garbage():
    """Leaves what there is before a module out of what is searched for garbage.

    Else each search takes seconds in the end; Keras starts one whenever a layer deletes
    a variable, as int8 does.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real parallel text beside the repository."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data, beside the repository")
    return path


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """Runs code, or `["-m", module, *arguments]`, in a fresh Python process.

    Call arguments:
        code_or_arguments: the source text, or the arguments of `python`.
        backend: value of KERAS_BACKEND; None keeps the one of the tests.
        block: modules that the process must not find, as if not installed.
        env: further environment variables.

    Returns what it printed; fails with its stderr where it does not exit with 0.
    """
    return _run_python


def _run_python(
    code_or_arguments: str | Sequence[str],
    *,
    backend: str | None = None,
    block: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
) -> str:
    code = code_or_arguments
    if not isinstance(code, str):
        option, module, *arguments = code
        if option != "-m":
            raise ValueError(f'expected ["-m", module, ...], got {code_or_arguments}')
        code = _RUN_MODULE.format(arguments=[module, *arguments], module=module)
    environment = {**os.environ, **(env or {})}
    if backend is not None:
        environment["KERAS_BACKEND"] = backend
    done = subprocess.run(
        [sys.executable, "-c", _HIDE.format(names=tuple(block)) + code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        pytest.fail(f"exit code {done.returncode}\n{done.stderr}", pytrace=False)
    return done.stdout
