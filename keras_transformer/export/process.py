"""An export in a process of its own, where this one has another backend, or none.

Keras takes one backend a process, and only TensorFlow writes TensorFlow's formats
without loss. The model goes over as a model folder. Importing this loads no Keras.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.translator import Translator

_CHILD = "import sys; sys.path[:] = {path!r}; from {module} import main; main()"


def export(
    module: str, translator: "Translator", output: str | Path, **options: Any
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
    imports = _imports(translator.model)
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        translator.save(Path(temporary) / "model")
        return export_folder(
            module,
            Path(temporary) / "model",
            output,
            environment={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
            | {"KERAS_BACKEND": "tensorflow"},
            imports=imports,
            **options,
        )


def export_folder(
    module: str,
    folder: str | Path,
    output: str | Path,
    *,
    environment: Mapping[str, str],
    languages: Mapping[str, str] | None = None,
    imports: Sequence[str] = (),
    **options: Any,
) -> Path:
    """`module.export` of the translator of a model folder, in a fresh process.

    Args:
        module: its full name.
        folder: the model folder.
        output: as the module takes it.
        environment: of the process; `KERAS_BACKEND` is its backend.
        languages: `source_language` and `target_language`, of a multilingual model.
        imports: modules to import there first.
        options: what JSON can hold.

    Returns:
        The path that was written.

    Raises:
        InputError: what the export raised there.
        RuntimeError: the process died, with the end of its messages.
    """
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        result_path = Path(temporary) / "result.json"
        task = {
            "module": module,
            "imports": list(imports),
            "model": str(folder),
            "languages": dict(languages or {}),
            "output": str(output),
            "options": options,
            "result": str(result_path),
        }
        code, messages = _run(json.dumps(task), environment)
        try:
            result = json.loads(result_path.read_text(encoding="utf-8"))
        except OSError:
            raise RuntimeError(
                f"the process of the export ended with code {code}:\n{messages[-4000:]}"
            ) from None
    if "error" in result:
        raise InputError(result["error"])
    return Path(result["path"])


def _imports(model: Any) -> list[str]:
    """The modules to import in a fresh process, which hold what is not of here."""
    from keras_transformer.models.kinds import is_own
    from keras_transformer.models.positions import position_module

    position = getattr(model.config, "position", "none")
    module = position_module(position)
    if module == "__main__":
        raise InputError(
            f"position {position!r} is registered by the program that runs, and the "
            f"TensorFlow process that writes this export cannot import it; register it "
            f"in a module of its own, or export with KERAS_BACKEND=tensorflow"
        )
    own = type(model).__module__ if is_own(model) else None
    return [name for name in (module, own) if name is not None]


def _run(task: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and messages of the child; it ends where this process is ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD.format(path=sys.path, module=__name__)],
        env=dict(environment),
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
        for name in task["imports"]:
            importlib.import_module(name)
        translator = Translator.load(task["model"], **task["languages"])
        module = importlib.import_module(task["module"])
        path = module.export(translator, task["output"], **task["options"])
        result = {"path": str(path)}
    except InputError as error:
        result = {"error": str(error)}
    Path(task["result"]).write_text(json.dumps(result), encoding="utf-8")
