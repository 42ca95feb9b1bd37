"""Names of the weights of encoder-decoder Transformers of `transformers`.

Of the classes that descend from BART: Marian, M2M100, NLLB, mBART, Pegasus.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_transformer.config import TransformerConfig
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.foreign_model import transposed

#: Ours -> theirs.
_PROJECTIONS = {
    "query": "q_proj",
    "key": "k_proj",
    "value": "v_proj",
    "output": "out_proj",
}
_FEED_FORWARD = {"inner": "fc1", "outer": "fc2"}
_ATTENTION = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}


def layer_weights(
    config: TransformerConfig, prefix: str = "model."
) -> dict[str, Weight]:
    """The weights of all layers: attention, feed-forward layers, their norms.

    Args:
        config: with attention biases, and the layers of each side.
        prefix: of their names.
    """
    return dict(_layer_weights(config, prefix))


def norm_weights(path: str, name: str) -> dict[str, Weight]:
    """The weights of a layer normalization.

    Args:
        path: of the layer here.
        name: of it there.
    """
    return dict(_norm(path, name))


def _layer_weights(
    config: TransformerConfig, prefix: str
) -> Iterator[tuple[str, Weight]]:
    sides = {
        "encoder": (config.num_encoder_layers, ("self_attention",)),
        "decoder": (config.num_decoder_layers, ("self_attention", "cross_attention")),
    }
    for side, (count, attentions) in sides.items():
        for index in range(count):
            ours, theirs = f"{side}_{index}", f"{prefix}{side}.layers.{index}"
            for attention in attentions:
                name = _ATTENTION[attention]
                for part, foreign in _PROJECTIONS.items():
                    yield from _linear(
                        f"{ours}/{attention}/{part}", f"{theirs}.{name}.{foreign}"
                    )
                yield from _norm(
                    f"{ours}/{attention}_residual/norm", f"{theirs}.{name}_layer_norm"
                )
            for part, foreign in _FEED_FORWARD.items():
                yield from _linear(f"{ours}/feed_forward/{part}", f"{theirs}.{foreign}")
            yield from _norm(
                f"{ours}/feed_forward_residual/norm", f"{theirs}.final_layer_norm"
            )


def _linear(path: str, name: str) -> Iterator[tuple[str, Weight]]:
    yield f"{path}_kernel", transposed(f"{name}.weight")
    yield f"{path}_bias", kept(f"{name}.bias")


def _norm(path: str, name: str) -> Iterator[tuple[str, Weight]]:
    yield f"{path}/gamma", kept(f"{name}.weight")
    yield f"{path}/beta", kept(f"{name}.bias")
