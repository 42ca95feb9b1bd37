"""Small folders of other toolkits, of random weights, in the files of their hubs."""

import functools
import io
import json

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

ENGLISH = ["the cat sleeps under the old table", "a train leaves the station at seven"]
GERMAN = ["die Katze schläft unter dem alten Tisch", "ein Zug verlässt den Bahnhof"]
DIM, INNER, HEADS, LAYERS = 16, 24, 2, 2


@functools.cache
def pieces_model(lines, kind="unigram", size=60, normalization="identity", **options):
    """The bytes of a SentencePiece model of some lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        normalization_rule_name=normalization,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    names = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    return [name for name in names if name not in ("<unk>", "<s>", "</s>")]


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def marian(folder, languages=(), separate=False, seed=1, layers=LAYERS, **fields):
    """A MarianMT folder, as transformers has it."""
    folder.mkdir()
    models = pieces_model(tuple(ENGLISH)), pieces_model(tuple(GERMAN))
    for name, model in zip(("source", "target"), models, strict=True):
        (folder / f"{name}.spm").write_bytes(model)
    tags = [f">>{code}<<" for code in languages]
    texts = [pieces_of(model) for model in models]
    if not separate:
        texts = [sorted({piece for text in texts for piece in text})] * 2
    longest = max(map(len, texts))
    vocabularies = [
        ["</s>", "<unk>", *tags, *text]
        + [f"filler{i}" for i in range(longest - len(text))]
        + ["<pad>"]
        for text in texts
    ]
    names = ("vocab.json", "target_vocab.json") if separate else ("vocab.json",)
    for name, vocabulary in zip(names, vocabularies, strict=False):
        write_json(folder / name, {piece: i for i, piece in enumerate(vocabulary)})
    tokenizer = {"source_lang": "eng", "target_lang": "deu"}
    write_json(
        folder / "tokenizer_config.json",
        {**tokenizer, **({"separate_vocabs": True} if separate else {})},
    )
    size = len(vocabularies[0])
    config = {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": size,
        "decoder_vocab_size": size,
        "d_model": DIM,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER,
        "decoder_ffn_dim": INNER,
        "activation_function": "swish",
        "max_position_embeddings": 64,
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": not separate,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "eos_token_id": 0,
        **fields,
    }
    write_json(folder / "config.json", config)
    write_json(
        folder / "generation_config.json",
        {"num_beams": 3, "max_length": 40, "bad_words_ids": [[size - 1]]},
    )
    tensors = marian_tensors(size, separate, seed, layers)
    save_file(tensors, folder / "model.safetensors")
    return folder


class Tensors(dict):
    """`{name: array}`, drawn at random."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def draw(self, name, *shape, about=0.0, deviation=0.2):
        values = about + deviation * self.generator.standard_normal(shape)
        self[name] = values.astype("float32")

    def linear(self, name, outputs, inputs, bias=True):
        self.draw(f"{name}.weight", outputs, inputs, deviation=inputs**-0.5)
        if bias:
            self.draw(f"{name}.bias", outputs)

    def norm(self, name, bias=True):
        self.draw(f"{name}.weight", DIM, about=1.0)
        if bias:
            self.draw(f"{name}.bias", DIM)


def draw_layers(tensors, side, layers=LAYERS):
    """The layers of `"encoder"` or `"decoder"` of a descendant of BART."""
    attentions = ["self_attn", "encoder_attn"][: 1 + (side == "decoder")]
    for layer in range(layers):
        prefix = f"model.{side}.layers.{layer}"
        for attention in attentions:
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                tensors.linear(f"{prefix}.{attention}.{part}", DIM, DIM)
            tensors.norm(f"{prefix}.{attention}_layer_norm")
        tensors.linear(f"{prefix}.fc1", INNER, DIM)
        tensors.linear(f"{prefix}.fc2", DIM, INNER)
        tensors.norm(f"{prefix}.final_layer_norm")


def marian_tensors(size, separate=False, seed=1, layers=LAYERS):
    """`{name: array}` of a MarianMT model."""
    tensors = Tensors(seed)
    for side in ("encoder", "decoder"):
        draw_layers(tensors, side, layers)
    sides = ("encoder.embed_tokens", "decoder.embed_tokens")
    for name in sides if separate else ("shared",):
        tensors.draw(f"model.{name}.weight", size, DIM, deviation=DIM**-0.5)
        tensors[f"model.{name}.weight"][-1] = 0  # of padding, which starts
    tensors.draw("final_logits_bias", 1, size)
    tensors["final_logits_bias"][:, -1] = 0
    return dict(tensors)
