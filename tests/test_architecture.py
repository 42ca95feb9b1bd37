"""The house rules, read from the source: who may import whom, and who may act.

Imports inside of functions and under TYPE_CHECKING count as well.
"""

import ast
import functools
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_backend

PACKAGE = "keras_transformer"
FOLDER = Path(__file__).resolve().parents[1] / PACKAGE
FILES = {str(path.relative_to(FOLDER)): path for path in sorted(FOLDER.rglob("*.py"))}

#: Who stands on which floor, from the ground up.
ROOMS = (
    "errors hiding waiting processors control_characters decoding_options tensors"
    " position_tables",
    "arguments config backends files user_modules",
    "layers decoding data losses evaluation",
    "metrics tables learned_metrics",
    "models",
    "folder_config",
    "model_folder translation",
    "translator importing",
    "training export visualization",
    "engines",
    "serving batch_translator corpus_translation",
    "cli",
    "__main__",
)
FLOORS = {room: floor for floor, rooms in enumerate(ROOMS) for room in rooms.split()}

FRAMEWORKS = {"flax", "jax", "jaxlib", "tensorflow", "tensorflow_text", "torch"}
FRAMEWORK_ROOMS = {"backends", "export"}
#: Elsewhere, the only place: it reads PyTorch's files, whatever the backend.
FRAMEWORK_FILES = {"importing/reading/torch_file.py"}

BACKEND_QUESTION = re.compile(r"\b(config|backend)\.backend\(|\bimport backend\b")
BACKEND_QUESTION_ROOMS = {"backends", "cli"}

#: The only places that touch files, print, log or seed.
ACTING = (
    "cli/",
    "data/corpus.py",
    "data/tokenizer.py",
    "export/",
    "serving/",
    "training/callbacks.py",
    "training/logs.py",
    "training/run.py",
    "translator.py",
    "visualization/",
)
#: Path -> why it may act, though the house rules do not list it.
ACTING_TOO: dict[str, str] = {
    "data/phrasebook/__init__.py": "the only reader of the embedded corpus",
    "data/phrasebook/everyday/lexicon.py": "the only reader of the lexicon's tables",
    "data/phrasebook/generate.py": "a program: it writes the committed corpus",
    "data/translated_corpus.py": "the manifest of a corpus that a model wrote",
    "corpus_translation.py": "what `distill` and `backtranslate` write",
    "data/known_words.py": "a file of model folders, as the tokenizer's is",
    "data/tokenizer_bounds.py": "looks through what `data/tokenizer.py` is to read",
    "importing/argos.py": "unpacks a package of Argos into a temporary folder",
    "importing/hub.py": "fetches a model of the hub into a temporary folder",
    "importing/source.py": "reads configs and vocabularies of other toolkits",
    "importing/reading/": "reads files of weights of other toolkits",
    "files/plain_file.py": "looks at files from untrusted sources before they are read",
    "files/whole_file.py": "how all of these write a file: under a temporary name",
    "files/removal.py": "removes what a killed or damaged run left",
    "files/digest.py": "reads a file for its SHA-256",
    "files/output_folder.py": "a part of `Translator.save` and `export/`",
    "engines/conversion.py": "the cache of models that were converted",
    "engines/choice.py": "says which engine was taken, where it may choose",
    "engines/export_folder.py": "reads an export, as `serving/` does",
    "folder_config.py": "a part of `model_folder.py`",
    "model_folder.py": "what `Translator.save` and `load` stand for",
    "models/weights.py": "the weights file of model folders and checkpoints",
    "training/config/run_config.py": "reads the config file of a run",
    "training/checkpoints.py": "a part of `training/run.py`",
    "training/report.py": "a part of `training/run.py`: it prints the test's scores",
    "training/run_folder.py": "a part of `training/run.py`",
    "training/run_opening.py": "a part of `training/run_folder.py`",
    "training/series.py": "several of `training/run.py`, and their table",
    "training/test_text.py": "reads the config of a run, as `run_config.py` does",
    "training/batch_rule.py": "a part of `training/run_folder.py`",
    "data/encoded_corpus.py": "the cache of the encoded corpus",
    "data/encoded_writer.py": "as above",
    "data/line_reader.py": "a part of `data/corpus.py`",
    "data/parquet.py": "as above",
    "backends/random_seed.py": "the only place that seeds",
    "backends/host_memory.py": "reads the memory limit of a container",
}

