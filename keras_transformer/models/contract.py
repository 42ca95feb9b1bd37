"""Contract between models and decoding: methods and their named results.

B batch, T target positions, S source positions, D hidden_dim, N layers, H heads,
V target vocabulary, W beam width, L length of a cache.
"""

from typing import Any
from typing import NamedTuple
from typing import Protocol
from typing import runtime_checkable

from keras_transformer.config import TranslationConfig
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


class Encoded(NamedTuple):
    """The output of an encoder.

    Attributes:
        memory: (B, S, D), the encoder output, which the decoder attends to.
        source_mask: (B, S) bool, True at tokens.
        attention_weights: N tensors (B, H, S, S) float32, empty for models without
            self-attention; None unless requested.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    memory: Tensor
    source_mask: Tensor
    attention_weights: list[Tensor] | None = None


class Decoded(NamedTuple):
    """The output of a decoder for whole targets.

    Attributes:
        hidden: (B, T, D), which `logits` turns into scores.
        self_attention_weights: N tensors (B, H, T, T) float32, empty for models without
            self-attention; None unless requested.
        cross_attention_weights: N tensors (B, H, T, S) float32; None unless requested.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    hidden: Tensor
    self_attention_weights: list[Tensor] | None = None
    cross_attention_weights: list[Tensor] | None = None


class SearchState(NamedTuple):
    """The initial state of a search.

    Attributes:
        constants: one per sentence, the same at each step: a dictionary with a `bias`
            (B, 1, 1, S) for the cross-attention.
        cache: one per hypothesis, updated at each step (the KV cache of a Transformer).

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    constants: dict[str, Any]
    cache: Tensors


class StepOutput(NamedTuple):
    """The output of one decoding step.

    Attributes:
        logits: (B, W, V) float32.
        cache: the cache of the next step.
        cross_attention_weights: N tensors (B, H, W, S) float32; None unless requested.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    logits: Tensor
    cache: Tensors
    cross_attention_weights: list[Tensor] | None = None


@runtime_checkable
class Decodable(Protocol):
    """The protocol that searches, scores and `Translator` need of a model or ensemble.

    The call, `decode` and `decode_step` agree: the logits of position t are the same
    from whole targets (B, T) and from t + 1 steps with a cache.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    config: TranslationConfig

    def __call__(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> Tensor:
        """Logits (B, T, V) of `{"source": (B, S), "target": (B, T)}`."""

    def encode(
        self,
        source: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
        length: int | None = None,
    ) -> Encoded:
        """The encoder output of source ids (B, S) int32.

        `length` is the largest S, where S is dynamic.
        """

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
    ) -> Decoded:
        """The decoder output of all positions of target ids (B, T) int32, causally."""

    def logits(self, hidden: Tensor) -> Tensor:
        """The scores (..., V) float32 of hidden states (..., D)."""

    def start(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """The initial state of a search.

        `beam_size` is W, or None for one hypothesis per sentence, without that axis of
        the cache; `length` is L, the maximum number of steps.
        """

    def start_search(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """`start` in the layout that is fastest in a search."""

    def reorder(self, cache: Tensors, beams: Tensor) -> Tensors:
        """The cache after which hypothesis w continues `beams[:, w]`: (B, W) int32."""

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
        return_attention_weights: bool = False,
    ) -> StepOutput:
        """One more token (B, W) int32 of each hypothesis, at the scalar `position`.

        The cache that is given must not be used again: on PyTorch it is written into.
        A search that goes on from one cache in two ways passes copies.
        """
