"""Names of the weights of a Transformer in Marian's own files.

Matrices are (inputs, outputs) there as here; vectors have a leading axis of one.
"""

from __future__ import annotations

from collections.abc import Iterator

from keras_transformer.config import TransformerConfig
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import flattened
from keras_transformer.importing.foreign_model import kept

#: Ours -> the letter of theirs.
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def marian_layers(config: TransformerConfig) -> Iterator[tuple[str, Weight]]:
    """`(path, weight)` of all layers, and of the norms beside them."""
    for side, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        for index in range(count):
            ours, theirs = f"{side}_{index}", f"{side}_l{index + 1}"
            yield from _layer(config, side, ours, theirs)
        if config.final_norm:
            yield from _norm(f"{side}_norm", f"{side}_top", "")
        if config.embedding_norm:
            name = "source" if side == "encoder" else "target"
            yield from _norm(f"{name}_embedding_norm", f"{side}_emb", "_pre")


def _layer(
    config: TransformerConfig, side: str, ours: str, theirs: str
) -> Iterator[tuple[str, Weight]]:
    place = "_pre" if config.normalize_first else ""
    if side == "decoder" and config.decoder == "ssru":
        path, name = f"{ours}/ssru", f"{theirs}_rnn"
        yield f"{path}/input_kernel", kept(f"{name}_W")
        yield f"{path}/forget_kernel", kept(f"{name}_Wf")
        yield f"{path}/forget_bias", flattened(f"{name}_bf")
        yield from _norm(f"{path}_residual/norm", f"{name}_ffn", place)
    else:
        yield from _attention(f"{ours}/self_attention", f"{theirs}_self", place)
    if side == "decoder":
        yield from _attention(f"{ours}/cross_attention", f"{theirs}_context", place)
    path, name = f"{ours}/feed_forward", f"{theirs}_ffn"
    for part, number in (("inner", 1), ("outer", 2)):
        yield f"{path}/{part}_kernel", kept(f"{name}_W{number}")
        yield f"{path}/{part}_bias", flattened(f"{name}_b{number}")
    yield from _norm(f"{path}_residual/norm", f"{name}_ffn", place)


def _attention(path: str, name: str, place: str) -> Iterator[tuple[str, Weight]]:
    for part, letter in _PROJECTIONS.items():
        yield f"{path}/{part}_kernel", kept(f"{name}_W{letter}")
        yield f"{path}/{part}_bias", flattened(f"{name}_b{letter}")
    yield from _norm(f"{path}_residual/norm", f"{name}_Wo", place)


def _norm(path: str, name: str, place: str) -> Iterator[tuple[str, Weight]]:
    yield f"{path}/gamma", flattened(f"{name}_ln_scale{place}")
    yield f"{path}/beta", flattened(f"{name}_ln_bias{place}")
