"""A trained model in the formats of other programs, one module a format.

Each has `export(translator, output, **options)`, which returns the path it wrote:
`saved_model` (TensorFlow and TF Serving), `onnx`, `litert` and `ctranslate2`.
"""

import importlib
from typing import Any

#: The modules of this package that write a format; loaded on first use.
FORMATS = ("saved_model", "onnx", "litert", "ctranslate2")

__all__ = [*FORMATS]


def __getattr__(name: str) -> Any:
    if name not in FORMATS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
