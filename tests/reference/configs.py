"""Small models that between them use every option of the config of their kind."""

from keras_transformer.config import KINDS
from keras_transformer.config import TransformerConfig
from reference import sizes

SMALL = {
    "vocabulary_size": sizes.VOCABULARY_SIZE,
    "hidden_dim": sizes.HIDDEN_DIM,
    "intermediate_dim": sizes.INTERMEDIATE_DIM,
    "num_heads": sizes.NUM_HEADS,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "max_sequence_length": sizes.MAX_SEQUENCE_LENGTH,
}
HEADS = {"head_dim": sizes.HEAD_DIM, "value_dim": sizes.VALUE_DIM}

#: Parts that the paper does not have.
PARTS = {
    "as T5": {
        "position": "relative_buckets",
        "num_relative_buckets": 8,
        "max_relative_distance": 20,
        "normalization_layer": "rms",
        "normalize_first": True,
        "attention_scoring": "dot_product",
        "feed_forward_bias": False,
        "scale_embeddings": False,
        "scale_logits": True,
    },
    "rotary, grouped, gated": {
        "position": "rotary",
        "rotary_base": 500.0,
        "num_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "value_dim": 19,
        "query_key_norm": True,
        "normalization_layer": "rms",
        "normalize_first": True,
        "feed_forward": "gated",
        "feed_forward_bias": False,
        "activation": "swish",
        "tie_embeddings": "inputs",
    },
    "deep, additive, unlike sides": {
        "position": "rotary_halves",
        "deep_norm": True,
        "attention_scoring": "additive",
        "query_key_norm": True,
        "use_bias": True,
        "feed_forward": "gated",
        "activation": "gelu_tanh",
        "head_dim": 12,
        "decoder_num_heads": 4,
        "decoder_num_key_value_heads": 1,
        "decoder_head_dim": 14,
        "decoder_value_dim": 11,
        "decoder_intermediate_dim": 29,
    },
    "no positions": {
        "position": "none",
        "activation": "gelu_sigmoid",
        "tie_embeddings": "target",
        "source_vocabulary_size": 59,
    },
    "ssru": {
        "decoder": "ssru",
        "position": "sinusoidal_halves_t2t",
        "use_bias": True,
        "output_bias": True,
    },
    "ssru, pre-norm": {
        "decoder": "ssru",
        "position": "learned",
        "normalize_first": True,
        "normalization_layer": "rms",
        "decoder_num_heads": 1,
    },
}

#: Those that differ most, and what makes them cheap to compile.
_ALIKE = ("no positions", "ssru, pre-norm")
EXPORTED_PARTS = tuple(name for name in PARTS if name not in _ALIKE)
ONE_LAYER = {"num_encoder_layers": 1, "num_decoder_layers": 1}

OPTIONS = {
    "paper": {},
    "pre-norm": {
        **HEADS,
        "normalize_first": True,
        "activation": "gelu",
        "use_bias": True,
        "output_bias": True,
    },
    "pre-norm, nothing tied": {
        "normalize_first": True,
        "final_norm": False,
        "activation": "swish",
        "output_bias": True,
        "tie_embeddings": "none",
        "source_vocabulary_size": 59,
        "position": "sinusoidal_halves_t2t",
    },
    "post-norm, normalized ends": {
        **HEADS,
        "final_norm": True,
        "embedding_norm": True,
        "layer_norm_epsilon": 1e-3,
        "tie_embeddings": "target",
        "source_vocabulary_size": 59,
    },
    "halves": {
        "position": "sinusoidal_halves",
        "position_offset": 2,
        "scale_embeddings": False,
        "output_bias": True,
        "tie_embeddings": "target",
    },
    "window": {"attention_window": 2, "use_bias": True, "tie_embeddings": "none"},
    "learned, deep encoder": {
        **HEADS,
        "position": "learned",
        "position_offset": 2,
        "attention_window": 3,
        "num_encoder_layers": 3,
        "num_decoder_layers": 1,
    },
    "other special ids": {"pad_id": 1, "start_id": 2, "end_id": 0},
    **PARTS,
}


SMALL_OTHERS = {
    field: SMALL[field]
    for field in SMALL
    if field not in {"intermediate_dim", "num_heads"}
}

#: Name -> kind and options, of the models that the paper compares with.
OTHERS = {
    "recurrent": ("recurrent", {"num_encoder_layers": 1}),
    "recurrent, nothing tied": (
        "recurrent",
        {
            "attention_scoring": "scaled_dot_product",
            "tie_embeddings": "none",
            "source_vocabulary_size": 59,
            "output_bias": True,
            "layer_norm_epsilon": 1e-3,
        },
    ),
    "recurrent, no attention": ("recurrent", {"attention_scoring": "none"}),
    "convolutional": ("convolutional", {"num_encoder_layers": 1, "kernel_size": 5}),
    "convolutional, dilated": (
        "convolutional",
        {
            "attention_scoring": "dot_product",
            "max_dilation": 2,
            "tie_embeddings": "target",
            "source_vocabulary_size": 59,
            "scale_embeddings": False,
        },
    ),
    "convolutional, additive": (
        "convolutional",
        {"attention_scoring": "additive", "pad_id": 1, "start_id": 2, "end_id": 0},
    ),
}


def tiny(**fields):
    """A Transformer of one layer a side and 8 dimensions, for what no size changes."""
    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    return TransformerConfig(**{**sizes, **ONE_LAYER, **fields})


def config(name, **fields):
    """One of `OPTIONS` or `OTHERS`, with any field replaced."""
    if name in OTHERS:
        kind, options = OTHERS[name]
        return KINDS[kind](**{**SMALL_OTHERS, **options, **fields})
    return TransformerConfig(**{**SMALL, **OPTIONS[name], **fields})
