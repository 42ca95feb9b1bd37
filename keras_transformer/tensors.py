"""Names for tensors in annotations; docstrings say their shapes and dtypes.

Keras has no types, and a tensor is something else on each backend: for a type checker
a tensor is Any.
"""

from __future__ import annotations

from typing import Any
from typing import TypeAlias

#: A tensor of the backend, a symbolic `keras.KerasTensor`, or what `keras.ops` takes.
Tensor: TypeAlias = Any
#: Nested tuples, lists and dictionaries of tensors.
Tensors: TypeAlias = Any
#: The name of a dtype, such as `"float32"`, or a Keras dtype policy.
DType: TypeAlias = Any
#: Sizes along the axes, int each; None where one is known only when a program runs.
Shape: TypeAlias = tuple[Any, ...]
