"""Translation models, `keras.Model`s that encode and decode; and a memory network."""

from keras_transformer.models.contract import Decodable
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.convolutional import ConvolutionalModel
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.kinds import KINDS
from keras_transformer.models.memory_network import MemoryNetwork
from keras_transformer.models.neural_gpu import NeuralGPU
from keras_transformer.models.new_vocabulary import with_new_vocabulary
from keras_transformer.models.positions import register_position
from keras_transformer.models.recurrent import RecurrentModel
from keras_transformer.models.transformer import Transformer

__all__ = [
    "KINDS",
    "ConvolutionalModel",
    "Decodable",
    "Decoded",
    "Encoded",
    "Ensemble",
    "NeuralGPU",
    "MemoryNetwork",
    "RecurrentModel",
    "SearchState",
    "StepOutput",
    "Transformer",
    "register_position",
    "with_new_vocabulary",
]
