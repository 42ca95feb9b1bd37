"""The encoder-decoder Transformer, assembled from this package's layers.

B batch, T target positions, S source positions, D hidden_dim, N layers, H heads,
G heads of keys and values, K head_dim, V target vocabulary, W beam width, L length of
the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.layers import SSRU
from keras_transformer.layers import AttentionBias
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import RelativePositionalEncoding
from keras_transformer.layers import masks
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.token_cutoff import cut_tokens
from keras_transformer.models import packed_rows
from keras_transformer.models import shared_cache
from keras_transformer.models.blocks import block_parts
from keras_transformer.models.blocks import blocks
from keras_transformer.models.blocks import norm
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.positions import position_layer
from keras_transformer.models.positions import position_module
from keras_transformer.models.rematerialization import rematerialized
from keras_transformer.models.shared_layers import cross_attention_bias
from keras_transformer.models.shared_layers import embeddings
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: Of a model, by its stacks.
_SIDES = {"encoder": "source", "decoder": "target"}


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(TranslationModel):
    """The Transformer as a functional `keras.Model`: source and target ids to logits.

    The graph, training, `encode` and `decode_step` run the same layer objects through
    the same methods: cached decoding equals teacher forcing at every position.

    Args:
        config: a `TransformerConfig`, or the dictionary of its fields.
        dtype: a dtype policy; default Keras' global one.

    Call arguments:
        inputs: `{"source": (B, S) int32, "target": (B, T) int32}`; the target begins
            with `start_id`, one to the right of the labels.

    Returns:
        Logits (B, T, V) in float32.

    Masking: the padding mask hides source positions with `pad_id`; the causal mask of
    the target also hides padding at its end from all tokens.

    Keras' own `export(path, format="onnx")` writes this pass for any B, S and T on
    TensorFlow. On JAX (with `jax2onnx`) and PyTorch (with `onnxscript`) it takes an
    `input_signature` of fixed lengths, on PyTorch of a fixed B, too.

    Example:

    >>> import numpy as np
    >>> import keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=1000)
    >>> model = kt.Transformer(config)
    >>> ids = np.array([[5, 6, 2]])
    >>> tuple(model({"source": ids, "target": ids}).shape)
    (1, 3, 1000)

    Reference: Vaswani et al., 2017, [Attention Is All You Need](
    https://arxiv.org/abs/1706.03762).
    """

    config_class = TransformerConfig
    #: Rematerialization: whether the backward pass computes each block again, for the
    #: memory of one block; no file keeps it.
    rematerializes = False
    _packs_rows = False

    @classmethod
    def make_layers(cls, config: TransformerConfig, policy: Any) -> dict[str, Any]:
        """All layers, by the names of attributes; see `TranslationModel`."""
        layers = _embeddings(config, policy)
        return {**layers, **_stacks(config, policy, layers, cls.block_parts)}

    @staticmethod
    def block_parts(
        config: TransformerConfig, side: str, policy: Any, position: Any
    ) -> dict[str, Any]:
        """The parts of one block, by name: what a subclass overrides to exchange some.

        Args:
            config: the model's config.
            side: `"encoder"` or `"decoder"`.
            policy: the dtype policy, of every layer.
            position: a `RelativePositionalEncoding` of the self-attention, or None.

        Returns:
            New layers, by the names in `TransformerBlock`.
        """
        return block_parts(config, side, policy, position)

    @property
    def layer_groups(self) -> dict[str, list[Any]]:
        return {
            "embeddings": [
                self.source_embedding,
                self.target_embedding,
                self.output_embedding,
                self.source_position,
                self.target_position,
                self.source_embedding_norm,
                self.target_embedding_norm,
            ],
            "encoder": [*self.encoder_blocks, self.encoder_norm],
            "decoder": [*self.decoder_blocks, self.decoder_norm],
        }

    @property
    def packs_rows(self) -> bool:
        """Packing: whether a row may hold several sentences, see `data.PackedBatches`.

        Of training and evaluation alone; not saved in files. Rows with one sentence
        give what they give otherwise.

        Raises:
            InputError: when it is set, where a part of the model reads a row as one.
        """
        return self._packs_rows

    @packs_rows.setter
    def packs_rows(self, value: bool) -> None:
        if value and (part := self._part_that_reads_on()):
            raise InputError(
                f"a model with {part} reads a row as one sentence, so its rows cannot "
                f"be packed; train without packing"
            )
        self._packs_rows = value
        # Built again, as by `compile`.
        self.train_function = self.test_function = None
        self.__dict__.pop("_traced_steps", None)

    def _part_that_reads_on(self) -> str | None:
        """The part, if any, that knows no end of a sentence within a row."""
        if self.config.attention_window is not None:
            return "attention_window"
        if self._is_recurrent:
            return "the decoder ssru"
        position, scoring = self.config.position, self.config.attention_scoring
        if position_module(position) is not None:
            return f"position {position!r}"
        if position.startswith("rotary") and scoring == "additive":
            # Not a function of the distance, as products of rotated vectors are.
            return f"position {position!r} and additive attention"
        return None

    def encode(
        self,
        source: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
        length: int | Tensor | None = None,
    ) -> Encoded:
        """The encoder output of source ids.

        Args:
            source: (B, S) int32.
            training: whether dropout is on.
            return_attention_weights: also return them.
            length: int, the largest S, where S is dynamic.

        Returns:
            `contract.Encoded`.
        """
        source_mask = ops.not_equal(source, self.config.pad_id)
        hidden = self._embed("source", source, training, length=length)
        if self._attends_by_kernel("encoder", hidden, training):
            limits = {"attention_mask": masks.padding_mask(source, self.config.pad_id)}
        else:
            limits = {"attention_bias": self.source_bias(source)}
        hidden, weights = self._encoder_stack(
            hidden, limits, return_attention_weights, training
        )
        return Encoded(
            hidden, source_mask, weights if return_attention_weights else None
        )

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
    ) -> Decoded:
        """The decoder output of all target positions, causally.

        Returns:
            `contract.Decoded`.
        """
        hidden = self._embed("target", target, training)
        if self._attends_by_kernel("decoder", hidden, training):
            mask = ops.expand_dims(source_mask, (1, 2))
            bias, limits = None, {"cross_attention_mask": mask}
        else:
            bias = None if self._is_causal_by_itself else self.target_bias(target)
            limits = {"cross_attention_bias": cross_attention_bias(source_mask)}
        decoded, _ = self._decoder_stack(
            hidden,
            [memory] * self.config.num_decoder_layers,
            bias,
            limits,
            return_attention_weights=return_attention_weights,
            training=training,
        )
        return decoded

    def hidden_states(self, inputs: Any, training: bool | None = None) -> Tensor:
        """The decoder's output (B, T, D), also of packed rows."""
        if not self._packs_rows:
            return super().hidden_states(inputs, training)
        config = self.config
        source, target = inputs["source"], inputs["target"]
        sources = packed_rows.of_sources(source, config.end_id)
        targets = packed_rows.of_targets(target, config.start_id)
        encoder_bias, decoder_bias, cross_bias = packed_rows.biases(
            source, target, sources, targets, config.pad_id
        )
        memory, _ = self._encoder_stack(
            self._embed_packed("source", source, sources, training),
            {"attention_bias": encoder_bias},
            training=training,
        )
        decoded, _ = self._decoder_stack(
            self._embed_packed("target", target, targets, training),
            [memory] * config.num_decoder_layers,
            decoder_bias,
            {"cross_attention_bias": cross_bias},
            training=training,
        )
        return decoded.hidden

    # === Decoding ===

    def start(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """The initial state of a search.

        Args:
            memory: (B, S, D), from `encode`.
            source_mask: (B, S), from `encode`.
            beam_size: W; None for one hypothesis per sentence, without that axis of the
                cache: an axis of 1 makes XLA copy the cache at each step.
            length: L, the maximum number of steps.

        Returns:
            `contract.SearchState`. Constants, one per sentence: keys (B, G, S, K) and
            values of each layer and a bias (B, 1, 1, S). Cache, one per hypothesis:
            keys (B, W, G, L, K) and values of each layer; of an SSRU states (B, W, D).
            With an attention window r, L is at most r + 1: the cache is a ring.
        """
        return self._start(memory, source_mask, beam_size, self._num_places(length))

    def _start(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        places: int | Tensor,
    ) -> SearchState:
        """`start` with a cache of so many places."""
        constants = {
            "memory": [block.project_memory(memory) for block in self.decoder_blocks],
            "bias": cross_attention_bias(source_mask),
        }
        rows = (ops.shape(memory)[0],)
        if beam_size is not None:
            rows += (beam_size,)
        if self._is_recurrent:
            cache = [b.self_attention.empty_cache(*rows) for b in self.decoder_blocks]
            return SearchState(constants, cache)
        sizes = self.config.sizes("decoder")
        cache = [
            tuple(
                ops.zeros(
                    (*rows, sizes.num_key_value_heads, places, size), dtype=memory.dtype
                )
                for size in (sizes.head_dim, sizes.value_dim)
            )
            for _ in self.decoder_blocks
        ]
        return SearchState(constants, cache)

    def start_search(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """`start` in the fastest layout for a search; its cache needs `reorder`.

        Up to `shared_cache.MOST_HYPOTHESES` share a cache. Keys of the source are
        (B, G, K, S), as products take them: XLA would transpose them at each step.
        """
        if (
            beam_size is None
            or beam_size > shared_cache.MOST_HYPOTHESES
            or self._is_recurrent
        ):
            constants, cache = self.start(memory, source_mask, beam_size, length)
        else:
            places = self._num_places(length) * beam_size
            constants, layers = self._start(memory, source_mask, None, places)
            cache = shared_cache.empty(layers, beam_size)
        constants["transposed_memory"] = _transposed(constants.pop("memory"))
        return SearchState(constants, cache)

    def reorder(self, cache: Tensors, beams: Tensor) -> Tensors:
        if isinstance(cache, shared_cache.SharedCache):
            return shared_cache.reordered(cache, beams)
        return super().reorder(cache, beams)

    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
        return_attention_weights: bool = False,
    ) -> StepOutput:
        """The logits after one more token of each hypothesis.

        Args:
            tokens: (B, W) int32.
            position: scalar int32, 0 for `start_id`.
            constants: from `start` or `start_search`.
            cache: from `start`, `start_search` or the step before.
            return_attention_weights: also return the cross-attention weights.

        Returns:
            `contract.StepOutput`.
        """
        shared = isinstance(cache, shared_cache.SharedCache)
        length: int | Tensor | None = None  # L
        if shared:
            cache = shared_cache.written(cache, position)
            layers, length = cache.layers, ops.shape(cache.writers)[2]
        else:
            layers = cache
            if not self._is_recurrent:
                length = ops.shape(cache[0][0])[-2]
        # Positions come from a table that is computed before L is known.
        rows: Any = self.config.longest_sequence
        if isinstance(length, int):
            rows = max(length, rows) if self._restricts(self.decoder_blocks) else length
        bias = None if length is None else self._past_bias(cache, position, length)
        decoded, layers = self._decoder_stack(
            self._embed("target", tokens, position=position, length=rows),
            _memories(constants),
            bias,
            {"cross_attention_bias": constants["bias"]},
            caches=layers,
            position=position,
            return_attention_weights=return_attention_weights,
        )
        cache = cache._replace(layers=layers) if shared else layers
        logits = self.logits(decoded.hidden)
        return StepOutput(logits, cache, decoded.cross_attention_weights)

    # === Parts ===

    @property
    def _is_recurrent(self) -> bool:
        """Whether the decoder has an SSRU in place of self-attention."""
        return all(isinstance(b.self_attention, SSRU) for b in self.decoder_blocks)

    @property
    def _is_causal_by_itself(self) -> bool:
        """Whether the decoder needs no bias: it is told to be causal, or always is."""
        return self._is_recurrent or self._restricts(self.decoder_blocks)

    def _attends_by_kernel(
        self, side: str, hidden: Tensor, training: bool | None
    ) -> bool:
        """Whether attention of a stack takes masks, of which the device has a kernel.

        A part of the user's own gets them as a bias, as ever.
        """
        blocks = getattr(self, f"{side}_blocks")
        is_ours = all(
            type(layer) in (MultiHeadAttention, SSRU)
            for block in blocks
            for name in ("self_attention", "cross_attention")
            if (layer := getattr(block, name, None)) is not None
        )
        window = getattr(self, f"{_SIDES[side]}_bias").window
        may = is_ours and window is None
        return may and backends.has_attention_kernel(hidden, training)

    def _restricts(self, blocks: Sequence[Any]) -> bool:
        """Whether the blocks' self-attention knows the config's window."""
        return _restrict(blocks, self.config.attention_window)

    def _num_places(self, length: int | Tensor) -> int | Tensor:
        """The places of a cache for so many steps; for a window, a ring suffices."""
        if not self._restricts(self.decoder_blocks):
            return length
        ring = self.config.attention_window + 1
        if not isinstance(length, int):
            return ops.minimum(length, ring)
        # Where a search is longer, positions of a ring would be in no table.
        return min(length, ring) if length <= self.config.longest_sequence else length

    def _past_bias(
        self, cache: Tensors, position: Tensor, length: int | Tensor
    ) -> Tensor:
        """The bias of self-attention in a step: what each hypothesis may attend to."""
        allowed = masks.causal_mask(1, length, offset=position)  # (1, L)
        if self.target_bias.window is not None:
            window = masks.local_mask(
                1, self.target_bias.window, length, offset=position
            )
            allowed = masks.combine(allowed, window)
        if isinstance(cache, shared_cache.SharedCache):
            allowed = shared_cache.own_past(cache, allowed)
        return masks.attention_bias(allowed)

    def _run(
        self, block: Any, *inputs: Any, training: bool | None, **arguments: Any
    ) -> Any:
        """A block's results; the backward pass computes it again where that is on."""
        again = self.rematerializes and training
        if again and not arguments["return_attention_weights"]:
            return rematerialized(block, *inputs, **arguments)
        return block(*inputs, **arguments, training=training)

    def _embed(
        self, side: str, ids: Tensor, training: bool | None = None, **position: Any
    ) -> Tensor:
        """(B, T) -> (B, T, D): embeddings plus positions, normalization, dropout."""
        hidden = getattr(self, f"{side}_embedding")(ids)
        if self.cutoff and training:
            hidden = self._cut(side, hidden, ids)
        encoding = getattr(self, f"{side}_position")
        if encoding is not None and _relative(encoding) is None:
            hidden = encoding(hidden, **position)
        norm = getattr(self, f"{side}_embedding_norm")
        hidden = hidden if norm is None else norm(hidden)
        return getattr(self, f"{side}_dropout")(hidden, training=training)

    def _cut(self, side: str, hidden: Tensor, ids: Tensor) -> Tensor:
        """Embeddings of each sentence twice, the second time cut, for SimCut."""
        config = self.config
        is_special = [
            ops.equal(ids, special) for special in (config.start_id, config.end_id)
        ]
        may_cut = ops.logical_not(ops.logical_or(*is_special))
        seeds = getattr(self, f"{side}_dropout").seed_generator
        return cut_tokens(hidden, may_cut, self.cutoff, seeds)

    def check_cutoff(self) -> None:
        """Refuses SimCut without dropout, whose random numbers it continues."""
        if not self.config.dropout:
            raise InputError(
                "simcut needs dropout; set model.dropout, such as to the 0.3 of its "
                "paper"
            )

    def _embed_packed(
        self,
        side: str,
        ids: Tensor,
        sentences: packed_rows.Sentences,
        training: bool | None,
    ) -> Tensor:
        """`_embed` of rows in which positions begin anew with each sentence."""
        length = ids.shape[1]
        if length is None:
            length = self.config.longest_sequence
        return self._embed(
            side, ids, training, position=sentences.positions, length=length
        )

    def _encoder_stack(
        self,
        hidden: Tensor,
        limits: dict[str, Tensor],
        return_attention_weights: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """The output of all encoder blocks, and the attention weights of each."""
        weights = []
        for block in self.encoder_blocks:
            results = self._run(
                block,
                hidden,
                **limits,
                return_attention_weights=return_attention_weights,
                training=training,
            )
            if return_attention_weights:
                hidden, block_weights = results
                weights.append(block_weights)
            else:
                hidden = results
        if self.encoder_norm is not None:
            hidden = self.encoder_norm(hidden)
        return hidden, weights

    def _decoder_stack(
        self,
        hidden: Tensor,
        memories: Sequence[tuple[Tensor, Tensor]],
        bias: Tensor | None,
        cross_limits: dict[str, Tensor],
        caches: Tensors | None = None,
        position: Tensor | None = None,
        return_attention_weights: bool = False,
        training: bool | None = None,
    ) -> Any:
        """All decoder blocks, over whole targets or, with caches, one position.

        Returns:
            `contract.Decoded`, and the new caches or an empty list.
        """
        new_caches, self_weights, cross_weights = [], [], []
        for index, block in enumerate(self.decoder_blocks):
            results = self._run(
                block,
                hidden,
                memories[index],
                attention_bias=bias,
                **cross_limits,
                cache=None if caches is None else caches[index],
                position=position,
                return_attention_weights=return_attention_weights,
                use_causal_mask=bias is None,
                training=training,
            )
            hidden, *others = results if isinstance(results, tuple) else (results,)
            if caches is not None:
                new_caches.append(others.pop(0))
            if return_attention_weights:
                cross_weights.append(others.pop())
                self_weights += others  # an SSRU has none
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        if self.config.scale_logits:
            hidden = hidden * self.config.hidden_dim**-0.5
        if not return_attention_weights:
            return Decoded(hidden), new_caches
        return Decoded(hidden, self_weights, cross_weights), new_caches


def _memories(constants: dict[str, Any]) -> Sequence[tuple[Tensor, Tensor]]:
    """Keys (B, G, S, K) and values of each layer, of both kinds of constants."""
    if "memory" in constants:
        return constants["memory"]
    return _transposed(constants["transposed_memory"])


def _transposed(memory: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Keys (B, G, K, S) and values of each layer from keys (B, G, S, K), and back."""
    return [(ops.swapaxes(keys, -1, -2), values) for keys, values in memory]


def _relative(encoding: Any) -> Any:
    """The positional encoding if it works inside self-attention, otherwise None."""
    return encoding if isinstance(encoding, RelativePositionalEncoding) else None


def _restrict(blocks: Sequence[Any], window: int | None) -> bool:
    """Whether the self-attention of blocks restricts itself to a window."""
    attentions = [block.self_attention for block in blocks]
    return window is not None and all(
        getattr(attention, "window", None) == window for attention in attentions
    )


def _embeddings(config: TransformerConfig, policy: Any) -> dict[str, Any]:
    """Embeddings, positions, normalizations and dropout of both sides, by name."""
    layers = embeddings(config, policy)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        name = f"{side}_position"
        layers[name] = position_layer(config, stack, policy, name)
        name = f"{side}_embedding_norm"
        layers[name] = norm(name, config.embedding_norm, config, policy)
        name = f"{side}_dropout"
        layers[name] = Dropout(config.dropout, dtype=policy, name=name)
    return layers


def _stacks(
    config: TransformerConfig,
    policy: Any,
    layers: dict[str, Any],
    make_parts: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """Blocks, biases and final normalizations of encoder and decoder, by name."""
    stacks, windows = {}, {}  # a window for attention that knows of none
    for side, name in (("encoder", "source"), ("decoder", "target")):
        position = _relative(layers[f"{name}_position"])
        stack = blocks(config, side, policy, position, make_parts)
        window = config.attention_window
        windows[side] = None if _restrict(stack, window) else window
        stacks[f"{side}_blocks"] = stack
    return {
        "source_bias": AttentionBias(
            config.pad_id, window=windows["encoder"], name="source_bias"
        ),
        "target_bias": AttentionBias(
            causal=True, window=windows["decoder"], name="target_bias"
        ),
        **stacks,
        "encoder_norm": norm("encoder_norm", config.final_norm, config, policy),
        "decoder_norm": norm("decoder_norm", config.final_norm, config, policy),
    }
