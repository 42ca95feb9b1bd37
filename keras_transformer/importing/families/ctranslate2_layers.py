"""Weights of a CTranslate2 model by their names there.

Matrices are (outputs, inputs); self-attention has query, key and value in one, the
attention to the source its keys and values.

D hidden_dim, H heads, G heads of keys and values, K head size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.importing.families.ctranslate2_vocabulary import NO_ROW
from keras_transformer.importing.families.ctranslate2_vocabulary import Vocabularies
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.foreign_model import kept
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File

TARGET_EMBEDDINGS = "decoder/embeddings/weight"
OUTPUT = "decoder/projection"
#: The logit bias of what no search writes.
_NEVER = -30.0
#: Stored numbers may be of 16 bits.
CLOSE = 1e-3


def source_embeddings(file: CTranslate2File) -> str:
    """The name of the matrix of the source's embeddings."""
    names = ("encoder/embeddings_0/weight", "encoder/embeddings/weight")
    return next((name for name in names if name in file.tensors), names[0])


def matrices(file: CTranslate2File) -> tuple[str, str, str]:
    """The names of the matrices of source, target and output."""
    return source_embeddings(file), TARGET_EMBEDDINGS, f"{OUTPUT}/weight"


def attention_weights(
    config: TransformerConfig, file: CTranslate2File
) -> Iterator[tuple[str, Weight]]:
    """`(path, weight)` of all layers, and of the norms beside them."""
    for stack, count, side in (
        ("encoder", config.num_encoder_layers, "source"),
        ("decoder", config.num_decoder_layers, "target"),
    ):
        for index in range(count):
            ours, theirs = f"{stack}_{index}", f"{stack}/layer_{index}"
            yield from _attention(config, file, stack, ours, theirs)
            yield from _feed_forward(config, file, ours, f"{theirs}/ffn")
        if config.final_norm:
            yield from _norm(config, f"{stack}_norm", f"{stack}/layer_norm")
        if config.embedding_norm:
            name = f"{stack}/layernorm_embedding"
            yield from _norm(config, f"{side}_embedding_norm", name)


def _attention(
    config: TransformerConfig,
    file: CTranslate2File,
    stack: str,
    ours: str,
    theirs: str,
) -> Iterator[tuple[str, Weight]]:
    sizes = config.sizes(stack)
    queries = sizes.num_heads * sizes.head_dim
    keys = sizes.num_key_value_heads * sizes.head_dim
    ends = (queries, queries + keys, queries + 2 * keys)
    parts = dict(
        zip(("query", "key", "value"), zip((0, *ends), ends, strict=False), strict=True)
    )
    for attention, foreign in (
        ("self_attention", "self_attention"),
        ("cross_attention", "attention"),
    )[: 1 + (stack == "decoder")]:
        name = f"{theirs}/{foreign}"
        factor = query_factor(config, stack, file.number(f"{name}/queries_scale"))
        for part, (start, stop) in parts.items():
            linear = f"{name}/linear_0"
            if attention == "cross_attention" and part != "query":
                linear = f"{name}/linear_1"
                start, stop = start - queries, stop - queries
            yield from _linear(
                f"{ours}/{attention}/{part}",
                linear,
                file,
                config.use_bias,
                slice(start, stop),
                factor if part == "query" else 1.0,
            )
        last = "linear_1" if attention == "self_attention" else "linear_2"
        yield from _linear(
            f"{ours}/{attention}/output", f"{name}/{last}", file, config.use_bias
        )
        path = f"{ours}/{attention}_residual/norm"
        yield from _norm(config, path, f"{name}/layer_norm")


def query_factor(config: TransformerConfig, stack: str, scale: float | None) -> float:
    """What queries are multiplied with beside the scale of the config.

    Args:
        config: of the model.
        stack: `"encoder"` or `"decoder"`.
        scale: of the file; None for 1 / √K.
    """
    root = config.sizes(stack).head_dim ** 0.5
    factor = 1.0 if scale is None else scale * root
    if config.attention_scoring == "dot_product":
        factor /= root
    return 1.0 if math.isclose(factor, 1.0, rel_tol=CLOSE) else factor


