"""A trained model in the formats of other programs, one module a format.

Each has `export(translator, output, **options)`, which returns the path it wrote:
`saved_model` (TensorFlow and TF Serving), `onnx`, `litert` and `ctranslate2`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["ctranslate2", "litert", "onnx", "saved_model"]
)
