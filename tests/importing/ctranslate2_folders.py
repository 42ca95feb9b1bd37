"""Small CTranslate2 folders and Argos packages of random weights."""

import math
import zipfile

import numpy as np
from foreign_folders import DIM
from foreign_folders import ENGLISH
from foreign_folders import GERMAN
from foreign_folders import HEADS
from foreign_folders import INNER
from foreign_folders import LAYERS
from foreign_folders import Tensors
from foreign_folders import pieces_model
from foreign_folders import pieces_of
from foreign_folders import write_json

from keras_transformer.position_tables import sinusoidal_table
from reference.foreign_files import write_ctranslate2

SPECIAL = ["<blank>", "<s>", "</s>"]
LONGEST = 40
CONFIG = {
    "add_source_bos": False,
    "add_source_eos": False,
    "bos_token": "<s>",
    "decoder_start_token": "<s>",
    "eos_token": "</s>",
    "layer_norm_epsilon": None,
    "multi_query_attention": False,
    "unk_token": "<unk>",
}
METADATA = {
    "from_code": "en",
    "to_code": "de",
    "package_version": "1.9",
    "argos_version": "1.9",
}


def models():
    """The SentencePiece models of source and target."""
    return pieces_model(tuple(ENGLISH)), pieces_model(tuple(GERMAN))


def vocabularies():
    """The pieces of source and target, in the order of OpenNMT-tf."""
    return [[*SPECIAL, *pieces_of(model)] for model in models()]


def arrays(vocabularies, seed=1):
    """`{name: array}` of a pre-norm Transformer, as OpenNMT's converters write it."""
    source, target = map(len, vocabularies)
    tensors = Tensors(seed)
    scale = DIM**-0.5
    tensors.draw("encoder/embeddings_0/weight", source, DIM, deviation=scale)
    tensors.draw("decoder/embeddings/weight", target, DIM, deviation=scale)
    linear(tensors, "decoder/projection", target, DIM)
    for stack in ("encoder", "decoder"):
        for layer in range(LAYERS):
            prefix = f"{stack}/layer_{layer}"
            name = f"{prefix}/self_attention"
            norm(tensors, f"{name}/layer_norm")
            linear(tensors, f"{name}/linear_0", 3 * DIM, DIM)
            linear(tensors, f"{name}/linear_1", DIM, DIM)
            if stack == "decoder":
                name = f"{prefix}/attention"
                norm(tensors, f"{name}/layer_norm")
                for number, outputs in enumerate((DIM, 2 * DIM, DIM)):
                    linear(tensors, f"{name}/linear_{number}", outputs, DIM)
            norm(tensors, f"{prefix}/ffn/layer_norm")
            linear(tensors, f"{prefix}/ffn/linear_0", INNER, DIM)
            linear(tensors, f"{prefix}/ffn/linear_1", DIM, INNER)
        norm(tensors, f"{stack}/layer_norm")
        table = sinusoidal_table(LONGEST, DIM, "halves_t2t", 1)
        tensors[f"{stack}/position_encodings/encodings"] = table
        tensors[f"{stack}/num_heads"] = np.int16(HEADS)
        tensors[f"{stack}/pre_norm"] = np.int8(1)
        tensors[f"{stack}/activation"] = np.int8(0)
        tensors[f"{stack}/scale_embeddings"] = np.float32(math.sqrt(DIM))
    tensors["decoder/alignment_heads"] = np.int16(1)
    tensors["decoder/alibi"] = np.int8(0)
    return dict(tensors)


def linear(tensors, name, outputs, inputs):
    tensors.draw(f"{name}/weight", outputs, inputs, deviation=inputs**-0.5)
    tensors.draw(f"{name}/bias", outputs)


def norm(tensors, name):
    tensors.draw(f"{name}/gamma", DIM, about=1.0)
    tensors.draw(f"{name}/beta", DIM)


def write(folder, tensors=None, sides=None, layout=6, **config):
    """A folder with two vocabularies and without tokenizers; its path."""
    folder.mkdir(parents=True)
    sides = sides or vocabularies()
    write_ctranslate2(folder / "model.bin", tensors or arrays(sides), layout)
    names = ("source", "target") if sides[0] != sides[1] else ("shared",)
    for name, pieces in zip(names, sides, strict=False):
        if layout == 6:
            write_json(folder / f"{name}_vocabulary.json", pieces)
        else:
            text = "".join(f"{piece}\n" for piece in pieces)
            path = folder / f"{name}_vocabulary.txt"
            path.write_text(text, encoding="utf-8", newline="")
    if layout == 6:
        write_json(folder / "config.json", {**CONFIG, **config})
    return folder


def write_tokenizers(folder):
    """The tokenizers in a folder of their own, as arguments of an import."""
    folder.mkdir(exist_ok=True)
    paths = {}
    for side, model in zip(("source", "target"), models(), strict=True):
        paths[f"{side}_tokenizer"] = folder / f"{side}.model"
        paths[f"{side}_tokenizer"].write_bytes(model)
    return paths


def package_pieces():
    """The pieces of a package's source; its target has three less."""
    return ["<unk>", *SPECIAL, *pieces_of(pieces_model((*ENGLISH, *GERMAN)))]


def package(folder, **metadata):
    """The folder of a package of Argos Translate: one tokenizer, two vocabularies."""
    model, pieces = pieces_model((*ENGLISH, *GERMAN)), package_pieces()
    write(folder / "model", sides=[pieces, pieces[:-3]])
    (folder / "sentencepiece.model").write_bytes(model)
    write_json(folder / "metadata.json", {**METADATA, **metadata})
    (folder / "stanza").mkdir()
    (folder / "stanza" / "resources.json").write_text("{}")
    return folder


def packed(folder, path, **others):
    """The same as a zip file, with further entries."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"translate-en_de/{file.relative_to(folder)}")
        for name, content in others.items():
            archive.writestr(name, content)
    return path