ACTING_IMPORTS = {"logging", "shutil", "tempfile"}
ACTING_FUNCTIONS = {"input", "new_file", "open", "print", "write_whole"}
ACTING_METHODS = {
    "manual_seed",
    "mkdir",
    "open",
    "read_bytes",
    "read_text",
    "rename",
    "rmdir",
    "seed",
    "set_dtype_policy",
    "set_floatx",
    "set_global_policy",
    "set_random_seed",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}


def module_name(path: str) -> str:
    parts = (PACKAGE, *Path(path).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in FILES}


def room(module: str) -> str:
    """`keras_transformer.layers.masks` -> `layers`; the package itself is ''."""
    return module.partition(".")[2].partition(".")[0]


@functools.cache
def tree(path: str) -> ast.Module:
    return ast.parse(FILES[path].read_text(encoding="utf-8"))


@functools.cache
def imports(source: ast.Module) -> tuple[str, ...]:
    """Absolute names of all that is imported, by statement or by function call."""
    return tuple(_imports(source))


def _imports(source: ast.Module) -> Iterator[str]:
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            argument = node.args[0]
            if function in {"import_module", "__import__"} and isinstance(
                argument, ast.Constant
            ):
                yield str(argument.value)


def own_imports(source: ast.Module) -> set[str]:
    """The modules of the package that a file imports; the package itself if a name."""
    found = set()
    for name in imports(source):
        if name.partition(".")[0] != PACKAGE or name == f"{PACKAGE}.__version__":
            continue
        while name not in MODULES:  # a class or function: its module
            name = name.rpartition(".")[0]
        found.add(name)
    return found


def import_fault(importer: str, imported: str) -> str | None:
    """Why a module may not import another one of the package; None if it may."""
    here, there = room(importer), room(imported)
    if there == "":
        return "takes a name from the package itself; import it from its module"
    if here in {there, ""}:
        return None
    if FLOORS[there] < FLOORS[here]:
        return None
    return f"goes from floor {FLOORS[here]} to floor {FLOORS[there]}"


def side_effects(source: ast.Module) -> Iterator[str]:
    for name in imports(source):
        if name.partition(".")[0] in ACTING_IMPORTS:
            yield f"imports {name}"
    for node in ast.walk(source):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id in ACTING_FUNCTIONS:
            yield f"line {node.lineno} calls {function.id}()"
        elif isinstance(function, ast.Attribute) and (
            function.attr in ACTING_METHODS
            or ast.unparse(function) in {"os.replace", "os.remove", "os.makedirs"}
        ):
            yield f"line {node.lineno} calls {ast.unparse(function)}()"


def test_every_room_has_a_floor():
    rooms = {room(module) for module in MODULES} - {""}
    assert rooms <= set(FLOORS)


def test_imports_point_down():
    faults = [
        f"{path}: import of {imported} {fault}"
        for module, path in MODULES.items()
        for imported in own_imports(tree(path))
        if (fault := import_fault(module, imported))
    ]
    assert not faults, "\n".join(faults)


def test_imports_make_no_circle():
    graph = {module: own_imports(tree(path)) for module, path in MODULES.items()}
    for module in graph:
        graph[module].discard(module)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def test_relative_imports_are_absent():
    faults = [
        f"{path}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not faults


def test_only_backends_and_export_name_a_framework():
    faults = [
        f"{path} imports {name}"
        for module, path in MODULES.items()
        if room(module) not in FRAMEWORK_ROOMS and path not in FRAMEWORK_FILES
        for name in imports(tree(path))
        if name.partition(".")[0] in FRAMEWORKS
    ]
    assert not faults, "\n".join(faults)


def test_only_backends_and_cli_ask_which_backend_runs():
    faults = [
        f"{path}:{number} {line.strip()}"
        for module, path in MODULES.items()
        if room(module) not in BACKEND_QUESTION_ROOMS
        for number, line in enumerate(
            FILES[path].read_text(encoding="utf-8").splitlines(), start=1
        )
        if BACKEND_QUESTION.search(line)
    ]
    assert not faults, "\n".join(faults)


def test_only_the_listed_places_act():
    faults = [
        f"{path}: {effect}"
        for path in FILES
        if not path.startswith((*ACTING, *ACTING_TOO))
        for effect in side_effects(tree(path))
    ]
    assert not faults, "\n".join(faults)


def test_exceptions_are_still_needed():
    for exception in ACTING_TOO:
        files = [path for path in FILES if path.startswith(exception)]
        assert any(effect for path in files for effect in side_effects(tree(path)))


def test_importing_a_module_calls_nothing():
    faults = [
        f"{path}:{node.lineno} {ast.unparse(node)}"
        for path in FILES
        for node in tree(path).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("models.transformer", "layers.masks", True),
        ("layers.residual", "layers.masks", True),
        ("config", "errors", True),
        ("layers.masks", "models", False),
        ("decoding.beam_search", "layers.masks", False),
        ("evaluation", "data.corpus", False),
        ("config", "backends", False),
        ("training.run", "cli.main", False),
        ("training.run", "export.onnx", False),
    ],
)
def test_the_floors_are_understood(importer, imported, allowed):
    fault = import_fault(f"{PACKAGE}.{importer}", f"{PACKAGE}.{imported}")
    assert (fault is None) == allowed


