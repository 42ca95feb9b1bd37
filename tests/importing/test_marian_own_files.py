"""Marian's own files, imported: its positions, its zero vector, its vocabularies."""

import gzip
import json

import marian_folders
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.importing.families.marian_vocabulary import yaml_pieces
from reference.foreign_files import marian_item
from reference.foreign_files import multiplied_item
from reference.foreign_files import write_marian
from reference.marks import all_on_one_backend

SOURCE = [5, 9, 12, 7, 0]
TARGET = [6, 4, 11]
KINDS = {
    "post-norm": {},
    "pre-norm": {"transformer-preprocess": "n", "transformer-postprocess": "da"},
    "two vocabularies": {"tied-embeddings-all": False},
    "recurrent": {"autoreg": "rnn"},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.one_backend
def test_the_numbers_are_those_of_marian(kind, tmp_path):
    folder, arrays, options = marian_folders.marian_npz(
        tmp_path / "opus", **KINDS[kind]
    )
    report = kt.importing.convert(folder, tmp_path / "model")
    translator = kt.Translator.load(tmp_path / "model")
    model, rows = translator.model, arrays["decoder_ff_logit_out_b"].shape[1]
    assert report.family == "Marian"
    expected = marian_folders.NumpyMarian(arrays, options).logits(SOURCE, TARGET)
    target = [[model.config.start_id, *TARGET]]
    inputs = {"source": np.array([SOURCE]), "target": np.array(target)}
    (logits,) = backends.to_numpy(model(inputs))
    np.testing.assert_allclose(logits[:, :rows], expected, atol=1e-4)
    assert (logits[:, rows:] == -30).all()  # of padding, which no search writes
    decoding = translator.decoding
    assert decoding.normalization == "power" and decoding.length_penalty == 0.7
    assert decoding.beam_size == 3
    assert decoding.suppressed_tokens == (1,)
    (ids,) = translator.tokenizer.encode(["the old cat"])
    _, pieces = marian_folders.vocabulary()
    assert "".join(pieces[i] for i in ids) == "▁the▁old▁cat"


@pytest.mark.parametrize(
    "name",
    all_on_one_backend(
        [
            f"{x}/model.{y}"
            for x in ("marian-npz", "marian-ssru")
            for y in ("npz", "bin")
        ],
        but=("marian-npz/model.npz", "marian-ssru/model.bin"),
    ),
)
def test_translations_are_those_of_bergamot(name, shared_data, tmp_path):
    path = shared_data / "pretrained"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    kt.importing.convert(path / name, tmp_path / "model")
    translator = kt.Translator.load(tmp_path / "model")
    references = json.loads((path / "reference-marian.json").read_text("utf-8"))
    rows = references[name.partition("/")[0]]["greedy"]
    for row in rows:
        (ids,) = translator.tokenizer.encode([row["source"]])
        limit = 2 * (len(ids) + 1)
        found = translator.translate([row["source"]], beam_size=1, max_length=limit)
        assert found == [row["bergamot"]]


@pytest.mark.parametrize("name", ["model.intgemm.alphas.bin", "model.bin.gz"])
@pytest.mark.one_backend
def test_a_file_of_integers_is_the_model_of_its_numbers(name, tmp_path):
    folder, arrays, _ = marian_folders.marian_npz(tmp_path / "npz", autoreg="rnn")
    with np.load(folder / "model.npz") as file:
        given = file["special:model.yml"]
    items, rounded = {"special:model.yml": marian_item(given)}, {}
    for key, values in arrays.items():
        items[key], rounded[key] = marian_item(values), values
        if "_W" in key or key == "Wemb":
            factor = 127 / np.abs(values).max()
            integers = np.round(values * factor).astype("int8")
            rounded[key] = (integers / np.float32(factor)).astype("float32")
            turned = key != "Wemb"
            items[key] = multiplied_item(integers, factor, 0x4101, turned)
    np.savez(folder / "model.npz", **rounded, **{"special:model.yml": given})
    kt.importing.convert(folder, tmp_path / "expected")
    (folder / "model.npz").unlink()
    write_marian(tmp_path / "model.bin", items)
    content = (tmp_path / "model.bin").read_bytes()
    packed = gzip.compress(content) if name.endswith(".gz") else content
    (folder / name).write_bytes(packed)
    report = kt.importing.convert(folder, tmp_path / "model")
    assert report.family == "Marian"
    expected, found = (
        kt.Translator.load(tmp_path / x).model.get_weights()
        for x in ("expected", "model")
    )
    for old, new in zip(expected, found, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-7)


REFUSALS = {
    "average attention": (
        {"transformer-decoder-autoreg": "average-attention"},
        "autoreg 'average-attention' cannot be imported; translate with Marian",
    ),
    "recurrent": ({"type": "s2s"}, "type 's2s' cannot be imported"),
    "other cell": (
        {"transformer-decoder-autoreg": "rnn", "dec-cell": "gru"},
        "dec-cell 'gru' cannot be imported",
    ),
    "right to left": ({"right-left": True}, "right-left 'True' cannot"),
    "norm twice": (
        {"transformer-preprocess": "n"},
        "transformer-preprocess 'n' cannot",
    ),
    "depth": ({"transformer-ffn-depth": 3}, "ffn-depth '3' cannot"),
    "tied layers": ({"transformer-tied-layers": [1, 1]}, "tied-layers .* cannot"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.one_backend
def test_other_architectures_are_refused(name, tmp_path):
    options, message = REFUSALS[name]
    folder, arrays, _ = marian_folders.marian_npz(tmp_path / "opus")
    given = marian_folders.config(**options)
    text = np.frombuffer(json.dumps(given).encode(), "int8")
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": text})
    with pytest.raises(InputError, match=message):
        kt.importing.inspect(folder)


@pytest.mark.one_backend
def test_incomplete_folders_are_refused(tmp_path):
    folder, arrays, _ = marian_folders.marian_npz(tmp_path / "opus")
    (folder / "vocab.spm").rename(folder / "other")
    with pytest.raises(InputError, match="has no vocabulary of Marian, or several"):
        kt.importing.inspect(folder)
    (folder / "vocab.yml").write_text('"</s>": 0\n"<unk>": 1\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"source.spm is missing, which cuts text"):
        kt.importing.inspect(folder)
    (folder / "other").rename(folder / "source.spm")
    with pytest.raises(InputError, match=r"has 2 pieces, but the matrix"):
        kt.importing.inspect(folder)
    np.savez(folder / "model.npz", **arrays)
    with pytest.raises(
        InputError, match=r"no model of Marian: it holds no special:mod"
    ):
        kt.importing.inspect(folder)


@pytest.mark.one_backend
def test_vocabularies_are_read_line_by_line():
    text = '</s>: 0\n"<unk>": 1\nyes: 2\n~: 3\n"\\x85": 4\n": ": 5\n\'it\'\'s\': 6\n'
    text += '"\\\\": 7\n? "long \\"key\\""\n: 8\n":": 9\n"\\u2028": 10\n'
    pieces = ["</s>", "<unk>", "yes", "~", "\x85", ": ", "it's", "\\", 'long "key"']
    assert yaml_pieces(text, "vocab.yml") == [*pieces, ":", "\u2028"]
    for bad, message in (
        ("a: 0\nb", "line 2 is no piece with its id"),
        ("a: 0\nb: 2\n", "not 0 to 1, each once"),
    ):
        with pytest.raises(InputError, match=message):
            yaml_pieces(bad, "vocab.yml")
