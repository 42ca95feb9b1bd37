"""Every public layer under Keras' own test harness.

What it skips stands beside the cases with the reason. The rules of KerasHub's harness
are part of `layer_contract.py`.
"""

import inspect

import pytest
from keras.src.testing import TestCase  # private: docs/private_interfaces.md

from keras_transformer import layers
from reference.marks import all_on_one_backend

HIDDEN = (3, 5, 8)
MEMORY = (3, 7, 8)
BLOCK = {"intermediate_dim": 11, "num_heads": 2, "dropout": 0.1}
#: The layers that are called, with what the harness must know: arguments, shapes of
#: the inputs by call argument, output shape, numbers of weights and of seeds.
CASES = {
    "MultiHeadAttention": {
        "arguments": {"num_heads": 2, "head_dim": 3, "use_bias": True, "dropout": 0.1},
        "shapes": {"query": HIDDEN, "value": MEMORY},
        "output": HIDDEN,
        "weights": 8,
        "seeds": 1,
        "masking": True,
    },
    "EncoderBlock": {
        "arguments": BLOCK,
        "shapes": {"source": HIDDEN},
        "output": HIDDEN,
        "weights": 4 + 4 + 4,
        "seeds": 2,
        "masking": True,
    },
    "DecoderBlock": {
        "arguments": {**BLOCK, "normalize_first": True},
        "shapes": {"target": HIDDEN, "memory": MEMORY},
        "output": HIDDEN,
        "weights": 8 + 4 + 6,
        "seeds": 3,
        "masking": True,
    },
    "FeedForward": {
        "arguments": {"intermediate_dim": 11, "gated": True, "dropout": 0.1},
        "shapes": {"inputs": HIDDEN},
        "output": HIDDEN,
        "weights": 6,
        "seeds": 1,
        "masking": True,
    },
    "Residual": {
        "arguments": {"dropout": 0.1},
        "shapes": {"stream": HIDDEN, "update": HIDDEN},
        "output": HIDDEN,
        "weights": 2,
        "seeds": 1,
        "masking": True,
    },
    "GatedConvolution": {
        "arguments": {"kernel_size": 3, "dilation": 2},
        "shapes": {"inputs": HIDDEN},
        "output": HIDDEN,
        "weights": 2,
        "masking": True,
    },
    "SSRU": {
        "arguments": {"initial_gain": 0.5},
        "shapes": {"inputs": HIDDEN},
        "output": HIDDEN,
        "weights": 3,
        "masking": True,
    },
    "ConvolutionalGatedRecurrentUnit": {
        "arguments": {"kernel_size": 3},
        "shapes": {"inputs": (3, 5, 2, 8)},
        "output": (3, 5, 2, 8),
        "weights": 4,
        "masking": True,
    },
    "SentenceEmbedding": {
        "arguments": {"vocabulary_size": 17, "hidden_dim": 8, "max_sentences": 5},
        "shapes": {"inputs": (3, 5, 7)},
        "dtype": "int32",
        "output": HIDDEN,
        "weights": 2,
        "masking": True,
    },
    "MemoryHop": {
        "arguments": {"linear": True},
        "shapes": {"query": (3, 8), "key": HIDDEN, "value": HIDDEN},
        "output": (3, 8),
        "masking": True,
    },
    "SinusoidalPositionalEncoding": {
        "arguments": {"layout": "halves"},
        "shapes": {"inputs": HIDDEN},
        "output": HIDDEN,
        "masking": True,
    },
    "LearnedPositionalEmbedding": {
        "arguments": {"max_sequence_length": 13},
        "shapes": {"inputs": HIDDEN},
        "output": HIDDEN,
        "weights": 1,
        "masking": True,
    },
    "TokenEmbedding": {
        "arguments": {"vocabulary_size": 17, "hidden_dim": 8},
        "shapes": {"inputs": HIDDEN[:2]},
        "dtype": "int32",
        "output": HIDDEN,
        "weights": 1,
        "masking": True,
    },
    "AttentionBias": {
        "arguments": {"pad_id": 0, "causal": True},
        "shapes": {"ids": HIDDEN[:2]},
        "dtype": "int32",
        "output": (3, 1, 5, 5),
        "masking": False,
    },
}
#: Those that are built of the most backend code; the harness compiles each.
ON_ALL = {"MultiHeadAttention", "FeedForward", "TokenEmbedding"}
#: What Keras' harness does not do with a layer, and why.
SKIPPED_BY_KERAS = {
    "MultiHeadAttention": "its training step hands several inputs over as one",
    "DecoderBlock": "its training step hands several inputs over as one",
    "Residual": "its training step hands several inputs over as one",
    "MemoryHop": "its training step hands several inputs over as one",
    "SinusoidalPositionalEncoding": "its training step has nothing to train",
    "AttentionBias": "its training step has nothing to train",
}
#: Layers without a call of their own: attention calls their methods.
PARTS_OF_ATTENTION = {
    "RelativePositionalEncoding": {},
    "RelativeBuckets": {"num_heads": 2, "num_buckets": 8},
    "RotaryPositionalEncoding": {"layout": "halves"},
}


def test_no_public_layer_is_left_out():
    public = {name for name in layers.__all__ if inspect.isclass(getattr(layers, name))}
    assert public == set(CASES) | set(PARTS_OF_ATTENTION)
    assert set(SKIPPED_BY_KERAS) <= set(CASES)


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")  # by the harness
@pytest.mark.parametrize("name", all_on_one_backend(CASES, but=ON_ALL))
def test_layer_passes_the_harness_of_keras(name):
    """Serialization, build, symbolic and eager call, a step of `fit`, float16."""
    case = CASES[name]
    shapes = {f"{key}_shape": shape for key, shape in case["shapes"].items()}
    dtypes = dict.fromkeys(shapes, case.get("dtype", "float32"))
    if len(shapes) == 1:
        (shapes,), (dtypes,) = shapes.values(), dtypes.values()
    harness = TestCase()
    harness.setUp()
    harness.run_layer_test(
        getattr(layers, name),
        init_kwargs=dict(case["arguments"]),
        input_shape=shapes,
        input_dtype=dtypes,
        expected_output_shape=case["output"],
        expected_num_trainable_weights=case.get("weights", 0),
        expected_num_non_trainable_weights=0,
        expected_num_non_trainable_variables=case.get("seeds", 0),
        expected_num_seed_generators=case.get("seeds", 0),
        expected_num_losses=0,
        supports_masking=case["masking"],
        run_training_check=name not in SKIPPED_BY_KERAS,
    )


@pytest.mark.one_backend
@pytest.mark.parametrize("name", PARTS_OF_ATTENTION)
def test_part_of_attention_passes_the_harness_of_keras(name):
    part = getattr(layers, name)(**PARTS_OF_ATTENTION[name])
    TestCase().run_class_serialization_test(
        part, custom_objects={"RelativePositionalEncoding": type(part)}
    )
