"""Every layer of the package against the one harness."""

import inspect

import keras
import layer_contract
import numpy as np
import pytest

from keras_transformer import layers
from reference import sizes
from reference.marks import all_on_one_backend
from reference.sizes import BATCH
from reference.sizes import HEAD_DIM
from reference.sizes import HIDDEN_DIM
from reference.sizes import INTERMEDIATE_DIM
from reference.sizes import NUM_HEADS
from reference.sizes import SOURCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.sizes import VALUE_DIM
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import sources
from reference.weights import stories
from reference.weights import targets

TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=1)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=2)
TAPE = normal(BATCH, TARGET_LENGTH, NUM_HEADS, HIDDEN_DIM, seed=3)
STORY = stories()  # (B, S, T)
SOURCE_MASK = sources()[:, None, None, :] != 0  # (B, 1, 1, S)
TARGET_MASK = targets()[:, None, None, :] != 0  # (B, 1, 1, T)
CAUSAL_MASK = np.tile(np.tri(TARGET_LENGTH, dtype=bool), (BATCH, 1, 1, 1))
BLOCK = {
    "intermediate_dim": INTERMEDIATE_DIM,
    "num_heads": NUM_HEADS,
    "head_dim": HEAD_DIM,
    "value_dim": VALUE_DIM,
    "use_bias": True,
}
KEYS, VALUES = NUM_HEADS * HEAD_DIM, NUM_HEADS * VALUE_DIM
NORM = {"norm/gamma": (HIDDEN_DIM,), "norm/beta": (HIDDEN_DIM,)}
FEED_FORWARD = {
    "inner_kernel": (HIDDEN_DIM, INTERMEDIATE_DIM),
    "inner_bias": (INTERMEDIATE_DIM,),
    "outer_kernel": (INTERMEDIATE_DIM, HIDDEN_DIM),
    "outer_bias": (HIDDEN_DIM,),
}

GATES = {
    "convolution/kernel": (3, HIDDEN_DIM, 2 * HIDDEN_DIM),
    "convolution/bias": (2 * HIDDEN_DIM,),
}


def attention_weights(output_dim=HIDDEN_DIM, use_bias=True):
    kernels = {
        "query_kernel": (HIDDEN_DIM, KEYS),
        "key_kernel": (HIDDEN_DIM, KEYS),
        "value_kernel": (HIDDEN_DIM, VALUES),
        "output_kernel": (VALUES, output_dim),
    }
    biases = {
        name.replace("kernel", "bias"): shape[1:] for name, shape in kernels.items()
    }
    return {**kernels, **(biases if use_bias else {})}


def within(name, weights):
    return {f"{name}/{path}": shape for path, shape in weights.items()}


def sublayer(name, weights):
    return {**within(name, weights), **within(f"{name}_residual", NORM)}