def _feed_forward(
    config: TransformerConfig, file: CTranslate2File, ours: str, theirs: str
) -> Iterator[tuple[str, Weight]]:
    parts = {"inner": "linear_0", "outer": "linear_1"}
    if config.feed_forward == "gated":  # its first projection is the gate
        parts = {"gate": "linear_0", "inner": "linear_0_noact", "outer": "linear_1"}
    for part, name in parts.items():
        yield from _linear(
            f"{ours}/feed_forward/{part}",
            f"{theirs}/{name}",
            file,
            config.feed_forward_bias,
        )
    path = f"{ours}/feed_forward_residual/norm"
    yield from _norm(config, path, f"{theirs}/layer_norm")


def _linear(
    path: str,
    name: str,
    file: CTranslate2File,
    has_bias: bool,
    rows: slice = slice(None),
    factor: float = 1.0,
) -> Iterator[tuple[str, Weight]]:
    def part(values: np.ndarray) -> np.ndarray:
        return values[rows] if factor == 1 else values[rows] * np.float32(factor)

    def kernel(values: np.ndarray) -> np.ndarray:
        return np.transpose(part(values))

    weight, bias = f"{name}/weight", f"{name}/bias"
    yield f"{path}_kernel", Weight((weight,), kernel)
    if not has_bias:
        return
    if bias not in file.tensors and weight in file.tensors:  # of some layers alone
        size = len(range(*rows.indices(file.tensors[weight].shape[0])))
        yield f"{path}_bias", Weight((), functools.partial(np.zeros, size, np.float32))
    else:
        yield f"{path}_bias", Weight((bias,), part)


def _norm(
    config: TransformerConfig, path: str, name: str
) -> Iterator[tuple[str, Weight]]:
    if config.normalization_layer == "rms":
        yield f"{path}/scale", kept(f"{name}/gamma")
    else:
        yield f"{path}/gamma", kept(f"{name}/gamma")
        yield f"{path}/beta", kept(f"{name}/beta")


# === Embeddings ===


def tied(file: CTranslate2File, vocabularies: Vocabularies) -> str:
    """Which matrices are one, as `TransformerConfig.tie_embeddings` has it."""
    source, target, output = matrices(file)
    if not {source, target, output} <= file.tensors.keys():
        return "none"  # what is missing is said later
    if vocabularies.shared and file.is_one(source, target, output):
        return "all"
    if file.is_one(target, output):
        return "target"
    if vocabularies.shared and file.is_one(source, target):
        return "inputs"
    return "none"


def embedding_weights(
    config: TransformerConfig, file: CTranslate2File, vocabularies: Vocabularies
) -> Iterator[tuple[str, Weight]]:
    """The matrices in the order of the vocabularies, and the bias of the logits."""
    source = source_embeddings(file), vocabularies.source.rows
    target = TARGET_EMBEDDINGS, vocabularies.target.rows
    output = f"{OUTPUT}/weight", vocabularies.target.rows
    placed = {
        "all": {"embedding": target},
        "target": {"source_embedding": source, "target_embedding": target},
        "inputs": {"input_embedding": target, "output_embedding": output},
        "none": {
            "source_embedding": source,
            "target_embedding": target,
            "output_embedding": output,
        },
    }[config.tie_embeddings]
    for path, (name, rows) in placed.items():
        make = functools.partial(_in_order, rows, 0.0)
        yield f"{path}/embeddings", Weight((name,), make)
    if config.output_bias:
        bias, rows = f"{OUTPUT}/bias", vocabularies.target.rows
        make = functools.partial(_in_order, rows, _NEVER)
        if bias in file.tensors:
            weight = Weight((bias,), make)
        else:
            zeros = np.zeros(len(rows), np.float32)
            weight = Weight((), functools.partial(make, zeros))
        yield f"{list(placed)[-1]}/bias", weight


def _in_order(rows: Sequence[int], other: float, values: np.ndarray) -> np.ndarray:
    """The rows of a matrix or vector, `other` where there is none of a number."""
    if list(rows) == list(range(values.shape[0])):
        return values
    taken = values[[max(row, 0) for row in rows]]
    taken[[row == NO_ROW for row in rows]] = other
    return taken
