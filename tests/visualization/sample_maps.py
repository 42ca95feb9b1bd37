"""Maps whose weights are known, and texts that are hard to write down."""

import numpy as np

from keras_transformer.visualization import AttentionMaps
from keras_transformer.visualization.tokens import Tokens

#: Ends of elements, quotes, dollars, an emoji, right to left.
HARD = ("</script>", '▁"<!--', "▁$a$", "▁🐌", "▁שלום", "▁&amp;\u2028", "</s>")


def maps(source, target, layers=2, heads=3, kinds=("encoder", "decoder", "cross")):
    """Of pieces, with weights at random; the decoder's are causal."""
    generator = np.random.default_rng(1)
    source, target = Tokens(tuple(source)), Tokens(tuple(target))
    S, T = len(source), len(target)
    weights = {}
    for kind, shape in (("encoder", (S, S)), ("decoder", (T, T)), ("cross", (T, S))):
        values = generator.random((layers, heads, *shape))
        values = np.tril(values) if kind == "decoder" else values
        values /= values.sum(axis=-1, keepdims=True)
        weights[kind] = values.astype("float32")
    return AttentionMaps(source, target, {kind: weights[kind] for kind in kinds})
