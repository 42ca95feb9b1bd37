"""The embedding matrices of a model: one, two or three, as its config ties them."""

from keras_transformer.layers import TokenEmbedding


def embeddings(config, policy):
    """`source_embedding`, `target_embedding` and `output_embedding`, by name.

    Args:
        config: of any kind of model.
        policy: the dtype policy.

    Returns:
        Layers that are built: matrices (V, D); tied ones are the same layer.
    """

    def embedding(name, vocabulary_size, use_bias=False):
        layer = TokenEmbedding(
            vocabulary_size,
            config.hidden_dim,
            scale=config.scale_embeddings,
            use_bias=use_bias,
            dtype=policy,
            name=name,
        )
        layer.build()
        return layer

    source_size = config.source_vocabulary_size
    target_size = config.target_vocabulary_size
    bias, tied = config.output_bias, config.tie_embeddings
    if tied == "all":
        source = target = output = embedding("embedding", target_size, bias)
    elif tied == "target":
        source = embedding("source_embedding", source_size)
        target = output = embedding("target_embedding", target_size, bias)
    else:
        source = embedding("source_embedding", source_size)
        target = embedding("target_embedding", target_size)
        output = embedding("output_embedding", target_size, bias)
    return {
        "source_embedding": source,
        "target_embedding": target,
        "output_embedding": output,
    }
