"""CTranslate2 folders and Argos packages, imported: ids, numbers, searches."""

import json
import shutil

import ctranslate2_folders
import numpy as np
import pytest
from foreign_folders import DIM

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.config.languages import direction_of
from keras_transformer.importing.reading import open_tensors
from keras_transformer.models.weights import weight_values
from reference import configs
from reference import models
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import TARGET_LENGTHS
from reference.weights import ids
from reference.weights import randomize

pytestmark = pytest.mark.one_backend

EXPORT = FOLDER.parent / "exports" / "ctranslate2"
#: Measured folder -> its tokenizers, source and target language.
MEASURED = {
    "marian": (("source.spm", "target.spm"), None, None),
    "marian-languages": (("source.spm", "target.spm"), None, "fra"),
    "m2m100": (("sentencepiece.bpe.model",), "en", "de"),
    "nllb": (("sentencepiece.bpe.model",), "eng_Latn", "deu_Latn"),
    "mbart": (("sentencepiece.bpe.model",), "en_XX", "de_DE"),
    "mbart50": (("sentencepiece.bpe.model",), "en_XX", "de_DE"),
    "t5": (("spiece.model",), None, None),
    "t5-v1_1": (("spiece.model",), None, None),
    "mt5": (("spiece.model",), None, None),
    "madlad": (("spiece.model",), None, "de"),
    "byt5": ((), None, None),
}
TAGS = (">>fra<< ", "<2de> ")


def logits_of(model, source, target):
    return backends.to_numpy(model({"source": source, "target": target}))


# === Measured folders ===


