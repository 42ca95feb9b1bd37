"""MarianMT folders of transformers, imported: ids, numbers, searches, languages."""

import json

import foreign_folders
import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save_file

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.errors import InputError
from reference.marks import all_on_one_backend

FOLDERS = ("marian", "marian-languages", "marian-separate")
LANGUAGES = {"marian-languages": "fra"}


class Imported:
    """A folder of the measured ones: what its toolkit says, and the import of it."""

    def __init__(self, shared_data, name, folder):
        self.language = LANGUAGES.get(name)
        path = shared_data / "pretrained"
        self.report = kt.importing.convert(path / name, folder)
        self.translator = kt.Translator.load(folder)
        texts = path / "reference" / f"{name}.json"
        self.texts = json.loads(texts.read_text(encoding="utf-8"))
        self.arrays = dict(np.load(path / "reference" / f"{name}.npz"))
        tag = f">>{self.language}<< "
        self.sources = [line.removeprefix(tag) for line in self.texts["sources"]]


@pytest.fixture(
    scope="module", params=all_on_one_backend(FOLDERS, but=("marian-languages",))
)
def imported(request, shared_data, tmp_path_factory):
    if not (shared_data / "pretrained").is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    folder = tmp_path_factory.mktemp("imported") / "model"
    return Imported(shared_data, request.param, folder)


@pytest.mark.one_backend
def test_ids_are_those_of_their_tokenizers(imported):
    translator = imported.translator
    before = ()
    if imported.language:
        codes = translator.languages.codes
        before = (codes[imported.language],)
    ids = translator.tokenizer.encode(imported.sources)
    assert [[*before, *row, 0] for row in ids] == imported.texts["input_ids"]
    labels = translator.target_tokenizer.encode(imported.texts["targets"])
    assert [[*row, 0] for row in labels] == imported.texts["label_ids"]


def test_encoder_and_logits_are_theirs(imported):
    model, arrays = imported.translator.model, imported.arrays
    source_mask = arrays["source_mask"].astype(bool)
    encoded = model.encode(arrays["source_ids"])
    memory = backends.to_numpy(encoded.memory)
    assert np.abs(memory - arrays["encoder"])[source_mask].max() < 1e-4
    decoder_mask = arrays["decoder_mask"].astype(bool)
    inputs = {"source": arrays["source_ids"], "target": arrays["decoder_ids"]}
    logits = backends.to_numpy(model(inputs))
    difference = np.abs(logits - arrays["logits"])[decoder_mask]
    pad = model.config.pad_id  # whose bias is so low that no search writes it
    assert np.delete(difference, pad, axis=-1).max() < 1e-4


@pytest.mark.parametrize("name", ["single", "languages", "separate"])
@pytest.mark.one_backend
def test_a_generated_folder_becomes_a_model_folder(name, tmp_path):
    options = {
        "single": {},
        "languages": {"languages": ("deu", "zlm_Latn")},
        "separate": {"separate": True},
    }[name]
    folder = foreign_folders.marian(tmp_path / "foreign", **options)
    report = kt.importing.convert(folder, tmp_path / "model")
    translator = kt.Translator.load(tmp_path / "model")
    assert report.family == "MarianMT"
    assert report.num_weights == translator.model.count_params()
    assert report.languages == options.get("languages", ())
    decoding = translator.decoding
    assert (decoding.beam_size, decoding.max_length) == (3, 39)
    assert decoding.normalization == "average"
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    ids = list(range(len(vocabulary)))
    assert translator.tokenizer.pieces(ids) == list(vocabulary)
    # A piece of the other side alone is decoded, but not cut out of text.
    text = "under dem alten Tisch"
    (row,) = translator.target_tokenizer.encode([text])
    assert translator.target_tokenizer.decode([row])[0].endswith("dem alten Tisch")


@pytest.mark.one_backend
def test_a_matrix_that_stands_twice_must_hold_the_same_numbers(tmp_path):
    folder = foreign_folders.marian(tmp_path / "foreign")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["lm_head.weight"] = tensors["model.shared.weight"].copy()
    tensors["model.encoder.embed_positions.weight"] = np.zeros((64, 16), "float32")
    save_file(tensors, path)
    kt.importing.convert(folder, tmp_path / "model")
    tensors["lm_head.weight"][3, 3] += 1
    save_file(tensors, path)
    with pytest.raises(
        InputError, match=r"shared.weight' and 'lm_head.weight' are one"
    ):
        kt.importing.convert(folder, tmp_path / "model")


@pytest.mark.one_backend
def test_inspecting_needs_no_backend(tmp_path, run_python):
    folder = foreign_folders.marian(tmp_path / "foreign")
    code = f"""
import sys
import keras_transformer as kt
print(kt.importing.inspect({str(folder)!r}))
print("keras" in sys.modules)
"""
    *_, last = run_python(code).splitlines()
    assert last == "False"
