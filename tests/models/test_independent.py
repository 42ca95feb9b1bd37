"""The same weights in implementations of other people give the same output."""

import contextlib
import importlib.util
import warnings

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers import masks
from keras_transformer.models import Transformer
from reference import configs
from reference import numpy_transformer
from reference import sizes
from reference.models import logits_of
from reference.numpy_layers import below
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read
from reference.weights import sources
from reference.weights import targets

pytestmark = pytest.mark.one_backend
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TARGET_SHAPE = (sizes.BATCH, sizes.TARGET_LENGTH, sizes.HIDDEN_DIM)
SOURCE_SHAPE = (sizes.BATCH, sizes.SOURCE_LENGTH, sizes.HIDDEN_DIM)


def torch_attention(weights):
    """The state of `torch.nn.MultiheadAttention`, whose matrices act from the left."""
    inputs = ("query", "key", "value")
    return {
        "in_proj_weight": np.concatenate([weights[f"{n}_kernel"].T for n in inputs]),
        "in_proj_bias": np.concatenate([weights[f"{n}_bias"] for n in inputs]),
        "out_proj.weight": weights["output_kernel"].T,
        "out_proj.bias": weights["output_bias"],
    }


def torch_norm(weights):
    return {"weight": weights["gamma"], "bias": weights["beta"]}


def torch_state(config, weights):
    """{name of a parameter of `torch.nn.Transformer`: array}."""
    parts = {}
    for side, count in (
        ("encoder", config.num_encoder_layers),
        ("decoder", config.num_decoder_layers),
    ):
        parts[f"{side}.norm"] = torch_norm(below(weights, f"{side}_norm"))
        for index in range(count):
            block, name = below(weights, f"{side}_{index}"), f"{side}.layers.{index}"
            sublayers = {"self_attention": "self_attn"}
            if side == "decoder":
                sublayers["cross_attention"] = "multihead_attn"
            for ours, theirs in sublayers.items():
                parts[f"{name}.{theirs}"] = torch_attention(below(block, ours))
            for number, ours in enumerate((*sublayers, "feed_forward"), start=1):
                norm = below(block, f"{ours}_residual/norm")
                parts[f"{name}.norm{number}"] = torch_norm(norm)
            inner = below(block, "feed_forward")
            for number, part in enumerate(("inner", "outer"), start=1):
                parts[f"{name}.linear{number}"] = {
                    "weight": inner[f"{part}_kernel"].T,
                    "bias": inner[f"{part}_bias"],
                }
    return {
        f"{name}.{key}": value
        for name, part in parts.items()
        for key, value in part.items()
    }


