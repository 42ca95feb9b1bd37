"""KerasHub's layers, put together as its translation example has them, with masks.

B batch, W beam width, S source positions, T target positions.
"""

import keras
import keras_hub
from keras import ops

from keras_transformer import backends
from peers.batches import PAD
from peers.batches import SIZES
from peers.batches import START
from peers.batches import padded
from peers.keras_fit import fit


def trainer(data, preset, vocabulary_size, bfloat16, jit_compile=None):
    keras.config.set_dtype_policy("mixed_bfloat16" if bfloat16 else "float32")
    model = Network(preset, vocabulary_size).model
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rows = []
    for source, target, labels in data:
        weights = (labels != PAD).astype("float32")
        rows.append(({"source": source, "target": target}, labels, weights))
    return fit(model, loss, rows, jit_compile)


def decoder(preset, vocabulary_size, bfloat16, **_):
    keras.config.set_dtype_policy("bfloat16" if bfloat16 else "float32")
    network = Network(preset, vocabulary_size)
    # tf.function with XLA, jax.jit, or PyTorch as it comes: as its `generate` has it.
    generate = backends.compile(network.generate, network.model)

    def decode(rows, length, beam_size):
        source = ops.convert_to_tensor(padded(rows))
        found = generate(source, length=length, beam_size=beam_size)
        return ops.convert_to_numpy(found)

    return decode


class Network:
    def __init__(self, preset, vocabulary_size, dropout=0.1):
        layers, self.D, F, self.H = SIZES[preset]
        self.embedding = keras_hub.layers.ReversibleEmbedding(
            vocabulary_size, self.D, mask_zero=True, tie_weights=True
        )
        self.positions = keras_hub.layers.SinePositionEncoding()
        self.dropout = keras.layers.Dropout(dropout)
        self.encoder, self.decoder = (
            [block(F, self.H, dropout=dropout) for _ in range(layers)]
            for block in (
                keras_hub.layers.TransformerEncoder,
                keras_hub.layers.TransformerDecoder,
            )
        )
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        self.model = keras.Model(
            {"source": source, "target": target}, self.logits(source, target)
        )

    def embed(self, ids, position=0):
        vectors = self.embedding(ids)
        positions = self.positions(vectors, start_index=position)
        return self.dropout(vectors * self.D**0.5 + positions)

    def encode(self, source, mask):
        memory = self.embed(source)
        for block in self.encoder:
            memory = block(memory, padding_mask=mask)
        return memory

    def logits(self, source, target):
        """(B, T, V) in float32."""
        source_mask = ops.not_equal(source, PAD)
        target_mask = ops.not_equal(target, PAD)
        memory = self.encode(source, source_mask)
        hidden = self.embed(target)
        for block in self.decoder:
            hidden = block(
                hidden,
                memory,
                decoder_padding_mask=target_mask,
                encoder_padding_mask=source_mask,
            )
        logits = self.embedding(hidden, reverse=True)
        return keras.layers.Activation("linear", dtype="float32")(logits)

    def generate(self, source, length, beam_size):
        """What `keras_hub.models.Seq2SeqLM` does: (B, S) to (B, length) ids."""
        if beam_size > 1:
            sampler = keras_hub.samplers.BeamSampler(num_beams=beam_size)
        else:
            sampler = keras_hub.samplers.GreedySampler()
        mask = ops.not_equal(source, PAD)
        memory = self.encode(source, mask)
        rows = ops.shape(source)[0]
        prompt = ops.full((rows, length + 1), START, "int32")
        # A first step fills the caches of cross-attention.
        _, caches, cross_caches = self.step(
            prompt[:, :1],
            0,
            self.caches(rows, length),
            mask,
            memory,
            0,
            self.caches(rows, source.shape[1]),
        )

        def following(prompt, cache, index):
            caches, *constants, cross_caches = cache
            token = ops.slice(prompt, [0, index - 1], [ops.shape(prompt)[0], 1])
            logits, caches, _ = self.step(
                token, index - 1, caches, *constants, None, cross_caches
            )
            return logits, None, (caches, *constants, cross_caches)

        found = sampler(
            next=following,
            prompt=prompt,
            cache=(caches, mask, memory, cross_caches),
            index=1,
            mask=ops.repeat(ops.arange(length + 1)[None] == 0, rows, axis=0),
            model=self.model,
        )
        return found[:, 1:]

    def caches(self, rows, length):
        """Zeros (B, 2, length, H, D / H) of each layer."""
        shape = (rows, 2, length, self.H, self.D // self.H)
        return [ops.zeros(shape, self.embedding.compute_dtype) for _ in self.decoder]

    def step(self, token, position, caches, mask, memory, cross_position, cross_caches):
        """(B * W, 1) to logits (B * W, V) and the new caches."""
        hidden = self.embed(token, position)
        found = []
        for block, cache, cross_cache in zip(
            self.decoder, caches, cross_caches, strict=True
        ):
            hidden, *new = block(
                hidden,
                memory,
                encoder_padding_mask=mask,
                self_attention_cache=cache,
                self_attention_cache_update_index=position,
                cross_attention_cache=cross_cache,
                cross_attention_cache_update_index=cross_position,
            )
            found.append(new)
        logits = self.embedding(hidden, reverse=True)
        return logits[:, 0], *map(list, zip(*found, strict=True))