class Imported:
    """A measured folder: what its toolkit says, and the import of it."""

    def __init__(self, path, name, folder):
        files, *codes = MEASURED[name]
        sides = ("source_tokenizer", "target_tokenizer")
        tokenizers = {s: path / name / f for s, f in zip(sides, files, strict=False)}
        kt.importing.convert(path / "ctranslate2" / name, folder, **tokenizers)
        names = ("source_language", "target_language")
        given = {n: code for n, code in zip(names, codes, strict=True) if code}
        self.translator = kt.Translator.load(folder, **given)
        config = self.translator.model.config
        self.direction = direction_of(self.translator.languages, config, *codes)
        texts = path / "reference" / f"{name}.json"
        self.texts = json.loads(texts.read_text(encoding="utf-8"))
        self.arrays = dict(np.load(path / "reference" / f"{name}.npz"))
        said = (path / "reference-ctranslate2.json").read_text(encoding="utf-8")
        self.rows = json.loads(said)[name]["rows"]
        vocabulary = path / "ctranslate2" / name / "shared_vocabulary.json"
        self.pieces = json.loads(vocabulary.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", params=MEASURED)
def imported(request, shared_data, tmp_path_factory):
    path = shared_data / "pretrained"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    folder = tmp_path_factory.mktemp("imported") / "model"
    return Imported(path, request.param, folder)


def test_ids_and_logits_are_those_that_were_measured(imported):
    translator, direction = imported.translator, imported.direction
    texts, arrays = imported.texts, imported.arrays
    sources = [text.removeprefix(TAGS[0]) for text in texts["sources"]]
    rows = translator.tokenizer.encode(sources)
    assert [direction.source_ids(row) for row in rows] == texts["input_ids"]
    rows = translator.target_tokenizer.encode(texts["targets"])
    assert [direction.label_ids(row) for row in rows] == texts["label_ids"]
    logits = logits_of(translator.model, arrays["source_ids"], arrays["decoder_ids"])
    expected = arrays["logits"]
    config = translator.model.config
    if config.scale_logits and config.tie_embeddings != "all":
        # So says the converter's file; transformers does not scale them.
        expected = expected / np.sqrt(config.hidden_dim)
    difference = np.abs(logits - expected)[arrays["decoder_mask"].astype(bool)]
    # Padding that was added to Marian's vocabulary is never written.
    columns = [config.pad_id] if config.output_bias and config.end_id == 0 else []
    assert np.delete(difference, columns, axis=-1).max() < 1e-4


def test_greedy_translations_are_those_of_the_library(imported):
    translator, language = imported.translator, imported.direction.target_language
    codes = [] if language is None else [translator.languages.codes.get(language)]
    sources, expected = [], []
    for text, row in zip(imported.texts["sources"], imported.rows, strict=True):
        sources.append(text.removeprefix(TAGS[0]).removeprefix(TAGS[1]))
        found = [imported.pieces.index(piece) for piece in row["greedy"]]
        expected.append(found[1:] if codes and found[:1] == codes else found)
    limit = imported.texts["max_new_tokens"]
    found = translator.translate(sources, beam_size=1, max_length=limit)
    assert found == translator.target_tokenizer.decode(expected)


def test_a_tokenizer_of_another_language_is_refused(shared_data):
    path = shared_data / "pretrained"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    # Its converter wrote the source's vocabulary for both sides.
    with pytest.raises(kt.errors.InputError, match=r"target.spm: of its 119 pieces"):
        kt.importing.inspect(
            path / "ctranslate2" / "marian-separate",
            source_tokenizer=path / "marian-separate" / "source.spm",
            target_tokenizer=path / "marian-separate" / "target.spm",
        )


# === Exports of this package ===

CHANGES = {
    "rotary, grouped, gated": {"query_key_norm": False, "value_dim": 12},
    "deep, additive, unlike sides": {
        "query_key_norm": False,
        "deep_norm": False,
        "attention_scoring": "dot_product",
        "value_dim": 12,
    },
    "learned, deep encoder": {"attention_window": None},
}
PORTABLE = [
    name
    for name, fields in configs.OPTIONS.items()
    if "decoder" not in fields and name != "window"
]


def pieces(size, config, model):
    """A vocabulary of that size, in which special pieces stand as in the config."""
    special = {
        config.pad_id: "<pad>",
        config.start_id: "<s>",
        config.end_id: "</s>",
        3: "<unk>",
    }
    text = [*ctranslate2_folders.pieces_of(model), *map("word{}".format, range(size))]
    others = iter(text)
    return [special[i] if i in special else next(others) for i in range(size)]


def export(name, folder, quantization=None, **changes):
    """A model of `configs`, and the arguments of an import of its export."""
    pytest.importorskip("ctranslate2")
    from keras_transformer.export.ctranslate2_spec import specification

    layers = {} if name in ("paper", "learned, deep encoder") else configs.ONE_LAYER
    changes = {**layers, **CHANGES.get(name, {}), **changes}
    model = randomize(models.build(name, **changes))
    config = model.config
    sizes = config.source_vocabulary_size, config.target_vocabulary_size
    source, target = ctranslate2_folders.models()
    if sizes[0] == sizes[1]:
        source = target
    sides = [
        pieces(size, config, text)
        for size, text in zip(sizes, (source, target), strict=True)
    ]
    spec = specification(config, weight_values(model), *sides, 3)
    spec.optimize(quantization=quantization)
    folder.mkdir()
    spec.save(str(folder))
    (folder / "source.model").write_bytes(source)
    (folder / "target.model").write_bytes(target)
    return model


@pytest.mark.parametrize("name", PORTABLE)
def test_what_was_exported_comes_back(name, tmp_path):
    model = export(name, tmp_path / "export")
    kt.importing.convert(tmp_path / "export", tmp_path / "model")
    found = kt.Translator.load(tmp_path / "model").model
    config = model.config
    assert found.config.special_ids == config.special_ids
    assert found.config.tie_embeddings == config.tie_embeddings
    if config.position != "learned":
        assert found.config.position == config.position
        assert found.config.num_relative_buckets == config.num_relative_buckets
    source = ids(SOURCE_LENGTHS, seed=1, pad_id=config.pad_id)
    target = ids(TARGET_LENGTHS, seed=2, pad_id=config.pad_id)
    expected = logits_of(model, source, target)
    assert np.abs(expected).max() > 0.3
    np.testing.assert_allclose(
        logits_of(found, source, target), expected, atol=1e-4, rtol=1e-4
    )


def test_more_distances_than_positions_come_back_too(tmp_path):
    model = export("as T5", tmp_path / "export", max_relative_distance=99)
    kt.importing.convert(tmp_path / "export", tmp_path / "model")
    found = kt.Translator.load(tmp_path / "model").model
    source = np.random.default_rng(1).integers(4, 50, (1, 29))
    expected = logits_of(model, source, source)
    np.testing.assert_allclose(logits_of(found, source, source), expected, atol=1e-4)


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_quantized_weights_are_what_they_stand_for(quantization, tmp_path):
    model = export("halves", tmp_path / "export", quantization)
    kt.importing.convert(tmp_path / "export", tmp_path / "model")
    found = weight_values(kt.Translator.load(tmp_path / "model").model)
    for path, values in weight_values(model).items():
        # Rows there are columns here: the largest of all bounds each step.
        step = np.abs(values).max() / (127 if quantization == "int8" else 1000)
        np.testing.assert_allclose(found[path], values, rtol=0, atol=step)


def test_an_export_with_its_tokenizers_translates_the_same(tmp_path):
    report = kt.importing.convert(EXPORT, tmp_path / "model")
    assert report.left_out == ()
    ours, theirs = kt.Translator.load(FOLDER), kt.Translator.load(tmp_path / "model")
    assert theirs.tokenizer.model == ours.tokenizer.model
    assert theirs.decoding == ours.decoding
    assert theirs.model.config.special_ids == ours.model.config.special_ids
    weights = weight_values(ours.model)
    for path, values in weight_values(theirs.model).items():
        np.testing.assert_array_equal(values, weights[path])
    text = lines("source")[:4]
    assert theirs.translate(text, beam_size=1) == lines("greedy")[:4]


# === Folders of other programs ===


def imported_model(folder, output, **tokenizers):
    kt.importing.convert(folder, output, **tokenizers)
    return kt.Translator.load(output)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    return ctranslate2_folders.write_tokenizers(tmp_path_factory.mktemp("tokenizers"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory, tokenizers):
    """The import of a folder of OpenNMT-tf."""
    path = tmp_path_factory.mktemp("plain")
    folder = ctranslate2_folders.write(path / "foreign")
    return imported_model(folder, path / "model", **tokenizers)


def test_a_folder_of_opennmt_has_no_end_on_its_source(plain):
    translator, config = plain, plain.model.config
    assert not config.source_end
    assert config.layer_norm_epsilon == 1e-5
    assert (config.position, config.position_offset) == ("sinusoidal_halves_t2t", 1)
    assert config.special_ids == {"pad_id": 0, "start_id": 1, "end_id": 2}
    decoding = translator.decoding
    assert (decoding.beam_size, decoding.normalization) == (2, "average")
    # The vocabulary lacks <unk>: it is put behind it, and never written.
    (row,) = translator.tokenizer.encode(["the old cat ☃"])
    source, target = ctranslate2_folders.vocabularies()
    assert translator.tokenizer.pieces(row)[-1] == "<unk>"
    assert "".join(source[i] for i in row[:-1]) == "▁the▁old▁cat▁"
    logits = logits_of(translator.model, np.array([row]), np.array([[1, 5]]))
    assert (logits[..., len(target) :] == -30).all()


def test_files_of_before_give_the_same_model(plain, tokenizers, tmp_path):
    sides = ctranslate2_folders.vocabularies()
    arrays = ctranslate2_folders.arrays(sides)
    # Without tables, the library makes them; heads and names are those of before.
    for stack in ("encoder", "decoder"):
        del arrays[f"{stack}/position_encodings/encodings"]
        arrays[f"{stack}/scale_embeddings"] = np.int8(1)
    del arrays["decoder/alignment_heads"]
    matrix = arrays.pop("encoder/embeddings_0/weight")
    # Special pieces elsewhere in the source, and its start missing.
    order = [2, *range(3, len(sides[0])), 0]
    arrays["encoder/embeddings/weight"] = matrix[order]
    arrays = {
        name: values.astype("int8") if name.endswith("num_heads") else values
        for name, values in arrays.items()
    }
    sides[0] = [sides[0][i] for i in order]
    folder = ctranslate2_folders.write(tmp_path / "old", arrays, sides, layout=2)
    found = imported_model(folder, tmp_path / "model", **tokenizers)
    text = ["the cat sleeps under the table", "a train leaves"]
    rows = {t: t.tokenizer.encode(text)[0] for t in (plain, found)}
    spelled = [t.tokenizer.pieces(row) for t, row in rows.items()]
    assert spelled[0] == spelled[1]
    target = np.array([[1, 7, 9, 4]])
    logits = [logits_of(t.model, np.array([row]), target) for t, row in rows.items()]
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-5)


def test_a_decoder_may_start_with_zeros(tokenizers, tmp_path):
    sides = ctranslate2_folders.vocabularies()
    arrays = ctranslate2_folders.arrays(sides)
    arrays["decoder/start_from_zero_embedding"] = np.int8(1)
    options = {"decoder_start_token": "</s>", "add_source_eos": True}
    folder = ctranslate2_folders.write(tmp_path / "marian", arrays, **options)
    found = imported_model(folder, tmp_path / "model", **tokenizers)
    config = found.model.config
    assert config.source_end and config.start_id == config.pad_id
    # The same as where the row of the start holds zeros.
    del arrays["decoder/start_from_zero_embedding"]
    arrays["decoder/embeddings/weight"][1] = 0
    folder = ctranslate2_folders.write(tmp_path / "zeros", arrays)
    zeros = imported_model(folder, tmp_path / "other", **tokenizers)
    source, count = np.array([[5, 9, 7]]), len(sides[1])
    first = logits_of(found.model, source, np.array([[config.start_id, 6]]))
    second = logits_of(zeros.model, source, np.array([[1, 6]]))
    np.testing.assert_allclose(first[..., :count], second[..., :count], atol=1e-5)


def test_tables_that_are_no_sinusoids_are_kept(tokenizers, tmp_path):
    sides = ctranslate2_folders.vocabularies()
    arrays = ctranslate2_folders.arrays(sides)
    name = "decoder/position_encodings/encodings"
    arrays[name] = arrays[name][:30] + 0.01
    folder = ctranslate2_folders.write(tmp_path / "foreign", arrays)
    translator = imported_model(folder, tmp_path / "model", **tokenizers)
    config = translator.model.config
    assert (config.position, config.longest_sequence) == ("learned", 30)
    weights = weight_values(translator.model)
    np.testing.assert_array_equal(weights["target_position/embeddings"], arrays[name])


def test_options_in_the_config_are_taken_over_or_named(tokenizers, tmp_path):
    options = {
        "beam_size": 3,
        "length_penalty": 0.6,
        "min_decoding_length": 4,
        "sampling_topk": 9,
    }
    folder = ctranslate2_folders.write(tmp_path / "foreign", **options)
    report = kt.importing.inspect(folder, **tokenizers)
    assert report.left_out == ("sampling_topk of config.json: unknown; unused",)
    decoding = imported_model(folder, tmp_path / "model", **tokenizers).decoding
    assert (decoding.beam_size, decoding.min_length) == (3, 5)
    assert (decoding.normalization, decoding.length_penalty) == ("power", 0.6)


# === Packages of Argos Translate ===


def test_a_package_is_imported_from_its_folder_and_from_its_file(tmp_path):
    prefix = ctranslate2_folders.package_pieces()[9]
    folder = ctranslate2_folders.package(tmp_path / "package", target_prefix=prefix)
    path = ctranslate2_folders.packed(folder, tmp_path / "en_de.argosmodel")
    report = kt.importing.convert(path, tmp_path / "model")
    assert (report.family, report.languages) == ("Argos Translate", ("en", "de"))
    translator = kt.Translator.load(tmp_path / "model")
    languages, decoding = translator.languages, translator.decoding
    assert (languages.source, languages.target) == ("en", "de")
    assert languages.source_layout == ("text",)
    assert (decoding.beam_size, decoding.length_penalty) == (4, 0.2)
    assert translator.target_tokenizer.pieces([decoding.forced_start]) == [prefix]
    text = ["the old cat", "a train"]
    found = translator.translate(text, source_language="en", max_length=9)
    shutil.rmtree(folder / "stanza")
    other = imported_model(folder, tmp_path / "other")
    assert other.translate(text, max_length=9) == found
    assert any(found)
    with open_tensors(folder / "model") as tensors:
        matrix = tensors.read("encoder/embeddings_0/weight")
    assert matrix.shape[1] == DIM
    weights = weight_values(translator.model)
    np.testing.assert_array_equal(
        weights["source_embedding/embeddings"][: len(matrix)], matrix
    )
