"""A trained model in the formats of other programs, one module a format.

Each has `export(translator, output, **options)`, which returns the path it wrote:
`saved_model` (TensorFlow and TF Serving), `onnx`, `litert`, `ctranslate2` and
`transformers` (of Hugging Face).
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer.export import ctranslate2 as ctranslate2
    from keras_transformer.export import litert as litert
    from keras_transformer.export import onnx as onnx
    from keras_transformer.export import saved_model as saved_model
    from keras_transformer.export import transformers as transformers

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["ctranslate2", "litert", "onnx", "saved_model", "transformers"],
)
