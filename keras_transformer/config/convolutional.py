"""Architecture of a convolutional encoder-decoder.

D hidden_dim, N layers, V vocabulary size.
"""

from __future__ import annotations

from typing import Annotated
from typing import Any
from typing import ClassVar
from typing import Literal

import pydantic

from keras_transformer.config.translation import Layers
from keras_transformer.config.translation import TranslationConfig


class ConvolutionalConfig(TranslationConfig):
    """The architecture of a `ConvolutionalModel`.

    The presets have about as many weights as the Transformer's of the same names.
    `tiny` and `base` have gated convolutions as in ConvS2S; with `max_dilation` 16
    they are dilated as in ByteNet, and see further for the same cost.

    Raises:
        InputError: from `from_preset` and `from_dict`, naming the field.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer import ConvolutionalConfig
    >>> config = ConvolutionalConfig.from_preset("tiny", vocabulary_size=10_000)
    >>> config.dilations(5), config.num_weights
    ([1, 1, 1, 1, 1], 2597120)

    Reference: Gehring et al., 2017, https://arxiv.org/abs/1705.03122; Kalchbrenner et
    al., 2016, https://arxiv.org/abs/1610.10099.
    """

    old_names: ClassVar[dict[str, str]] = {"attention": "attention_scoring"}
    kind: ClassVar[str] = "convolutional"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "hidden_dim": 128,
            "num_encoder_layers": 5,
            "num_decoder_layers": 5,
            "dropout": 0.3,
        },
        "base": {},
    }

    num_encoder_layers: Layers = 10
    num_decoder_layers: Layers = 10
    kernel_size: Annotated[int, pydantic.Field(ge=3)] = 3
    """Kernel size: how many positions a convolution sees, odd."""
    max_dilation: Annotated[int, pydantic.Field(ge=1, le=512)] = 1
    """Dilation of convolutions, at most: positions between those that one sees are 1,
    2, 4, ... up to this power of two from layer to layer, and again from 1."""
    attention_scoring: Literal["scaled_dot_product", "dot_product", "additive"] = (
        "scaled_dot_product"
    )
    """Attention scoring of every decoder layer for the positions of the source:
    `"scaled_dot_product"`, `"dot_product"` (ConvS2S) or `"additive"`."""

    @property
    def attention(self) -> str:
        """`attention_scoring`, under its old name."""
        return self.attention_scoring

    @pydantic.model_validator(mode="after")
    def _check(self) -> ConvolutionalConfig:
        if self.hidden_dim % 2:
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is odd, but sinusoidal positions pair "
                f"sines with cosines; use an even hidden_dim"
            )
        if self.kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size {self.kernel_size} is even, but the encoder sees as many "
                f"positions on both sides; use an odd kernel_size"
            )
        if self.max_dilation & (self.max_dilation - 1):
            raise ValueError(
                f"max_dilation {self.max_dilation} is not a power of two; use "
                f"{2 ** self.max_dilation.bit_length() // 2}"
            )
        return self

    def dilations(self, num_layers: int) -> list[int]:
        """Of each layer of a stack."""
        return [2 ** (i % self.max_dilation.bit_length()) for i in range(num_layers)]

    @property
    def num_weights(self) -> int:
        """The number of weights of the model, in closed form."""
        d = self.hidden_dim
        norm = 2 * d
        convolution = self.kernel_size * d * 2 * d + 2 * d + norm
        attention = 4 * d * d + norm + d * (self.attention_scoring == "additive")
        total = self.num_encoder_layers * convolution
        total += self.num_decoder_layers * (convolution + attention)
        return total + self.num_embedding_weights
