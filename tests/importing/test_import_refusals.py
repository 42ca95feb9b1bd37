"""Folders of other toolkits that are refused: one sentence each, with the way out."""

import json

import foreign_folders
import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save_file

from keras_transformer import importing
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 299\n"


@pytest.fixture
def folder(tmp_path):
    return foreign_folders.marian(tmp_path / "foreign")


def config(**fields):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

    return change


def tensors(change):
    def rewrite(folder):
        path = folder / "model.safetensors"
        held = load_file(path)
        change(held)
        save_file(held, path)

    return rewrite


def vocabulary(change):
    def rewrite(folder):
        path = folder / "vocab.json"
        pieces = json.loads(path.read_text(encoding="utf-8"))
        change(pieces)
        path.write_text(json.dumps(pieces), encoding="utf-8")

    return rewrite


def text(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def without(*names):
    def remove(folder):
        for name in names:
            (folder / name).unlink()

    return remove


def checkpoint(folder):
    for path in folder.iterdir():
        path.unlink()
    (folder / "model.pt").write_bytes(b"PK\3\4")


INNER = "model.encoder.layers.0.fc1.weight"
#: What is wrong -> how the folder comes to it, and what the message says.
REFUSALS = {
    "unknown type": (
        config(model_type="llama"),
        r"type 'llama', which cannot be imported: known are .*marian.*transformers$",
    ),
    "mixture of experts": (
        config(model_type="nllb-moe"),
        "mixtures of experts; translate with transformers",
    ),
    "switch": (config(model_type="switch_transformers"), "mixtures of experts"),
    "umt5": (config(model_type="umt5"), "relative positions of its own"),
    "own code": (
        config(model_type="own", auto_map={"AutoModel": "code.Model"}),
        r"code of the folder \(auto_map\) is never run",
    ),
    "pre-norm": (config(normalize_before=True), "normalize_before cannot be imported"),
    "final norm": (config(add_final_layer_norm=True), "add_final_layer_norm cannot"),
    "embedding norm": (config(normalize_embedding=True), "normalize_embedding cannot"),
    "activation": (config(activation_function="silu_and"), r"activation: .*silu_and"),
    "no type": (text("config.json", "{}"), "no config.json with a model_type"),
    "no JSON": (text("config.json", "{"), "holds no JSON object, or is cut off"),
    "no size": (config(d_model=None), r"config.json: model.hidden_dim"),
    "checkpoint": (checkpoint, r"ct2-fairseq-converter.*import that folder"),
    "no weights": (without("model.safetensors"), "holds no file of weights"),
    "pointer": (text("model.safetensors", POINTER), "run git lfs pull"),
    "pointer of a tokenizer": (text("source.spm", POINTER), "run git lfs pull"),
    "no tokenizer": (without("target.spm"), r"target.spm.*get all files"),
    "tokenizer": (text("source.spm", "no model"), "not a SentencePiece model"),
    "piece without text": (text("source.spm", "\n\0"), "not a SentencePiece model"),
    "piece too many": (
        vocabulary(lambda pieces: pieces.update(more=len(pieces))),
        r"has \d+ pieces, but the matrix of config.json has \d+ rows",
    ),
    "id twice": (vocabulary(lambda pieces: pieces.update(filler=3)), "each once"),
    "no unknown piece": (
        vocabulary(lambda pieces: pieces.update({"other": pieces.pop("<unk>")})),
        "lacks the piece '<unk>'",
    ),
    "tensor too many": (
        tensors(lambda held: held.update(adapter=np.zeros(3, "float32"))),
        r"holds the tensor 'adapter'.*translate with the toolkit",
    ),
    "tensor missing": (tensors(lambda held: held.pop(INNER)), f"lacks .*{INNER}"),
    "shape": (
        tensors(lambda held: held.update({INNER: np.zeros((9, 16), "float32")})),
        r"holds \d+ weights, but its config declares \d+",
    ),
    "search": (text("generation_config.json", '{"num_beams": 0}'), "beam_size: "),
    "search of another kind": (
        text("generation_config.json", '{"bad_words_ids": 3}'),
        "bad_words_ids is 3, not a list of lists of ids; correct it",
    ),
    "search of another model": (
        text("generation_config.json", '{"bad_words_ids": [[999]]}'),
        "an id of suppressed_tokens is not one of the .*belong together",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_folder_is_refused_in_one_sentence(name, folder):
    change, message = REFUSALS[name]
    change(folder)
    with pytest.raises(InputError, match=message) as error:
        importing.inspect(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_what_a_search_here_lacks_is_mentioned(folder):
    rules = {"num_beams": 2, "do_sample": True, "constraints": [1], "a\x1b": 2}
    path = folder / "generation_config.json"
    path.write_text(json.dumps(rules), encoding="utf-8")
    drawn, searched, unknown = importing.inspect(folder).left_out
    assert drawn.startswith("do_sample: nothing is drawn here")
    assert searched.startswith("constraints: searches here have no such rule")
    assert unknown == r"a\x1b: unknown; unused"


def test_code_of_a_known_model_is_left_out_and_mentioned(folder):
    config(auto_map={"AutoModel": "code.Model"})(folder)
    (folder / "code.py").write_text("raise SystemExit('run')")
    assert "auto_map" in importing.inspect(folder).left_out[0]
