"""Tensor files of other toolkits behind one protocol; nothing in them is ever run.

`open_tensors` finds out what a file or folder is by its first bytes. Every size that a
file declares is checked against the file before memory is asked for.
"""

from keras_transformer.importing.reading.opening import open_tensors
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo

__all__ = ["TensorFile", "TensorInfo", "open_tensors"]
