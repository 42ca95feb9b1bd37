"""Neural GPU, plain and extended: a tape that convolutions rewrite again and again.

B batch, T positions of the tape, W columns of the tape, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.layers import ConvolutionalGatedRecurrentUnit
from keras_transformer.layers import TokenEmbedding
from keras_transformer.models.checked_data import check_ids
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


@keras.saving.register_keras_serializable(package="keras_transformer")
class NeuralGPU(keras.Model):
    """A tape with the input in its first column, rewritten once for each symbol.

    A row of n symbols has a tape of n positions and takes n steps, each through the
    same layers of convolutional gated recurrent units: a machine whose program is
    learned, and whose memory and time grow with the input. The output is read
    from the first column: n symbols, too.

    With `output_tape` it is the Extended Neural GPU: a decoder of n more steps says one
    symbol at a time, at its own position of the tape, and sees those before it on a
    second tape. In training these are the target's.

    It is no kind of `TranslationModel`: tape and target are as long as the source, so
    that a search cannot go on beyond them. Where the output is longer or shorter, fill
    up both sides with a symbol of its own.

    Args:
        vocabulary_size: V, of both sides.
        width: W, columns of the tape.
        hidden_dim: D, numbers in a cell of the tape.
        kernel_size: cells that a convolution sees along each axis, odd.
        num_layers: units that a step goes through, one after the other.
        output_tape: whether it has the decoder.
        pad_id: fills rows up at their end.
        start_id: the symbol before the first of a target.

    Call arguments:
        inputs: source ids (B, T) int32; with an output tape `{"source": (B, T),
            "target": (B, T)}`, where the target begins with `start_id`, one to the
            right of the labels.

    Returns:
        Logits (B, T, V) in float32.

    Raises:
        InputError: for inputs of another form, sides of different lengths, or ids
            outside of the vocabulary.

    Masking: a row's logits are the same whatever padding follows it.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.models import NeuralGPU
    >>> ids = np.array([[5, 6, 3, 4], [7, 3, 0, 0]])
    >>> tuple(NeuralGPU(vocabulary_size=8)(ids).shape)
    (2, 4, 8)

    Reference: Kaiser and Sutskever, 2015, [Neural GPUs Learn Algorithms](
    https://arxiv.org/abs/1511.08228); Kaiser and Bengio, 2016, [Can Active Memory
    Replace Attention?](https://arxiv.org/abs/1610.08613).
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int = 4,
        hidden_dim: int = 24,
        kernel_size: int = 3,
        num_layers: int = 2,
        output_tape: bool = False,
        pad_id: int = 0,
        start_id: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.width = width
        self.hidden_dim = hidden_dim
        self.kernel_size = kernel_size
        self.num_layers = num_layers
        self.output_tape = output_tape
        self.pad_id = pad_id
        self.start_id = start_id
        self.source_embedding = self._embedding("source_embedding")
        self.output_embedding = self._embedding("output_embedding")
        self.encoder_layers = self._units("encoder")
        self.target_embedding: Any = None
        self.decoder_layers: list[ConvolutionalGatedRecurrentUnit] = []
        if output_tape:
            self.target_embedding = self._embedding("target_embedding")
            self.decoder_layers = self._units("decoder")

    def _embedding(self, name: str) -> TokenEmbedding:
        return TokenEmbedding(
            self.vocabulary_size, self.hidden_dim, dtype=self.dtype_policy, name=name
        )

    def _units(self, name: str) -> list[ConvolutionalGatedRecurrentUnit]:
        return [
            ConvolutionalGatedRecurrentUnit(
                self.kernel_size, dtype=self.dtype_policy, name=f"{name}_{index}"
            )
            for index in range(self.num_layers)
        ]

    def build(self, inputs_shape: Any = None) -> None:
        ids, tape = (None, None), (None, None, self.width, self.hidden_dim)
        self.source_embedding.build(ids)
        self.output_embedding.build(ids)
        for unit in self.encoder_layers:
            unit.build(tape)
        if self.target_embedding is not None:
            self.target_embedding.build(ids)
        for unit in self.decoder_layers:
            unit.build(tape, tape)
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Tensor:
        source, target = self._source_and_target(inputs)
        state, mask = self._encode(source)
        if target is None:
            return self._logits(state[:, :, 0])
        hidden, _ = self._decode(state, mask, target)
        return self._logits(hidden)

    def greedy(self, source: Tensor) -> Tensor:
        """The likeliest symbols (B, T) int32 of source ids (B, T), `pad_id` after them.

        With an output tape, each is the likeliest after those before it.
        """
        if not self.built:
            self.build()
        check_ids("the source", source, self.vocabulary_size)
        source = ops.convert_to_tensor(source, dtype="int32")
        state, mask = self._encode(source)
        if self.target_embedding is None:
            said = self._likeliest(state[:, :, 0])
        else:
            start = ops.full_like(source, self.start_id)
            hidden, _ = self._decode(state, mask, start, is_free=True)
            said = self._likeliest(hidden)
        return ops.where(mask, said, self.pad_id)

    # === Parts ===

    def _source_and_target(self, inputs: Any) -> tuple[Tensor, Tensor | None]:
        """The ids of both sides; None for the target without an output tape.

        Raises:
            InputError: where a side is missing or too many, sides differ in length, or
                an id is none of the vocabulary.
        """
        if isinstance(inputs, dict) != self.output_tape:
            takes = '{"source": ids, "target": ids}' if self.output_tape else "ids"
            raise InputError(
                f"a NeuralGPU with output_tape={self.output_tape} takes {takes}; give "
                f"that, or change output_tape"
            )
        source, target = inputs, None
        if self.output_tape:
            source, target = inputs["source"], inputs["target"]
            check_ids("the target", target, self.vocabulary_size)
            if source.shape[1] != target.shape[1]:
                raise InputError(
                    f"the source has {source.shape[1]} positions and the target "
                    f"{target.shape[1]}, but both stand on one tape; fill up the "
                    f"shorter one"
                )
        check_ids("the source", source, self.vocabulary_size)
        return source, target

    def _encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """The tape (B, T, W, D) after all steps, and where a row has symbols (B, T)."""
        mask = ops.not_equal(source, self.pad_id)
        counts = ops.sum(ops.cast(mask, "int32"), axis=1)
        counts = ops.reshape(counts, (-1, 1, 1, 1))

        def step(state: Tensor, index: Tensor) -> tuple[Tensor, None]:
            new = self._rewritten(self.encoder_layers, state, mask)
            # A row that has had its steps waits for the others.
            return ops.where(index < counts, new, state), None

        tape = self._tape(self.source_embedding(source))
        state, _ = ops.scan(step, tape, _positions(source))
        return state, mask

    def _decode(
        self, state: Tensor, mask: Tensor, target: Tensor, is_free: bool = False
    ) -> tuple[Tensor, Tensor]:
        """What stands at each position after its own step, (B, T, D), and the target.

        The target (B, T) is given, or, if `is_free`, begins with `start_id` and goes on
        with what was said.
        """
        positions = _positions(target)  # (T,)

        def step(carry: Tensors, index: Tensor) -> tuple[Tensors, None]:
            state, target, hidden = carry
            written = ops.expand_dims(positions <= index, 1)  # (T, 1)
            written = ops.where(written, self.target_embedding(target), 0)
            tape = self._tape(written)
            state = self._rewritten(self.decoder_layers, state, mask, tape)
            column = state[:, :, 0]
            if is_free:
                said = ops.roll(self._likeliest(column), 1, axis=1)
                target = ops.where(positions == index + 1, said, target)
            here = ops.expand_dims(positions == index, 1)
            return (state, target, ops.where(here, column, hidden)), None

        carry = (state, target, ops.zeros_like(state[:, :, 0]))
        (_, target, hidden), _ = ops.scan(step, carry, positions)
        return hidden, target

    def _tape(self, first_column: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, W, D), zeros in all columns but the first."""
        first = ops.expand_dims(first_column, 2)
        return ops.pad(first, ((0, 0), (0, 0), (0, self.width - 1), (0, 0)))

    def _rewritten(
        self, units: Any, state: Tensor, mask: Tensor, tape: Tensor | None = None
    ) -> Tensor:
        """The tape after one step, through all of these units."""
        for unit in units:
            state = unit(state, tape=tape, mask=mask)
        return state

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.output_embedding(hidden, reverse=True)

    def _likeliest(self, hidden: Tensor) -> Tensor:
        return ops.cast(ops.argmax(self._logits(hidden), axis=-1), "int32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "width": self.width,
            "hidden_dim": self.hidden_dim,
            "kernel_size": self.kernel_size,
            "num_layers": self.num_layers,
            "output_tape": self.output_tape,
            "pad_id": self.pad_id,
            "start_id": self.start_id,
        }


def _positions(ids: Tensor) -> Tensor:
    """0, 1, ..., T - 1 of ids (B, T)."""
    return ops.arange(ops.shape(ids)[1], dtype="int32")