@pytest.mark.parametrize("normalize_first", [False, True])
def test_torch_transformer(normalize_first):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    import torch

    config = configs.config(
        "paper",
        normalize_first=normalize_first,
        final_norm=True,  # torch normalizes at the end of both stacks, always
        use_bias=True,
        num_encoder_layers=3,
    )
    model = randomize(Transformer(config))
    weights = read(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are not used in pre-norm
        other = torch.nn.Transformer(
            d_model=config.hidden_dim,
            nhead=config.num_heads,
            num_encoder_layers=config.num_encoder_layers,
            num_decoder_layers=config.num_decoder_layers,
            dim_feedforward=config.intermediate_dim,
            dropout=0.0,
            layer_norm_eps=config.layer_norm_epsilon,
            batch_first=True,
            norm_first=normalize_first,
            device="cpu",
            dtype=torch.float64,
        )
    state = torch_state(config, weights)
    other.load_state_dict({n: torch.from_numpy(v.copy()) for n, v in state.items()})

    def embedded(ids, side):
        rows = [numpy_transformer.embed(config, weights, row, side) for row in ids]
        return torch.from_numpy(np.stack(rows))

    padding = torch.from_numpy(sources() == 0)
    later = ~np.tri(sizes.TARGET_LENGTH, dtype=bool)
    with torch.device("cpu"):
        hidden = other(
            embedded(sources(), "source"),
            embedded(targets(), "target"),
            tgt_mask=torch.from_numpy(later),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
    expected = hidden.detach().numpy() @ weights["embedding/embeddings"].T
    found = logits_of(model, sources(), targets())
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.fixture(scope="module")
def keras_nlp():
    if importlib.util.find_spec("keras_nlp") is None:
        pytest.skip("needs keras-nlp")
    with warnings.catch_warnings(), contextlib.suppress(ImportError):
        warnings.simplefilter("ignore")
        import keras_nlp

        return keras_nlp
    pytest.skip("needs a keras-nlp that can be imported")


def keras_nlp_weights(block, names, hidden_dim, num_heads):
    """Our weights in the order and the shapes of a block of keras_nlp.

    Call arguments:
        names: ours of what it holds: attentions, then norm and dense layers.
    """
    weights = read(block)
    values = []
    for name in names:
        part = below(weights, name)
        if "gamma" in part:
            values += [part["gamma"], part["beta"]]
        elif "query_kernel" in part:
            head = (num_heads, hidden_dim // num_heads)
            for side in ("query", "key", "value"):
                values.append(part[f"{side}_kernel"].reshape(hidden_dim, *head))
                values.append(part[f"{side}_bias"].reshape(head))
            values.append(part["output_kernel"].reshape(*head, hidden_dim))
            values.append(part["output_bias"])
        else:
            values += [part[f"{side}_{kind}"] for side, kind in FEED_FORWARD]
    return values


FEED_FORWARD = [
    ("inner", "kernel"),
    ("inner", "bias"),
    ("outer", "kernel"),
    ("outer", "bias"),
]


def ours(layer_class, normalize_first):
    return layer_class(
        sizes.INTERMEDIATE_DIM,
        sizes.NUM_HEADS,
        activation="gelu",
        normalize_first=normalize_first,
        use_bias=True,
    )


def theirs(layer_class, normalize_first):
    return layer_class(
        sizes.INTERMEDIATE_DIM,
        sizes.NUM_HEADS,
        activation="gelu",
        layer_norm_epsilon=1e-6,
        normalize_first=normalize_first,
    )


@pytest.mark.parametrize("normalize_first", [False, True])
def test_keras_nlp_encoder(keras_nlp, normalize_first):
    block = ours(EncoderBlock, normalize_first)
    block.build(SOURCE_SHAPE)
    randomize(block)
    other = theirs(keras_nlp.layers.TransformerEncoder, normalize_first)
    other.build(SOURCE_SHAPE)
    names = [
        "self_attention",
        "self_attention_residual/norm",
        "feed_forward_residual/norm",
        "feed_forward",
    ]
    other.set_weights(
        keras_nlp_weights(block, names, sizes.HIDDEN_DIM, sizes.NUM_HEADS)
    )
    source = ops.convert_to_tensor(normal(*SOURCE_SHAPE))
    tokens = sources() != 0
    expected = other(source, padding_mask=ops.convert_to_tensor(tokens))
    mask = ops.convert_to_tensor(tokens[:, None, None])
    found = block(source, attention_mask=mask)
    np.testing.assert_allclose(numpy(found)[tokens], numpy(expected)[tokens], **CLOSE)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_keras_nlp_decoder(keras_nlp, normalize_first):
    block = ours(DecoderBlock, normalize_first)
    block.build(TARGET_SHAPE, SOURCE_SHAPE)
    randomize(block)
    other = theirs(keras_nlp.layers.TransformerDecoder, normalize_first)
    other.build(TARGET_SHAPE, SOURCE_SHAPE)
    names = [
        "self_attention",
        "self_attention_residual/norm",
        "cross_attention",
        "cross_attention_residual/norm",
        "feed_forward",
        "feed_forward_residual/norm",
    ]
    other.set_weights(
        keras_nlp_weights(block, names, sizes.HIDDEN_DIM, sizes.NUM_HEADS)
    )
    target = ops.convert_to_tensor(normal(*TARGET_SHAPE, seed=1))
    memory = ops.convert_to_tensor(normal(*SOURCE_SHAPE, seed=2))
    tokens = sources() != 0
    expected = other(target, memory, encoder_padding_mask=ops.convert_to_tensor(tokens))
    found = block(
        target,
        memory,
        attention_mask=masks.causal_mask(sizes.TARGET_LENGTH),
        cross_attention_mask=ops.convert_to_tensor(tokens[:, None, None]),
    )
    np.testing.assert_allclose(numpy(found), numpy(expected), **CLOSE)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
