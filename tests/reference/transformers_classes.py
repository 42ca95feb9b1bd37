"""Configs for each model class of `transformers` that a model may become."""

SMALL = {
    "vocabulary_size": 61,
    "hidden_dim": 32,
    "intermediate_dim": 44,
    "num_heads": 4,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
    "max_sequence_length": 48,
    "dropout": 0.0,
}
_BIASES = {"use_bias": True, "output_bias": True}
_EXACT = {"layer_norm_epsilon": 1e-5}
_PRE_NORM = {"normalize_first": True, **_EXACT}
_FAIRSEQ = {"pad_id": 1, "start_id": 0, "end_id": 2, "position_offset": 2}
_T5 = {
    "position": "relative_buckets",
    "num_relative_buckets": 8,
    "max_relative_distance": 20,
    "normalization_layer": "rms",
    "normalize_first": True,
    "attention_scoring": "dot_product",
    "feed_forward_bias": False,
    "scale_embeddings": False,
    "head_dim": 6,
    "value_dim": 6,
}

#: What it shows -> the class, and the fields beside `SMALL`.
CONFIGS = {
    "paper": ("MarianMTModel", {}),
    "two vocabularies": (
        "MarianMTModel",
        {
            "position": "sinusoidal_halves",
            "tie_embeddings": "target",
            "source_vocabulary_size": 59,
            "decoder_num_heads": 2,
            "decoder_intermediate_dim": 24,
            "activation": "swish",
            **_BIASES,
        },
    ),
    "nothing tied": (
        "MarianMTModel",
        {"tie_embeddings": "none", "source_vocabulary_size": 59, "output_bias": True},
    ),
    "inputs tied": (
        "MarianMTModel",
        {"tie_embeddings": "inputs", "start_id": 0, "activation": "gelu_sigmoid"},
    ),
    "pre-norm": ("PegasusForConditionalGeneration", {**_PRE_NORM, **_BIASES}),
    "pre-norm, inputs tied": (
        "PegasusForConditionalGeneration",
        {**_PRE_NORM, "tie_embeddings": "inputs", "feed_forward_bias": False},
    ),
    "positions of marian-nmt": (
        "MarianMTModel",
        {"position": "sinusoidal_halves_t2t", **_EXACT, **_BIASES},
    ),
    "positions of marian-nmt, pre-norm": (
        "PegasusForConditionalGeneration",
        {"position": "sinusoidal_halves_t2t", **_PRE_NORM},
    ),
    "M2M100": (
        "M2M100ForConditionalGeneration",
        {
            **_PRE_NORM,
            **_FAIRSEQ,
            "position": "sinusoidal_halves_t2t",
            "use_bias": True,
        },
    ),
    "FSMT": (
        "FSMTForConditionalGeneration",
        {
            **_EXACT,
            **_FAIRSEQ,
            "position": "sinusoidal_halves_t2t",
            "tie_embeddings": "target",
            "source_vocabulary_size": 59,
            "use_bias": True,
        },
    ),
    "BART": (
        "BartForConditionalGeneration",
        {
            **_EXACT,
            **_FAIRSEQ,
            **_BIASES,
            "position": "learned",
            "embedding_norm": True,
            "activation": "gelu",
            "scale_embeddings": False,
        },
    ),
    "mBART": (
        "MBartForConditionalGeneration",
        {
            **_PRE_NORM,
            "position": "learned",
            "embedding_norm": True,
            "activation": "gelu_tanh",
            "tie_embeddings": "inputs",
        },
    ),
    "learned positions": (
        "BlenderbotForConditionalGeneration",
        {**_PRE_NORM, "position": "learned"},
    ),
    "T5": ("T5ForConditionalGeneration", {**_T5, "scale_logits": True}),
    "T5, unscaled": (
        "T5ForConditionalGeneration",
        {**_T5, "feed_forward": "gated", "activation": "gelu"},
    ),
    "T5 1.1": (
        "T5ForConditionalGeneration",
        {
            **_T5,
            "feed_forward": "gated",
            "activation": "gelu_tanh",
            "tie_embeddings": "inputs",
        },
    ),
}
