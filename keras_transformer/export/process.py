"""An export in a TensorFlow process of its own, where Keras runs on another backend.

Keras takes one backend a process, and only TensorFlow writes TensorFlow's formats
without loss. The model goes over as a model folder.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.models.positions import position_module
from keras_transformer.translator import Translator

_CHILD = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


def export(
    module: str, translator: Translator, output: str | Path, **options: Any
) -> Path:
    """`module.export(translator, output, **options)` in a fresh TensorFlow process.

    Args:
        module: its full name.
        translator: of any backend.
        output: as the module takes it.
        options: what JSON can hold.

    Returns:
        The path that was written.

    Raises:
        InputError: what the export raised there; a positional encoding that the running
            program registered itself, where no other process can import it from.
        RuntimeError: the process died, with the end of its messages.
    """
    imports = _imports(translator.model.config)
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        translator.save(Path(temporary) / "model")
        result_path = Path(temporary) / "result.json"
        task = {
            "module": module,
            "imports": imports,
            "model": str(Path(temporary) / "model"),
            "output": str(output),
            "options": options,
            "result": str(result_path),
        }
        code, messages = _run(json.dumps(task))
        try:
            result = json.loads(result_path.read_text(encoding="utf-8"))
        except OSError:
            raise RuntimeError(
                f"the TensorFlow process of the export ended with code {code}:\n"
                f"{messages[-4000:]}"
            ) from None
    if "error" in result:
        raise InputError(result["error"])
    return Path(result["path"])


def _imports(config: Any) -> list[str]:
    """The modules to import in a fresh process, which register what a config names."""
    position = getattr(config, "position", "none")
    module = position_module(position)
    if module == "__main__":
        raise InputError(
            f"position {position!r} is registered by the program that runs, and the "
            f"TensorFlow process that writes this export cannot import it; register it "
            f"in a module of its own, or export with KERAS_BACKEND=tensorflow"
        )
    return [] if module is None else [module]


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
    try:
        for name in task["imports"]:
            importlib.import_module(name)
        translator = Translator.load(task["model"])
        module = importlib.import_module(task["module"])
        path = module.export(translator, task["output"], **task["options"])
        result = {"path": str(path)}
    except InputError as error:
        result = {"error": str(error)}
    Path(task["result"]).write_text(json.dumps(result), encoding="utf-8")