CASES = {
    "attention bias": {
        "layer_class": layers.AttentionBias,
        "arguments": {"pad_id": 0, "causal": True, "window": 2},
        "inputs": {"ids": targets()},
        "output_dtype": "float32",
    },
    "padding bias": {
        "layer_class": layers.AttentionBias,
        "arguments": {"pad_id": 0},
        "inputs": {"ids": sources()},
        "output_dtype": "float32",
    },
    "feed forward": {
        "layer_class": layers.FeedForward,
        "arguments": {"intermediate_dim": INTERMEDIATE_DIM, "activation": "gelu"},
        "inputs": {"inputs": TARGET},
        "weights": FEED_FORWARD,
    },
    "gated convolution": {
        "layer_class": layers.GatedConvolution,
        "arguments": {"kernel_size": 3, "dilation": 2},
        "inputs": {"inputs": TARGET, "padding_mask": TARGET_MASK},
        "weights": GATES,
    },
    "causal convolution": {
        "layer_class": layers.GatedConvolution,
        "arguments": {"kernel_size": 4, "causal": True},
        "inputs": {"inputs": TARGET},
        "weights": {
            **GATES,
            "convolution/kernel": (4, HIDDEN_DIM, 2 * HIDDEN_DIM),
        },
    },
    "convolutional gated recurrent unit": {
        "layer_class": layers.ConvolutionalGatedRecurrentUnit,
        "arguments": {"kernel_size": 3},
        "inputs": {"inputs": TAPE, "tape": TAPE[::-1].copy()},
        "weights": {
            "gates_kernel": (3, 3, HIDDEN_DIM, 2 * HIDDEN_DIM),
            "gates_bias": (2 * HIDDEN_DIM,),
            "candidate_kernel": (3, 3, HIDDEN_DIM, HIDDEN_DIM),
            "candidate_bias": (HIDDEN_DIM,),
            "tape_kernel": (3, 3, HIDDEN_DIM, 3 * HIDDEN_DIM),
        },
    },
    "sentence embedding": {
        "layer_class": layers.SentenceEmbedding,
        "arguments": {
            "vocabulary_size": VOCABULARY_SIZE,
            "hidden_dim": HIDDEN_DIM,
            "max_sentences": SOURCE_LENGTH,
        },
        "inputs": {"inputs": STORY},
        "weights": {
            "ages": (SOURCE_LENGTH, HIDDEN_DIM),
            "words/embeddings": (VOCABULARY_SIZE, HIDDEN_DIM),
        },
    },
    "memory hop": {
        "layer_class": layers.MemoryHop,
        "arguments": {},
        "inputs": {
            "query": SOURCE[:, 0],
            "key": SOURCE,
            "value": SOURCE[::-1].copy(),
            "key_mask": SOURCE_MASK[:, 0, 0],
        },
    },
    "linear memory hop": {
        "layer_class": layers.MemoryHop,
        "arguments": {"linear": True},
        "inputs": {"query": SOURCE[:, 0], "key": SOURCE, "value": SOURCE},
    },
    "ssru": {
        "layer_class": layers.SSRU,
        "arguments": {},
        "inputs": {"inputs": TARGET},
        "weights": {
            "input_kernel": (HIDDEN_DIM, HIDDEN_DIM),
            "forget_kernel": (HIDDEN_DIM, HIDDEN_DIM),
            "forget_bias": (HIDDEN_DIM,),
        },
    },
    "self-attention": {
        "layer_class": layers.MultiHeadAttention,
        "arguments": {"num_heads": NUM_HEADS, "head_dim": HEAD_DIM},
        "inputs": {"query": TARGET, "attention_mask": CAUSAL_MASK},
        "weights": {
            name: (HIDDEN_DIM, KEYS) if name != "output_kernel" else (KEYS, HIDDEN_DIM)
            for name in attention_weights(use_bias=False)
        },
    },
    "cross-attention": {
        "layer_class": layers.MultiHeadAttention,
        "arguments": {
            "num_heads": NUM_HEADS,
            "head_dim": HEAD_DIM,
            "value_dim": VALUE_DIM,
            "output_dim": 31,
            "use_bias": True,
        },
        "inputs": {"query": TARGET, "value": SOURCE, "attention_mask": SOURCE_MASK},
        "weights": attention_weights(output_dim=31),
        "no_gradient": ("key_bias",),
    },
    "additive attention": {
        "layer_class": layers.MultiHeadAttention,
        "arguments": {
            "num_heads": NUM_HEADS,
            "head_dim": HEAD_DIM,
            "value_dim": VALUE_DIM,
            "scoring": "additive",
        },
        "inputs": {"query": TARGET, "value": SOURCE},
        "weights": {
            **attention_weights(use_bias=False),
            "score_weights": (NUM_HEADS, 1, 1, HEAD_DIM),
        },
    },
    "grouped attention": {
        "layer_class": layers.MultiHeadAttention,
        "arguments": {
            "num_heads": 2 * NUM_HEADS,
            "head_dim": HEAD_DIM,
            "num_key_value_heads": NUM_HEADS,
            "query_key_norm": "rms",
            "initial_gain": 0.5,
            "positional_encoding": keras.saving.serialize_keras_object(
                layers.RelativeBuckets(2 * NUM_HEADS, 8, 20, name="relative_buckets")
            ),
        },
        "inputs": {"query": TARGET, "attention_mask": CAUSAL_MASK},
        "weights": {
            "query_kernel": (HIDDEN_DIM, 2 * KEYS),
            "key_kernel": (HIDDEN_DIM, KEYS),
            "value_kernel": (HIDDEN_DIM, KEYS),
            "output_kernel": (2 * KEYS, HIDDEN_DIM),
            "query_norm/scale": (HEAD_DIM,),
            "key_norm/scale": (HEAD_DIM,),
            "relative_buckets/embeddings": (8, 2 * NUM_HEADS),
        },
    },
    "rotary attention": {
        "layer_class": layers.MultiHeadAttention,
        "arguments": {
            "num_heads": NUM_HEADS,
            "head_dim": 2 * HEAD_DIM,
            "positional_encoding": keras.saving.serialize_keras_object(
                layers.RotaryPositionalEncoding("halves", 500.0)
            ),
        },
        "inputs": {"query": TARGET, "attention_mask": CAUSAL_MASK},
        "weights": {
            name: (HIDDEN_DIM, 2 * KEYS)
            if name != "output_kernel"
            else (2 * KEYS, HIDDEN_DIM)
            for name in attention_weights(use_bias=False)
        },
    },
    "gated feed forward": {
        "layer_class": layers.FeedForward,
        "arguments": {
            "intermediate_dim": INTERMEDIATE_DIM,
            "activation": "gelu_tanh",
            "gated": True,
            "use_bias": False,
            "initial_gain": 0.5,
        },
        "inputs": {"inputs": TARGET},
        "weights": {
            "inner_kernel": (HIDDEN_DIM, INTERMEDIATE_DIM),
            "gate_kernel": (HIDDEN_DIM, INTERMEDIATE_DIM),
            "outer_kernel": (INTERMEDIATE_DIM, HIDDEN_DIM),
        },
    },
    "scaled residual": {
        "layer_class": layers.Residual,
        "arguments": {"normalization": "rms", "stream_scale": 2.0},
        "inputs": {"stream": TARGET, "update": TARGET[::-1].copy()},
        "weights": {"norm/scale": (HIDDEN_DIM,)},
    },
    "sinusoids": {
        "layer_class": layers.SinusoidalPositionalEncoding,
        "arguments": {"layout": "halves", "offset": 2},
        "inputs": {"inputs": TARGET},
    },
    "learned positions": {
        "layer_class": layers.LearnedPositionalEmbedding,
        "arguments": {"max_sequence_length": sizes.MAX_SEQUENCE_LENGTH, "offset": 2},
        "inputs": {"inputs": TARGET},
        "weights": {"embeddings": (sizes.MAX_SEQUENCE_LENGTH, HIDDEN_DIM)},
    },
    "embedding": {
        "layer_class": layers.TokenEmbedding,
        "arguments": {"vocabulary_size": VOCABULARY_SIZE, "hidden_dim": HIDDEN_DIM},
        "inputs": {"inputs": targets()},
        "weights": {"embeddings": (VOCABULARY_SIZE, HIDDEN_DIM)},
    },
    "logits": {
        "layer_class": layers.TokenEmbedding,
        "arguments": {
            "vocabulary_size": VOCABULARY_SIZE,
            "hidden_dim": HIDDEN_DIM,
            "use_bias": True,
        },
        "inputs": {"inputs": TARGET},
        "options": {"reverse": True},
        "weights": {
            "embeddings": (VOCABULARY_SIZE, HIDDEN_DIM),
            "bias": (VOCABULARY_SIZE,),
        },
        "output_dtype": "float32",
    },
    "residual": {
        "layer_class": layers.Residual,
        "arguments": {"epsilon": 1e-5},
        "inputs": {"stream": TARGET, "update": TARGET[::-1].copy()},
        "weights": NORM,
    },
    "encoder block": {
        "layer_class": layers.EncoderBlock,
        "arguments": BLOCK,
        "inputs": {"source": SOURCE, "attention_mask": SOURCE_MASK},
        "weights": {
            **sublayer("self_attention", attention_weights()),
            **sublayer("feed_forward", FEED_FORWARD),
        },
        "no_gradient": ("self_attention/key_bias",),
    },
    "decoder block": {
        "layer_class": layers.DecoderBlock,
        "arguments": {**BLOCK, "normalize_first": True, "activation": "swish"},
        "inputs": {
            "target": TARGET,
            "memory": SOURCE,
            "attention_mask": CAUSAL_MASK,
            "cross_attention_mask": SOURCE_MASK,
        },
        "weights": {
            **sublayer("self_attention", attention_weights()),
            **sublayer("cross_attention", attention_weights()),
            **sublayer("feed_forward", FEED_FORWARD),
        },
        "no_gradient": ("self_attention/key_bias", "cross_attention/key_bias"),
    },
}


#: Those whose shapes or masks each backend makes in its own way.
ON_ALL = ("attention bias", "causal convolution", "decoder block")
ON_ALL += ("sentence embedding", "memory hop")


@pytest.mark.parametrize("name", all_on_one_backend(CASES, but=ON_ALL))
def test_layer_keeps_its_contract(name, tmp_path):
    layer_contract.check(**CASES[name], folder=tmp_path)


@pytest.mark.one_backend
def test_no_layer_is_left_out():
    public = [getattr(layers, name) for name in layers.__all__]
    classes = {value for value in public if inspect.isclass(value)}
    # Those have no call; the cases of attention contain them.
    classes -= {c for c in classes if issubclass(c, layers.RelativePositionalEncoding)}
    assert classes == {case["layer_class"] for case in CASES.values()}
    assert all(issubclass(layer_class, keras.layers.Layer) for layer_class in classes)


@pytest.mark.one_backend
def test_sizes_are_distinct_primes():
    values = [
        value
        for name, value in vars(sizes).items()
        if name.isupper() and isinstance(value, int) and name != "HIDDEN_DIM"
    ]
    assert len(set(values)) == len(values)
    assert all(value % divisor for value in values for divisor in range(2, value))
