"""The Transformer of "Attention Is All You Need" for Keras 3.

Importing this package costs nothing and runs nothing: a public name is loaded when
it is first used, and only then Keras and its backend.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_CLASSES = {
    "TransformerConfig": "config",
    "Transformer": "models.transformer",
    "Translator": "translator",
    "BatchTranslator": "batch_translator",
}
_SUBMODULES = (
    "layers",
    "models",
    "losses",
    "decoding",
    "data",
    "training",
    "evaluation",
    "export",
)

__all__ = [*_CLASSES, *_SUBMODULES, "__version__"]


def __getattr__(name: str) -> Any:
    """Loads a public name on its first use (PEP 562)."""
    if name in _CLASSES:
        module = importlib.import_module(f"{__name__}.{_CLASSES[name]}")
        value = getattr(module, name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
