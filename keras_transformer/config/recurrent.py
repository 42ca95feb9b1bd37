"""Architecture of a recurrent encoder-decoder.

D hidden_dim, N layers, V vocabulary size.
"""

from __future__ import annotations

from typing import Any
from typing import ClassVar
from typing import Literal

import pydantic

from keras_transformer.config.translation import Layers
from keras_transformer.config.translation import Size
from keras_transformer.config.translation import TranslationConfig


class RecurrentConfig(TranslationConfig):
    """The architecture of a `RecurrentModel`.

    The presets have about as many weights as the Transformer's of the same names:
    `tiny` has 4 layers on each side, `base` 8.

    Raises:
        InputError: from `from_preset` and `from_dict`, naming the field.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer import RecurrentConfig
    >>> config = RecurrentConfig.from_preset("tiny", vocabulary_size=10_000)
    >>> config.attention_scoring, config.num_weights
    ('additive', 2532736)

    Reference: Sutskever et al., 2014, https://arxiv.org/abs/1409.3215; Bahdanau et
    al., 2015, https://arxiv.org/abs/1409.0473.
    """

    old_names: ClassVar[dict[str, str]] = {"attention": "attention_scoring"}
    kind: ClassVar[str] = "recurrent"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {
            "hidden_dim": 128,
            "num_encoder_layers": 4,
            "num_decoder_layers": 4,
            "dropout": 0.3,
        },
        "base": {},
    }

    hidden_dim: Size = 512
    """Model dimension D, even: an LSTM of the encoder has D / 2 units for each
    direction, one of the decoder D."""
    num_encoder_layers: Layers = 8
    num_decoder_layers: Layers = 8
    attention_scoring: Literal[
        "additive", "dot_product", "scaled_dot_product", "none"
    ] = "additive"
    """Attention scoring of the decoder for the positions of the source: `"additive"`
    (Bahdanau et al.), `"dot_product"`, `"scaled_dot_product"`; or `"none"`: what it
    knows of the source is its first state."""

    @property
    def attention(self) -> str:
        """`attention_scoring`, under its old name."""
        return self.attention_scoring

    @pydantic.model_validator(mode="after")
    def _check(self) -> RecurrentConfig:
        if self.hidden_dim % 2:
            raise ValueError(
                f"hidden_dim {self.hidden_dim} is odd, but half of it reads the source "
                f"in each direction; use an even hidden_dim"
            )
        return self

    @property
    def attends(self) -> bool:
        """Whether the decoder attends to the source."""
        return self.attention_scoring != "none"

    @property
    def num_weights(self) -> int:
        """The number of weights of the model, in closed form."""
        d, half = self.hidden_dim, self.hidden_dim // 2
        norm = 2 * d
        encoder = 2 * 4 * half * (d + half + 1) + norm
        decoder = 4 * d * (2 * d + 1) + norm
        first_state = 2 * d * 2 * d + 2 * d
        total = self.num_encoder_layers * encoder
        total += self.num_decoder_layers * (decoder + first_state)
        if self.attends:
            total += 4 * d * d + norm + d * (self.attention_scoring == "additive")
        return total + self.num_embedding_weights
