"""An export in a TensorFlow process of its own, where Keras runs on another backend.

Keras takes one backend a process, and only TensorFlow writes TensorFlow's formats
without loss. The model goes over as a model folder.
"""

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble

_CHILD = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


def require(what: str, *packages: str, extras: str) -> None:
    """Refuses to go on where one of the packages is not installed.

    Args:
        what: the beginning of the message, such as "the export to SavedModel".
        packages: as they are imported.
        extras: of this package, that bring them.

    Raises:
        InputError: with the name of the first that is missing.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"{what} needs the package {package}, which is not installed; run pip "
                f"install 'keras-transformer[{extras}]'"
            )


def check_translator(translator: Any) -> None:
    """Warns of options of its search that no export has; refuses an ensemble.

    Raises:
        InputError: for an ensemble.
    """
    if isinstance(translator.model, Ensemble):
        raise InputError(
            "an ensemble cannot be exported; export its members, each by itself"
        )
    left_out = translator.decoding.changed().keys() - {"beam_size", "length_penalty"}
    if left_out:
        warnings.warn(
            f"the export searches without the translator's "
            f"{', '.join(sorted(left_out))}",
            stacklevel=3,
        )


def require_transformer(what: str, model: Any) -> None:
    """Refuses a model of another kind: the format describes a Transformer's parts.

    Args:
        what: the beginning of the message, such as "the export to ONNX".
        model: what shall be exported.

    Raises:
        InputError: with the kind of the model.
    """
    kind = model.config.kind
    if kind != "transformer":
        raise InputError(
            f"{what} takes models of kind transformer, and this one is {kind}; use "
            f"saved_model, which takes every kind"
        )


def export(module: str, translator: Any, output: str | Path, **options: Any) -> Path:
    """`module.export(translator, output, **options)` in a fresh TensorFlow process.

    Args:
        module: its full name.
        translator: of any backend.
        output: as the module takes it.
        options: what JSON can hold.

    Returns:
        The path that was written.

    Raises:
        InputError: what the export raised there.
        RuntimeError: the process died, with the end of its messages.
    """
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        translator.save(Path(temporary) / "model")
        task = {
            "module": module,
            "model": str(Path(temporary) / "model"),
            "output": str(output),
            "options": options,
            "result": str(Path(temporary) / "result.json"),
        }
        code, messages = _run(json.dumps(task))
        try:
            result = json.loads(Path(task["result"]).read_text(encoding="utf-8"))
        except OSError:
            raise RuntimeError(
                f"the TensorFlow process of the export ended with code {code}:\n"
                f"{messages[-4000:]}"
            ) from None
    if "error" in result:
        raise InputError(result["error"])
    return Path(result["path"])


def _run(task: str) -> tuple[int, str]:
    """Exit code and messages of the child; it ends where this process is ended."""
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
    environment["KERAS_BACKEND"] = "tensorflow"
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD.format(path=sys.path, module=__name__)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    try:
        messages, _ = child.communicate(task)
    except BaseException:
        child.terminate()  # it removes what is half-written
        child.communicate()
        raise
    return child.returncode, messages


def main() -> None:
    """What the child runs: the task is on standard input, the result goes to a file."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    task = json.load(sys.stdin)
    from keras_transformer.translator import Translator

    try:
        translator = Translator.load(task["model"])
        module = importlib.import_module(task["module"])
        path = module.export(translator, task["output"], **task["options"])
        result = {"path": str(path)}
    except InputError as error:
        result = {"error": str(error)}
    Path(task["result"]).write_text(json.dumps(result), encoding="utf-8")
