"""Small BART and FSMT folders, of random weights, as their hubs have them."""

import collections
import importlib
from itertools import pairwise

import numpy as np
from foreign_folders import DIM
from foreign_folders import ENGLISH
from foreign_folders import GERMAN
from foreign_folders import LAYERS
from foreign_folders import Tensors
from foreign_folders import draw_layers
from foreign_folders import write_json
from multilingual_folders import BART
from safetensors.numpy import save_file

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BART_CLASS = "BartForConditionalGeneration"
FSMT_CLASS = "FSMTForConditionalGeneration"
SEARCH = {name: BART[name] for name in BART if name.endswith("_token_id")}
NUM_MERGES = 40
LONGEST = 100


def learned(words):
    """Merges of the most frequent pairs of letters, each by itself."""
    counts = collections.Counter(pair for word in words for pair in pairwise(word))
    merges = [pair for pair, _ in counts.most_common(NUM_MERGES)]
    pairs = collections.Counter(
        (first + second, third)
        for word in words
        for first, second, third in zip(word, word[1:], word[2:], strict=False)
        if (first, second) in merges
    )
    return [*merges, *(pair for pair, _ in pairs.most_common(NUM_MERGES // 2))]


def bart(folder, layers=LAYERS, **fields):
    """A BART folder, with `vocab.json` and `merges.txt`."""
    tokenizers = importlib.import_module("tokenizers")
    splitter = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words = [
        word
        for line in (*ENGLISH, *GERMAN)
        for word, _ in splitter.pre_tokenize_str(line)
    ]
    merges = learned(words)
    alphabet = sorted(splitter.alphabet())
    pieces = [*SPECIAL, *alphabet, *dict.fromkeys(map("".join, merges)), "<mask>"]
    folder.mkdir()
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    lines = ["#version: 0.2", *map(" ".join, merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BartTokenizer"})
    size = len(pieces) + 2  # rows without a piece
    config = {
        **BART,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "max_position_embeddings": LONGEST,
        "model_type": "bart",
        "architectures": [BART_CLASS],
        "vocab_size": size,
        "activation_function": "gelu",
        "scale_embedding": False,
        "forced_bos_token_id": 0,
        **fields,
    }
    write_json(folder / "config.json", config)
    search = {**SEARCH, "forced_bos_token_id": 0}
    write_json(folder / "generation_config.json", search)
    tensors = Tensors(4)
    for side in ("encoder", "decoder"):
        draw_layers(tensors, side, layers)
        tensors.norm(f"model.{side}.layernorm_embedding")
        tensors.draw(f"model.{side}.embed_positions.weight", LONGEST + 2, DIM)
    tensors.draw("model.shared.weight", size, DIM, deviation=DIM**-0.5)
    tensors.draw("final_logits_bias", 1, size)
    return _saved(tensors, folder)


def fsmt(folder, layers=LAYERS, **fields):
    """An FSMT folder, from English to German."""
    sacremoses = importlib.import_module("sacremoses")
    sides = {"src": ("en", ENGLISH), "tgt": ("de", GERMAN)}
    words = {}
    for side, (language, lines) in sides.items():
        moses = sacremoses.MosesTokenizer(language)
        found = [word for line in lines for word in moses.tokenize(line)]
        words[side] = [(*word[:-1], word[-1] + "</w>") for word in found]
    merges = learned([*words["src"], *words["tgt"]])
    folder.mkdir()
    sizes = {}
    for side, its in words.items():
        letters = sorted({letter for word in its for letter in word} | set("&;.,!?'"))
        pieces = dict.fromkeys([*SPECIAL, *letters, *map("".join, merges)])
        sizes[f"{side}_vocab_size"] = len(pieces)
        ids = {piece: i for i, piece in enumerate(pieces)}
        write_json(folder / f"vocab-{side}.json", ids)
    text = "".join(f"{left} {right} 3\n" for left, right in merges)
    (folder / "merges.txt").write_text(text, encoding="utf-8")
    tokenizer = {"tokenizer_class": "FSMTTokenizer", "langs": ["en", "de"]}
    write_json(folder / "tokenizer_config.json", tokenizer)
    config = {
        **BART,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "max_position_embeddings": LONGEST,
        "model_type": "fsmt",
        "architectures": [FSMT_CLASS],
        "langs": ["en", "de"],
        "activation_function": "relu",
        "tie_word_embeddings": False,
        **sizes,
        **fields,
    }
    write_json(folder / "config.json", config)
    search = {**SEARCH, "num_beams": 5, "max_length": 200, "length_penalty": 1.1}
    write_json(folder / "generation_config.json", search)
    tensors = Tensors(6)
    for side in ("encoder", "decoder"):
        draw_layers(tensors, side, layers)
        size = sizes["src_vocab_size" if side == "encoder" else "tgt_vocab_size"]
        name = f"model.{side}.embed_tokens.weight"
        tensors.draw(name, size, DIM, deviation=DIM**-0.5)
        tensors[f"model.{side}.embed_positions.weight"] = _sinusoids()
    tensors["model.decoder.output_projection.weight"] = tensors[name]
    return _saved(tensors, folder)


def _sinusoids():
    """The positions from that of padding on, which is zero."""
    half = DIM // 2
    rates = 10000.0 ** (-np.arange(half) / (half - 1))
    angles = np.arange(LONGEST + 2)[:, None] * rates
    table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    table[1] = 0
    return table.astype("float32")


def _saved(tensors, folder):
    save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


WRITERS = {"BART": bart, "FSMT": fsmt}
CLASSES = {"BART": BART_CLASS, "FSMT": FSMT_CLASS}
