"""Small folders of multilingual models, of random weights, as their hubs have them."""

from typing import NamedTuple

from foreign_folders import DIM
from foreign_folders import ENGLISH
from foreign_folders import GERMAN
from foreign_folders import HEADS
from foreign_folders import INNER
from foreign_folders import LAYERS
from foreign_folders import Tensors
from foreign_folders import draw_layers
from foreign_folders import pieces_model
from foreign_folders import pieces_of
from foreign_folders import write_json
from safetensors.numpy import save_file

from keras_transformer.importing.families import language_codes

LONGEST = 40
TEXT = (*ENGLISH, *GERMAN)


class Family(NamedTuple):
    """Attributes: class of transformers, model type, source and target language."""

    model: str
    model_type: str
    source: str | None = None
    target: str | None = None


FAMILIES = {
    "M2M100": Family("M2M100ForConditionalGeneration", "m2m_100", "en", "de"),
    "NLLB": Family("M2M100ForConditionalGeneration", "m2m_100", "eng_Latn", "deu_Latn"),
    "mBART-25": Family("MBartForConditionalGeneration", "mbart", "en_XX", "de_DE"),
    "mBART-50": Family("MBartForConditionalGeneration", "mbart", "en_XX", "de_DE"),
    "T5": Family("T5ForConditionalGeneration", "t5", "en", "de"),
    "T5 v1.1": Family("T5ForConditionalGeneration", "t5"),
    "mT5": Family("MT5ForConditionalGeneration", "mt5"),
    "byT5": Family("T5ForConditionalGeneration", "t5"),
    "MADLAD-400": Family("T5ForConditionalGeneration", "t5", None, "de"),
}

#: Measured folder -> source and target language of its reference texts.
MEASURED = {
    "m2m100": ("en", "de"),
    "nllb": ("eng_Latn", "deu_Latn"),
    "mbart": ("en_XX", "de_DE"),
    "mbart50": ("en_XX", "de_DE"),
    "t5": ("en", "de"),
    "t5-v1_1": (None, None),
    "mt5": (None, None),
    "madlad": (None, "de"),
    "byt5": (None, None),
}

BART = {
    "d_model": DIM,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": INNER,
    "decoder_ffn_dim": INNER,
    "max_position_embeddings": LONGEST,
    "scale_embedding": True,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def write(folder, name, layers=LAYERS):
    """Writes the folder of a family; its path."""
    folder.mkdir()
    family = FAMILIES[name]
    if family.model_type in ("t5", "mt5"):
        return _t5(folder, name, layers)
    model = pieces_model(TEXT)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(model)]
    codes = {
        "M2M100": [f"__{code}__" for code in language_codes.M2M100],
        "NLLB": language_codes.NLLB,
        "mBART-25": language_codes.MBART_25,
        "mBART-50": language_codes.MBART_50,
    }[name]
    size = len(pieces) + len(codes)
    size += {"M2M100": 8, "NLLB": 3}.get(name, 1)  # made-up words; <mask>, empty rows
    tokenizer = {}
    if name == "M2M100":
        write_json(folder / "vocab.json", {p: i for i, p in enumerate(pieces)})
        write_json(
            folder / "special_tokens_map.json",
            {"additional_special_tokens": list(codes)},
        )
    if name == "mBART-25":
        tokenizer = {"src_lang": "en_XX", "tgt_lang": "ro_RO"}
    write_json(folder / "tokenizer_config.json", tokenizer)
    is_mbart = family.model_type == "mbart"
    config = {
        **BART,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "model_type": family.model_type,
        "vocab_size": size,
        "activation_function": "gelu" if is_mbart else "relu",
    }
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", {"num_beams": 5, "max_length": 30})
    tensors = bart_tensors(size, is_mbart, layers)
    faint(tensors["model.shared.weight"][len(pieces) :])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def bart_tensors(size, embedding_norm, layers=LAYERS, seed=2):
    """The tensors of a pre-norm descendant of BART."""
    tensors = Tensors(seed)
    for side in ("encoder", "decoder"):
        draw_layers(tensors, side, layers)
        tensors.norm(f"model.{side}.layer_norm")
        if embedding_norm:
            tensors.norm(f"model.{side}.layernorm_embedding")
            name = f"model.{side}.embed_positions.weight"
            tensors.draw(name, LONGEST + 2, DIM)
    tensors.draw("model.shared.weight", size, DIM, deviation=DIM**-0.5)
    if embedding_norm:
        tensors.draw("final_logits_bias", 1, size)
    return dict(tensors)


def faint(rows):
    """Makes a search choose other pieces, which are text."""
    rows *= 0.2


def _t5(folder, name, layers):
    family, gated = FAMILIES[name], name != "T5"
    tokenizer = {"extra_ids": 100 if name in ("T5", "T5 v1.1") else 0}
    if name == "byT5":
        tokenizer["tokenizer_class"] = "ByT5Tokenizer"
        size, text = 384, slice(35, 129)  # what of ASCII is to be seen
    else:
        tags = {}
        if family.source is None and family.target:
            tags = {"user_defined_symbols": "<2de>,<2fr>"}
        model = pieces_model(TEXT, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **tags)
        (folder / "spiece.model").write_bytes(model)
        text = slice(3 + 2 * bool(tags), len(pieces_of(model)) + 3)
        size = text.stop + tokenizer["extra_ids"] + 2  # empty rows
    decoder_layers = max(layers - 1, 1)
    head_dim, buckets = 5, 8
    config = {
        "model_type": family.model_type,
        "vocab_size": size,
        "d_model": DIM,
        "d_ff": INNER,
        "d_kv": head_dim,
        "num_heads": HEADS,
        "num_layers": layers,
        "num_decoder_layers": decoder_layers,
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": 12,
        "tie_word_embeddings": not gated,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    }
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer_config.json", tokenizer)
    tensors = Tensors(5)
    tensors.draw("shared.weight", size, DIM, deviation=1.0)
    if gated:
        tensors.draw("lm_head.weight", size, DIM, deviation=1.0)
    output = tensors["lm_head.weight" if gated else "shared.weight"]
    faint(output[: text.start])
    faint(output[text.stop :])
    sides = {
        "encoder": (layers, ("SelfAttention",)),
        "decoder": (decoder_layers, ("SelfAttention", "EncDecAttention")),
    }
    for side, (count, attentions) in sides.items():
        for block in range(count):
            for place, attention in enumerate(attentions):
                prefix = f"{side}.block.{block}.layer.{place}"
                for part in "qkv":
                    name = f"{prefix}.{attention}.{part}"
                    tensors.linear(name, HEADS * head_dim, DIM, bias=False)
                name = f"{prefix}.{attention}.o"
                tensors.linear(name, DIM, HEADS * head_dim, bias=False)
                if block == place == 0:
                    bias = f"{prefix}.{attention}.relative_attention_bias.weight"
                    tensors.draw(bias, buckets, HEADS)
                tensors.norm(f"{prefix}.layer_norm", bias=False)
            prefix = f"{side}.block.{block}.layer.{len(attentions)}"
            for part in ("wi_0", "wi_1") if gated else ("wi",):
                name = f"{prefix}.DenseReluDense.{part}"
                tensors.linear(name, INNER, DIM, bias=False)
            tensors.linear(f"{prefix}.DenseReluDense.wo", DIM, INNER, bias=False)
            tensors.norm(f"{prefix}.layer_norm", bias=False)
        tensors.norm(f"{side}.final_layer_norm", bias=False)
    save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    return folder
