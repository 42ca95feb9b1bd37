"""What TensorFlow writes while it is imported: errors come through, no more."""

import os
import sys

import pytest

from keras_transformer.cli import quiet

pytestmark = pytest.mark.no_backend

IDLE = [
    "2026-11-27 15:44:28.123: I tensorflow/core/util/port.cc:153] oneDNN is on",
    "WARNING: All log messages before absl::InitializeLog() is called are written",
    "I0000 00:00:1700000000.123    42 port.cc:153] oneDNN custom operations are on",
    "E0000 00:00:1700000000.123    42 cuda.cc:8310] Unable to register cuDNN factory",
    "To enable the following instructions: AVX2, in other operations, rebuild",
]
TOLD = [
    "E0000 00:00:1700000000.123    42 cuda.cc:1] no kernel image is available",
    "my_library.py:1: UserWarning: this matters",
]


def write(lines):
    os.write(2, "".join(f"{line}\n" for line in lines).encode())


def test_what_matters_is_given_back(capfd):
    with quiet.held_back():
        write([*IDLE, *TOLD])
    assert capfd.readouterr().err.splitlines() == TOLD


def test_all_is_given_back_where_the_import_fails(capfd):
    with pytest.raises(ImportError), quiet.held_back():
        write(IDLE)
        raise ImportError
    assert capfd.readouterr().err.splitlines() == IDLE


@pytest.mark.parametrize("driver", [False, True])
def test_a_missing_gpu_is_told_where_there_is_a_driver(driver, monkeypatch, capfd):
    lines = ["E0000 00:00:1 2 cuda.cc:52] failed call to cuInit: UNKNOWN ERROR (303)"]
    monkeypatch.setattr(os.path, "exists", lambda path: driver)
    with quiet.held_back():
        write(lines)
    assert capfd.readouterr().err.splitlines() == lines * driver


@pytest.mark.parametrize(("level", "told"), [("2", TOLD), ("0", [*IDLE, *TOLD])])
def test_the_import_is_quiet_unless_the_log_is_asked_for(
    level, told, monkeypatch, tmp_path, capfd
):
    said = "".join(f"{line}\n" for line in [*IDLE, *TOLD])
    text = (
        f"import os, types\nos.write(2, {said!r}.encode())\n"
        "config = types.SimpleNamespace(list_physical_devices=lambda: None)"
    )
    (tmp_path / "tensorflow.py").write_text(text)
    loaded = sys.modules.pop("tensorflow", None)
    # Other tests have activated a backend, too.
    others = [each for each in sys.meta_path if not isinstance(each, quiet._Finder)]
    monkeypatch.setattr(sys, "meta_path", others)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    try:
        quiet.quieten_tensorflow()
        quiet.quieten_tensorflow()
        import tensorflow  # noqa: F401
    finally:
        del sys.modules["tensorflow"]
        if loaded is not None:
            sys.modules["tensorflow"] = loaded
    assert capfd.readouterr().err.splitlines() == told
    assert not any(isinstance(each, quiet._Finder) for each in sys.meta_path)
