"""Encoder and decoder step as TensorFlow functions: what ONNX and LiteRT are made of.

The search itself stays outside: a program calls the encoder once for a batch and the
step once for each position, and hands on the caches that the step returns.

B batch, S source positions, W beam width, L length of the cache, V vocabulary, C
continuations asked for, G heads of keys and values, K head_dim.
"""

from collections.abc import Callable
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer import backends
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.decoding.logits_processors import suppress
from keras_transformer.decoding.search_result import nan_of
from keras_transformer.export.description import cache_shapes
from keras_transformer.export.description import suppressed_ids
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import word_attention
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


class DecodingGraph:
    """The functions of a model, every size but those of the model free.

    Args:
        model: of this package, on TensorFlow, in float32.
        options: of the search, with ids in place of pieces.
    """

    def __init__(
        self, model: TranslationModel, options: DecodingOptions | None = None
    ) -> None:
        self.model = model
        self.config = model.config
        self.options = options or DecodingOptions()
        self.layers = range(self.config.num_decoder_layers)

    def encoder(self) -> tuple[Callable[..., dict[str, Tensor]], list[tf.TensorSpec]]:
        """What stays the same in all steps of a search, of source ids (B, S).

        Gives `memory_bias` (B, 1, 1, S) and, of each layer, `memory_key_i`
        (B, G, S, K) and `memory_value_i` (B, G, S, value_dim).
        """

        def encode(source: Tensor) -> dict[str, Tensor]:
            length = self.config.longest_sequence
            encoded = self.model.encode(source, length=length)
            constants, _ = self.model.start(encoded.memory, encoded.source_mask, 1, 1)
            outputs = {"memory_bias": constants["bias"]}
            for i, (key, value) in enumerate(constants["memory"]):
                outputs |= {f"memory_key_{i}": key, f"memory_value_{i}": value}
            return outputs

        return encode, [tf.TensorSpec((None, None), tf.int32, name="source")]

    def step(self) -> tuple[Callable[..., dict[str, Tensor]], list[tf.TensorSpec]]:
        """One more token of each hypothesis: tokens (B, W) and caches -> logits.

        `beams` (B, W) says which hypothesis of its row each one continues: the caches
        are reordered first. `best_log_probabilities` and `best_ids` (B, W, C) are the
        `count` best continuations, in falling order, ties in order of the ids; NaN
        where a logit is. With a coverage penalty, `attention` (B, W, S) is its
        `word_attention`.
        """
        attends = self.options.coverage_penalty > 0
        shapes = cache_shapes(self.config)

        def step(
            tokens: Tensor,
            position: Tensor,
            beams: Tensor,
            count: Tensor,
            memory_bias: Tensor,
            *state: Tensor,
        ) -> dict[str, Tensor]:
            size = 2 * len(self.layers)
            constants = {"memory": _pairs(state[:size]), "bias": memory_bias}
            cache: Tensors = [_reorder(part, beams) for part in state[size:]]
            if self.config.decoder == "attention":
                cache = _pairs(cache)
            output = self.model.decode_step(
                tokens,
                position,
                constants,
                cache,
                return_attention_weights=attends,
            )
            logits = output.logits
            best, ids = backends.top_k(self._log_probabilities(logits), count)
            outputs = {
                "logits": logits,
                "best_log_probabilities": best + tf.expand_dims(nan_of(logits), 2),
                "best_ids": ids,
            }
            if attends:
                outputs["attention"] = word_attention(output.cross_attention_weights)
            parts = zip(shapes, tf.nest.flatten(output.cache), strict=True)
            return outputs | {f"new_cache_{name}": part for name, part in parts}

        decoder = self.config.sizes("decoder")
        heads = decoder.num_key_value_heads
        sizes = {"key": decoder.head_dim, "value": decoder.value_dim}
        signature = [
            tf.TensorSpec((None, None), tf.int32, name="tokens"),
            tf.TensorSpec((), tf.int32, name="position"),
            tf.TensorSpec((None, None), tf.int32, name="beams"),
            tf.TensorSpec((), tf.int32, name="count"),
            tf.TensorSpec((None, 1, 1, None), tf.float32, name="memory_bias"),
        ]
        signature += [
            tf.TensorSpec((None, heads, None, size), tf.float32, f"memory_{kind}_{i}")
            for i in self.layers
            for kind, size in sizes.items()
        ]
        for name, shape in shapes.items():
            shape = [size if isinstance(size, int) else None for size in shape]
            signature.append(tf.TensorSpec(shape, tf.float32, f"cache_{name}"))
        return step, signature

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        """(B, W, V), minus infinity where an id is never chosen."""
        log_probabilities = tf.nn.log_softmax(logits, axis=-1)
        return suppress(log_probabilities, suppressed_ids(self.config, self.options))


def _pairs(tensors: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of each layer."""
    return list(zip(tensors[::2], tensors[1::2], strict=True))


def _reorder(cache: Tensor, beams: Tensor) -> Tensor:
    """The cache (B, W, ...) of the hypotheses that `beams` (B, W) continue."""
    shape = tf.shape(cache)
    rows, width = shape[0], shape[1]
    places = beams + width * tf.range(rows)[:, tf.newaxis]
    flat = tf.reshape(cache, tf.concat([[rows * width], shape[2:]], axis=0))
    flat = tf.gather(flat, tf.reshape(places, [-1]))
    return tf.ensure_shape(tf.reshape(flat, shape), cache.shape)
