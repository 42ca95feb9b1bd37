"""The encoder-decoder Transformer, assembled from this package's layers.

B batch, T target positions, S source positions, D hidden_dim, N layers, H heads,
K head_dim, V target vocabulary, W beam width, L length of the cache.
"""

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.layers import AttentionBias
from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers import LearnedPositionalEmbedding
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.layers import masks
from keras_transformer.layers.dropout import Dropout
from keras_transformer.models import shared_cache
from keras_transformer.models.shared_layers import cross_attention_bias
from keras_transformer.models.shared_layers import embeddings
from keras_transformer.models.translation_model import TranslationModel

LAYOUTS = {
    "sinusoidal": "interleaved",
    "sinusoidal_halves": "halves",
    "sinusoidal_halves_t2t": "halves_t2t",
}


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

    Masking: source positions that hold `pad_id` are attended to by none; the target
    is causal, so that padding at its end is seen by padding alone.

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

    @staticmethod
    def make_layers(config, policy):
        """All layers, by the names of attributes; see `TranslationModel`."""
        return {**_embeddings(config, policy), **_stacks(config, policy)}

    def encode(
        self, source, training=None, return_attention_weights=False, length=None
    ):
        """Source ids to what the decoder attends to.

        Args:
            source: (B, S) int32.
            training: whether dropout is on.
            return_attention_weights: also return them.
            length: int, the largest S, where S is known only when the program runs.

        Returns:
            Memory (B, S, D) and source mask (B, S), True at tokens; with
            `return_attention_weights`, also N tensors (B, H, S, S).
        """
        source_mask = ops.not_equal(source, self.config.pad_id)
        bias = self.source_bias(source)
        hidden = self._embed("source", source, training, length=length)
        weights = []
        for block in self.encoder_blocks:
            hidden, block_weights = block(
                hidden,
                attention_bias=bias,
                return_attention_weights=True,
                training=training,
            )
            weights.append(block_weights)
        if self.encoder_norm is not None:
            hidden = self.encoder_norm(hidden)
        if return_attention_weights:
            return hidden, source_mask, weights
        return hidden, source_mask

    def decode(
        self, target, memory, source_mask, training=None, return_attention_weights=False
    ):
        """All target positions at once, each seeing those up to itself.

        Returns:
            (B, T, D); with `return_attention_weights`, also N tensors (B, H, T, T)
            of self-attention and N tensors (B, H, T, S) of cross-attention.
        """
        hidden, *_, self_weights, cross_weights = self._decoder_stack(
            self._embed("target", target, training),
            [memory] * self.config.num_decoder_layers,
            self.target_bias(target),
            cross_attention_bias(source_mask),
            training=training,
        )
        if return_attention_weights:
            return hidden, self_weights, cross_weights
        return hidden

    # === Decoding ===

    def start(self, memory, source_mask, beam_size, length):
        """What a search needs before its first step.

        Args:
            memory: (B, S, D), from `encode`.
            source_mask: (B, S), from `encode`.
            beam_size: W; None for one hypothesis a sentence, of which the cache has
                no axis: an axis of 1 makes XLA copy the cache at each step.
            length: L, the most steps that will be taken.

        Returns:
            Constants, once a sentence: keys (B, H, S, K) and values of each layer and
            a bias (B, 1, 1, S). Cache, one for each hypothesis: keys
            (B, W, H, L, K) and values of each layer.
        """
        config = self.config
        constants = {
            "memory": [block.project_memory(memory) for block in self.decoder_blocks],
            "bias": cross_attention_bias(source_mask),
        }
        rows = (ops.shape(memory)[0],)
        if beam_size is not None:
            rows += (beam_size,)
        cache = [
            tuple(
                ops.zeros((*rows, config.num_heads, length, size), dtype=memory.dtype)
                for size in (config.head_dim, config.value_dim)
            )
            for _ in self.decoder_blocks
        ]
        return constants, cache

    def start_search(self, memory, source_mask, beam_size, length):
        """`start` in the layout that is fastest in a search; `reorder` takes its cache.

        Up to `shared_cache.MOST_HYPOTHESES` share a cache. Keys of the source are
        (B, H, K, S), as products take them: XLA would transpose them at each step.
        """
        shared = beam_size is not None and beam_size <= shared_cache.MOST_HYPOTHESES
        arguments = (None, length * beam_size) if shared else (beam_size, length)
        constants, cache = self.start(memory, source_mask, *arguments)
        constants["transposed_memory"] = _transposed(constants.pop("memory"))
        return constants, shared_cache.empty(cache, beam_size) if shared else cache

    def reorder(self, cache, beams):
        if isinstance(cache, shared_cache.SharedCache):
            return shared_cache.reordered(cache, beams)
        return super().reorder(cache, beams)

    def decode_step(
        self, tokens, position, constants, cache, return_attention_weights=False
    ):
        """The logits after one more token of each hypothesis.

        Args:
            tokens: (B, W) int32.
            position: scalar int32, 0 for `start_id`.
            constants: from `start` or `start_search`.
            cache: from there or the step before.
            return_attention_weights: also return N tensors (B, H, W, S) of
                cross-attention.

        Returns:
            Logits (B, W, V) in float32, and the new cache.
        """
        shared = isinstance(cache, shared_cache.SharedCache)
        if shared:
            cache = shared_cache.written(cache, position)
            layers, length = cache.layers, ops.shape(cache.writers)[2]
        else:
            layers, length = cache, ops.shape(cache[0][0])[-2]
        # Positions come from a table that is there before L is known.
        rows = length if isinstance(length, int) else self.config.longest_sequence
        allowed = masks.causal_mask(1, length, offset=position)  # (1, L)
        if self.config.attention_window is not None:
            window = masks.local_mask(
                1, self.config.attention_window, length, offset=position
            )
            allowed = masks.combine(allowed, window)
        if shared:
            allowed = shared_cache.own_past(cache, allowed)
        hidden, layers, _, weights = self._decoder_stack(
            self._embed("target", tokens, position=position, length=rows),
            _memories(constants),
            masks.attention_bias(allowed),
            constants["bias"],
            caches=layers,
            position=position,
        )
        cache = cache._replace(layers=layers) if shared else layers
        logits = self.logits(hidden)
        return (logits, cache, weights) if return_attention_weights else (logits, cache)

    # === Parts ===

    def _embed(self, side, ids, training=None, **position):
        """(B, T) -> (B, T, D): vectors and positions, normalized and dropped out."""
        hidden = getattr(self, f"{side}_embedding")(ids)
        hidden = getattr(self, f"{side}_position")(hidden, **position)
        norm = getattr(self, f"{side}_embedding_norm")
        hidden = hidden if norm is None else norm(hidden)
        return getattr(self, f"{side}_dropout")(hidden, training=training)

    def _decoder_stack(
        self,
        hidden,
        memories,
        bias,
        cross_attention_bias,
        caches=None,
        position=None,
        training=None,
    ):
        """All decoder blocks, over whole targets or, with caches, one position."""
        new_caches, self_weights, cross_weights = [], [], []
        for index, block in enumerate(self.decoder_blocks):
            hidden, *cache, self_weight, cross_weight = block(
                hidden,
                memories[index],
                attention_bias=bias,
                cross_attention_bias=cross_attention_bias,
                cache=None if caches is None else caches[index],
                position=position,
                return_attention_weights=True,
                training=training,
            )
            new_caches += cache
            self_weights.append(self_weight)
            cross_weights.append(cross_weight)
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        return hidden, new_caches, self_weights, cross_weights


