"""Small models in Marian's own files, of random weights, and what they compute.

The forward pass in NumPy is that of Marian's source (`models/transformer.h`): all
sines, then all cosines, with exponent i / (D/2 - 1), and a zero vector that starts the
decoder.
"""

import json

import foreign_folders
import numpy as np
import sentencepiece
import yaml

DIM, INNER, HEADS, LAYERS = 16, 24, 2, 2


def vocabulary():
    """A SentencePiece model as Marian trains it, and its pieces."""
    model = foreign_folders.pieces_model(
        tuple(foreign_folders.ENGLISH), bos_id=-1, eos_id=0, unk_id=1, pad_id=-1
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return model, [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def config(autoreg="self-attention", **options):
    return {
        "type": "transformer",
        "dim-emb": DIM,
        "enc-depth": LAYERS,
        "dec-depth": LAYERS,
        "transformer-heads": HEADS,
        "transformer-dim-ffn": INNER,
        "transformer-ffn-activation": "swish",
        "transformer-decoder-autoreg": autoreg,
        "dec-cell": "ssru",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "tied-embeddings-all": True,
        **options,
    }


def weights(size, options, seed=3):
    """`{name: array}` of a model with a vocabulary of that size."""
    generator = np.random.default_rng(seed)
    arrays = {}
    place = "_pre" if "n" in options["transformer-preprocess"] else ""

    def draw(name, *shape, deviation=0.2, about=0.0):
        values = about + deviation * generator.standard_normal(shape)
        arrays[name] = values.astype("float32")

    def matrix(name, rows, columns):
        draw(name, rows, columns, deviation=(2 / rows) ** 0.5)

    def norm(name, place):
        draw(f"{name}_ln_scale{place}", 1, DIM, about=1.0)
        draw(f"{name}_ln_bias{place}", 1, DIM)

    def attention(name):
        for letter in "qkvo":
            matrix(f"{name}_W{letter}", DIM, DIM)
            draw(f"{name}_b{letter}", 1, DIM)
        norm(f"{name}_Wo", place)

    if options["tied-embeddings-all"]:
        draw("Wemb", size, DIM, deviation=DIM**-0.5)
    else:
        draw("encoder_Wemb", size, DIM, deviation=DIM**-0.5)
        draw("decoder_Wemb", size - 2, DIM, deviation=DIM**-0.5)
        matrix("decoder_ff_logit_out_W", DIM, size - 2)
    rows = size if options["tied-embeddings-all"] else size - 2
    draw("decoder_ff_logit_out_b", 1, rows)
    for side in ("encoder", "decoder"):
        for layer in range(1, options["enc-depth"] + 1):
            name = f"{side}_l{layer}"
            if side == "decoder" and options["transformer-decoder-autoreg"] == "rnn":
                matrix(f"{name}_rnn_W", DIM, DIM)
                matrix(f"{name}_rnn_Wf", DIM, DIM)
                draw(f"{name}_rnn_bf", 1, DIM)
                norm(f"{name}_rnn_ffn", place)
            else:
                attention(f"{name}_self")
            if side == "decoder":
                attention(f"{name}_context")
            matrix(f"{name}_ffn_W1", DIM, INNER)
            draw(f"{name}_ffn_b1", 1, INNER)
            matrix(f"{name}_ffn_W2", INNER, DIM)
            draw(f"{name}_ffn_b2", 1, DIM)
            norm(f"{name}_ffn_ffn", place)
        if place:
            norm(f"{side}_top", "")
    return arrays


def marian_npz(folder, **options):
    """A folder of an OPUS-MT release; gives its weights and config too."""
    folder.mkdir()
    model, pieces = vocabulary()
    given = config(**options)
    if given["transformer-preprocess"]:
        given["transformer-postprocess-top"] = "n"
    arrays = weights(len(pieces), given)
    text = np.frombuffer((yaml.safe_dump(given) + "\0").encode(), "int8")
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": text})
    lines = [f"{json.dumps(p, ensure_ascii=False)}: {i}" for i, p in enumerate(pieces)]
    if given["tied-embeddings-all"]:
        (folder / "vocab.spm").write_bytes(model)
    else:  # each side has a vocabulary of its own
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(model)
        (folder / "opus.src.vocab.yml").write_text("\n".join(lines), encoding="utf-8")
        shorter = "\n".join(lines[:-2])
        (folder / "opus.trg.vocab.yml").write_text(shorter, encoding="utf-8")
    search = {"beam-size": 3, "normalize": 0.7, "word-penalty": 0}
    (folder / "decoder.yml").write_text(yaml.safe_dump(search))
    return folder, arrays, given


class NumpyMarian:
    """The forward pass of Marian in NumPy, of one sentence."""

    def __init__(self, arrays, options):
        self.arrays, self.options = arrays, options
        self.is_before = "n" in options["transformer-preprocess"]

    def norm(self, values, name):
        mean = values.mean(-1, keepdims=True)
        spread = np.sqrt(((values - mean) ** 2).mean(-1, keepdims=True) + 1e-6)
        place = "_pre" if f"{name}_ln_scale_pre" in self.arrays else ""
        scale, bias = (
            self.arrays[f"{name}_ln_{x}{place}"][0] for x in ("scale", "bias")
        )
        return (values - mean) / spread * scale + bias

    def around(self, values, name, function):
        """A sublayer with its residual connection and norm."""
        if self.is_before:
            return values + function(self.norm(values, name))
        return self.norm(values + function(values), name)

    def affine(self, values, name, letter):
        return (
            values @ self.arrays[f"{name}_W{letter}"] + self.arrays[f"{name}_b{letter}"]
        )

    def attention(self, name, queries, memory, is_causal=False):
        heads = (
            self.affine(values, name, letter)
            .reshape(len(values), HEADS, -1)
            .swapaxes(0, 1)
            for values, letter in ((queries, "q"), (memory, "k"), (memory, "v"))
        )
        query, key, value = heads
        scores = query @ key.swapaxes(1, 2) / np.sqrt(DIM / HEADS)
        if is_causal:
            scores = np.where(np.tril(np.ones(scores.shape[1:])) > 0, scores, -1e9)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        joined = (shares @ value).swapaxes(0, 1).reshape(len(queries), DIM)
        return self.affine(joined, name, "o")

    def feed_forward(self, name, values):
        inner = self.affine(values, name, "1")
        return self.affine(inner / (1 + np.exp(-inner)), name, "2")

    def recurrence(self, name, values):
        updates = values @ self.arrays[f"{name}_W"]
        gates = values @ self.arrays[f"{name}_Wf"] + self.arrays[f"{name}_bf"]
        gates = 1 / (1 + np.exp(-gates))
        state, states = np.zeros(DIM), []
        for gate, update in zip(gates, updates, strict=True):
            state = gate * state + (1 - gate) * update
            states.append(np.maximum(state, 0))
        return np.array(states)

    def embedded(self, side, ids):
        matrix = self.arrays.get("Wemb", self.arrays.get(f"{side}_Wemb"))
        rows = [np.zeros(DIM) if i is None else matrix[i] for i in ids]
        exponents = -np.arange(DIM // 2) / (DIM // 2 - 1)
        angles = np.arange(len(ids))[:, None] * 10000.0**exponents
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        return np.sqrt(DIM) * np.array(rows) + table

    def logits(self, source, target):
        """Of the source ids and those of the target, after each of its beginnings."""
        memory = self.stack("encoder", self.embedded("encoder", source), None)
        hidden = self.stack(
            "decoder", self.embedded("decoder", [None, *target]), memory
        )
        if "decoder_ff_logit_out_W" in self.arrays:
            scores = hidden @ self.arrays["decoder_ff_logit_out_W"]
        else:
            scores = hidden @ self.arrays["Wemb"].T
        return scores + self.arrays["decoder_ff_logit_out_b"][0]

    def stack(self, side, values, memory):
        for layer in range(1, LAYERS + 1):
            values = self.layer(f"{side}_l{layer}", values, memory)
        return self.norm(values, f"{side}_top") if self.is_before else values

    def layer(self, name, values, memory):
        is_decoder = memory is not None
        if is_decoder and self.options["transformer-decoder-autoreg"] == "rnn":
            values = self.around(
                values, f"{name}_rnn_ffn", lambda x: self.recurrence(f"{name}_rnn", x)
            )
        else:
            values = self.around(
                values,
                f"{name}_self_Wo",
                lambda x: self.attention(f"{name}_self", x, x, is_decoder),
            )
        if is_decoder:
            values = self.around(
                values,
                f"{name}_context_Wo",
                lambda x: self.attention(f"{name}_context", x, memory),
            )
        return self.around(
            values, f"{name}_ffn_ffn", lambda x: self.feed_forward(f"{name}_ffn", x)
        )
