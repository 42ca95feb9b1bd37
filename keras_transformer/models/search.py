"""What is searched and what is scored: one text, for `Translator` and for exports.

B batch, S source positions, T target positions, W beam width, L most tokens.
"""

from keras import ops

from keras_transformer.decoding import beam_search
from keras_transformer.decoding import greedy_search
from keras_transformer.layers import masks
from keras_transformer.losses import token_losses

#: A translation may be this many tokens longer than its source (Vaswani et al., 2017).
EXTRA_LENGTH = 50


def search(
    model,
    source,
    limits,
    *,
    beam_size,
    length,
    top_beams=1,
    length_penalty=0.6,
    table_length=None,
):
    """The best translations of source ids.

    Args:
        model: a model of this package.
        source: (B, S) int32.
        limits: (B,) int32, the most tokens of each translation, end token included; 0
            for a row that only fills the batch.
        beam_size: W; 1 is greedy search.
        length: L, at least the largest limit; where a framework allows it in the
            program that is made, a scalar int32.
        top_beams: hypotheses of each row.
        length_penalty: alpha.
        table_length: the largest S, where S is known only when the program runs and its
            positions shall come from a table in the program, not be computed.

    Returns:
        `decoding.SearchResult`.
    """
    config = model.config
    memory, source_mask = model.encode(source, length=table_length)
    constants, cache = model.start(memory, source_mask, beam_size, length)
    constants["mask"] = ops.expand_dims(source_mask, (1, 2))  # (B, 1, 1, S)
    del constants["bias"]

    def step(tokens, position, constants, cache):
        # Made at each step: where a loop adds a tensor from outside of it to attention
        # scores, TensorFlow 2.21's graph optimizer (the remapper, with oneDNN) fuses
        # the sum with a wrong input, and the loop gives nothing, without an error.
        bias = masks.attention_bias(constants["mask"])
        return model.decode_step(tokens, position, {**constants, "bias": bias}, cache)

    options = {
        "length": length,
        "length_penalty": length_penalty,
        "start_id": config.start_id,
        "end_id": config.end_id,
        "pad_id": config.pad_id,
        "suppressed": tuple(sorted({config.pad_id, config.start_id} - {config.end_id})),
    }
    if beam_size == 1:
        return greedy_search(step, constants, cache, limits, **options)
    options |= {"beam_size": beam_size, "top_beams": top_beams}
    return beam_search(step, constants, cache, limits, **options)


def score(model, source, labels):
    """Log-probabilities (B,) of labels (B, T) given source ids (B, S).

    The labels end with `end_id`; `pad_id` after it does not count.
    """
    config = model.config
    start = ops.full_like(labels[:, :1], config.start_id)
    target = ops.concatenate([start, labels[:, :-1]], axis=1)
    logits = model({"source": source, "target": target}, training=False)
    _, likelihoods, _ = token_losses(logits, labels)
    mask = ops.cast(ops.not_equal(labels, config.pad_id), "float32")
    return ops.sum(likelihoods * mask, axis=1)
