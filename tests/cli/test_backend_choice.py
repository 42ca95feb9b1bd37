"""Which backend a command takes, and with which memory allocator it trains."""

import ctypes.util
import gc
import os
import platform

import pytest

from keras_transformer.cli import allocator
from keras_transformer.cli import backend
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

BACKENDS = ("tensorflow", "jax", "torch")
CACHE = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """`installed(*names)`; no keras.json and no variable says anything."""
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in (allocator.RESTART, *CACHE, "TORCHINDUCTOR_CACHE_DIR"):
        monkeypatch.setenv(name, "")  # noted, so that it is put back
        monkeypatch.delenv(name)
    return lambda *names: monkeypatch.setattr(
        backend, "_is_installed", lambda name: name in names
    )


def test_tensorflow_is_the_default(installed, capsys):
    installed("tensorflow", "jax", "torch")
    backend.activate()
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    assert capsys.readouterr() == ("", "backend: tensorflow\n")


@pytest.mark.parametrize(
    ("names", "chosen"), [(["jax", "torch"], "jax"), (["torch"], "torch")]
)
def test_without_tensorflow_the_one_that_is_there_is_taken(
    names, chosen, installed, capsys
):
    installed(*names)
    backend.activate()
    assert os.environ["KERAS_BACKEND"] == chosen
    assert capsys.readouterr().err == (
        f"tensorflow is not available; {chosen} is used instead\nbackend: {chosen}\n"
    )


@pytest.mark.parametrize(
    ("content", "chosen"),
    [
        ('{"backend": "torch"}', "torch"),
        ('{"backend": "openvino"}', "tensorflow"),
        ('{"floatx": "float32"}', "tensorflow"),
        ("[]", "tensorflow"),
        ("not JSON", "tensorflow"),
    ],
)
def test_keras_json_is_obeyed(content, chosen, installed, tmp_path):
    installed("tensorflow", "jax", "torch")
    (tmp_path / "keras.json").write_text(content)
    backend.activate()
    assert os.environ["KERAS_BACKEND"] == chosen


def test_the_variable_goes_before_keras_json(installed, monkeypatch, tmp_path):
    installed("tensorflow", "jax", "torch")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    backend.activate()
    assert os.environ["KERAS_BACKEND"] == "jax"


@pytest.mark.parametrize(
    ("variable", "names", "message"),
    [
        ("", [], "no backend is installed; run pip install tensorflow, or"),
        ("jax", ["torch"], "'jax', which is not installed; run pip install jax, or"),
        ("openvino", ["torch"], "'openvino'; set it to one of tensorflow, jax, torch"),
    ],
)
def test_no_backend_is_an_error(variable, names, message, installed, monkeypatch):
    installed(*names)
    monkeypatch.setenv("KERAS_BACKEND", variable)
    with pytest.raises(InputError, match=message):
        backend.activate()


@pytest.mark.parametrize("name", BACKENDS)
def test_pytorch_alone_looks_for_garbage_as_often_as_ever(name, installed, monkeypatch):
    before = gc.get_threshold()
    installed(name)
    backend.activate()
    assert (gc.get_threshold() == before) == (name == "torch")


# === The allocator ===


@pytest.fixture
def restarts(installed, monkeypatch):
    """The environments with which the process would have been started again."""
    environments = []
    monkeypatch.setattr(os, "execve", lambda *call: environments.append(call[2]))
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setenv(allocator.RESTART, "allowed")
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"lib{name}.so.4")
    for variable in ("GLIBC_TUNABLES", *allocator.settings()):
        monkeypatch.delenv(variable, raising=False)
    installed(*BACKENDS)
    return environments


def test_jax_keeps_its_programs_where_nobody_says_otherwise(
    installed, monkeypatch, tmp_path
):
    installed("tensorflow", "jax")
    backend.activate()
    assert not set(CACHE) & set(os.environ)
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    backend.activate()
    folder, seconds = (os.environ[name] for name in CACHE)
    assert (folder, seconds) == (str(tmp_path / "keras-transformer" / "jax"), "0")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    backend.activate()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"