@pytest.mark.parametrize(
    "source",
    [
        "open('a')",
        "def f(p):\n    p.write_text('a')",
        "import os\nos.replace('a', 'b')",
        "def f():\n    import logging",
        "from logging import getLogger",
        "import numpy as np\nnp.random.seed(1)",
        "print()",
    ],
)
def test_side_effects_are_seen(source):
    assert list(side_effects(ast.parse(source)))


def test_imports_are_seen_wherever_they_stand():
    source = ast.parse(
        "import a.b as c\n"
        "def f():\n"
        "    from d import e\n"
        "    importlib.import_module('g')\n"
        "if TYPE_CHECKING:\n"
        "    import h\n"
    )
    assert set(imports(source)) == {"a.b", "d.e", "g", "h"}


#: What makes a tensor of PyTorch of nothing: on the processor, unless it is told.
TORCH_MAKERS = {"arange", "as_tensor", "empty", "eye", "full", "linspace", "ones"}
TORCH_MAKERS |= {"rand", "randint", "randn", "randperm", "tensor", "zeros"}


def made_without_device(source: ast.Module) -> Iterator[int]:
    """Lines that make a tensor of PyTorch and do not say on which device."""
    for call in ast.walk(source):
        if not isinstance(call, ast.Call):
            continue
        made = any(  # also by functools.partial
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.value.id == "torch"
            and part.attr in TORCH_MAKERS
            for part in (call.func, *call.args)
        )
        if made and "device" not in {keyword.arg for keyword in call.keywords}:
            yield call.lineno


@pytest.mark.parametrize("path", [path for path in FILES if "torch" in path])
def test_a_tensor_of_pytorch_is_made_on_a_device_that_is_named(path):
    assert list(made_without_device(tree(path))) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 1\ntorch.zeros(3)", [2]),
        ("functools.partial(torch.arange, dtype=d)", [1]),
        ("torch.zeros(3, device=x.device)", []),
        ("torch.zeros_like(x)\nx.new_zeros(3)", []),
    ],
)
def test_tensors_without_a_device_are_seen(source, lines):
    assert list(made_without_device(ast.parse(source))) == lines


#: What the forward pass is made of -> the only modules that may compute it.
FORWARD = {
    "ops.softmax": {"layers/attention.py"},
    "scaled_dot_product_attention(": {
        "backends/torch.py",  # its kernel
        "layers/attention.py",
        "layers/memory_hop.py",
        "layers/multi_head_attention.py",
    },
    "jax.nn.dot_product_attention(": {"backends/jax.py"},
    "LayerNormalization": {"layers/normalization.py"},
    "RMSNormalization": {"layers/normalization.py"},
    "self._affine(inputs, 'inner')": {"layers/feed_forward.py"},
    "self.query_kernel": {"layers/multi_head_attention.py"},
}


@pytest.mark.parametrize("part", FORWARD)
def test_the_forward_is_written_once(part):
    found = {path for path, file in FILES.items() if part in code_of(file)}
    assert found == FORWARD[part]


@functools.cache
def code_of(file: Path) -> str:
    """The source of a module without its docstrings."""
    source = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(source):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            constant = body[0].value
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                body[0] = ast.Expr(ast.Constant(""))
    return ast.unparse(source)