def _memories(constants):
    """Keys (B, H, S, K) and values of each layer, of both kinds of constants."""
    if "memory" in constants:
        return constants["memory"]
    return _transposed(constants["transposed_memory"])


def _transposed(memory):
    """Keys (B, H, K, S) and values of each layer from keys (B, H, S, K), and back."""
    return [(ops.swapaxes(keys, -1, -2), values) for keys, values in memory]


def _embeddings(config, policy):
    """Embeddings, positions, normalizations and dropout of both sides, by name."""
    layers = embeddings(config, policy)
    for side in ("source", "target"):
        layers[f"{side}_position"] = _position(f"{side}_position", config, policy)
        name = f"{side}_embedding_norm"
        layers[name] = _norm(name, config.embedding_norm, config, policy)
        layers[f"{side}_dropout"] = Dropout(
            config.dropout, dtype=policy, name=f"{side}_dropout"
        )
    return layers


def _stacks(config, policy):
    """Blocks, biases and final normalizations of encoder and decoder, by name."""
    arguments = {
        "intermediate_dim": config.intermediate_dim,
        "num_heads": config.num_heads,
        "head_dim": config.head_dim,
        "value_dim": config.value_dim,
        "activation": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "normalize_first": config.normalize_first,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "use_bias": config.use_bias,
        "dtype": policy,
    }
    window = config.attention_window
    return {
        "source_bias": AttentionBias(config.pad_id, window=window, name="source_bias"),
        "target_bias": AttentionBias(causal=True, window=window, name="target_bias"),
        "encoder_blocks": [
            EncoderBlock(**arguments, name=f"encoder_{index}")
            for index in range(config.num_encoder_layers)
        ],
        "decoder_blocks": [
            DecoderBlock(**arguments, name=f"decoder_{index}")
            for index in range(config.num_decoder_layers)
        ],
        "encoder_norm": _norm("encoder_norm", config.final_norm, config, policy),
        "decoder_norm": _norm("decoder_norm", config.final_norm, config, policy),
    }


def _position(name, config, policy):
    offset = config.position_offset
    if config.position == "learned":
        length = config.max_sequence_length
        return LearnedPositionalEmbedding(length, offset, dtype=policy, name=name)
    layout = LAYOUTS[config.position]
    return SinusoidalPositionalEncoding(layout, offset, dtype=policy, name=name)


def _norm(name, wanted, config, policy):
    if not wanted:
        return None
    epsilon = config.layer_norm_epsilon
    return keras.layers.LayerNormalization(epsilon=epsilon, dtype=policy, name=name)