def test_pytorch_keeps_what_it_compiles(installed, monkeypatch, tmp_path):
    installed("torch")
    backend.activate()
    folder = str(tmp_path / "keras-transformer" / "inductor")
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == folder
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    backend.activate()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere"


@pytest.mark.parametrize("name", BACKENDS)
def test_training_restarts_with_other_settings(name, restarts, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_BACKEND", name)
    backend.activate(training=True)
    assert "memory allocator: tcmalloc\n" in capsys.readouterr().err
    (environment,) = restarts
    assert environment["LD_PRELOAD"] == "libtcmalloc_minimal.so.4"
    assert environment.items() >= allocator.settings().items()
    assert environment["KERAS_BACKEND"] == name
    assert environment[allocator.RESTART] == "done"


def test_other_commands_do_not_restart(restarts, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    backend.activate()
    assert not restarts


def test_without_tcmalloc_it_takes_the_settings_of_glibc(restarts, monkeypatch):
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    backend.activate(training=True)
    (environment,) = restarts
    assert "LD_PRELOAD" not in environment
    assert f"mmap_threshold={8 * 2**30}" in environment["GLIBC_TUNABLES"]


@pytest.mark.parametrize(
    ("plugin", "flags", "expected"),
    [
        ("jax_cuda13_plugin", None, "--xla_gpu_enable_triton_gemm=false"),
        ("jax_cuda12_plugin", "--a=1", "--a=1 --xla_gpu_enable_triton_gemm=false"),
        ("jax_cuda12_plugin", "--xla_gpu_enable_triton_gemm=true", None),
        ("another", None, None),
    ],
)
def test_training_on_a_gpu_takes_the_products_of_cublas(
    monkeypatch, plugin, flags, expected
):
    monkeypatch.setenv("XLA_FLAGS", flags or "")
    if flags is None:
        monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(backend, "_is_installed", lambda name: name == plugin)
    backend._choose_products("torch")
    assert os.environ.get("XLA_FLAGS") == flags
    backend._choose_products("jax")
    assert os.environ.get("XLA_FLAGS") == (expected or flags)


@pytest.mark.parametrize("value", ["done", "never", None])
def test_only_the_entry_of_the_program_allows_a_restart(value, restarts, monkeypatch):
    monkeypatch.delenv(allocator.RESTART)
    if value:
        monkeypatch.setenv(allocator.RESTART, value)
    allocator.tune()
    assert not restarts


def test_what_is_set_stays(restarts, monkeypatch):
    monkeypatch.setenv("TCMALLOC_RELEASE_RATE", "5")
    allocator.tune()
    assert restarts[0]["TCMALLOC_RELEASE_RATE"] == "5"
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1")
    allocator.tune()
    assert len(restarts) == 1


def test_another_c_library_is_left_alone(restarts, monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    allocator.tune()
    assert not restarts


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_the_process_starts_again_once(run_python):
    code = (
        "import os\n"
        "from keras_transformer.cli import allocator\n"
        "print('start', os.getpid(), flush=True)\n"
        "os.environ.setdefault(allocator.RESTART, 'allowed')\n"
        "allocator.tune()\n"
        "print(os.environ.items() >= allocator.settings().items())"
    )
    first, second, same = run_python(code).splitlines()
    assert first == second
    assert same == "True"


def test_a_command_imports_nothing_that_it_does_not_use(run_python):
    """Keras would, wherever these are installed; they can be imported afterwards."""
    code = (
        "import sys\n"
        "from keras_transformer.cli import backend\n"
        "backend.load_keras()\n"
        "from keras_transformer.translator import Translator\n"
        "packages = ['matplotlib', 'pandas', 'IPython', 'sacrebleu']\n"
        "if backend.os.environ['KERAS_BACKEND'] != 'jax':\n"
        "    packages.append('jax')\n"
        "print(sorted(set(packages) & set(sys.modules)))\n"
        "import matplotlib.pyplot\n"
        "assert matplotlib.pyplot.figure"
    )
    assert run_python(code) == "[]\n"
