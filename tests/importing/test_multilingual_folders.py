"""Folders of transformers with measured data, imported: ids, numbers, languages."""

import json
import shutil

import multilingual_folders
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.config.languages import direction_of
from keras_transformer.errors import InputError
from reference.marks import all_on_one_backend

#: Folder -> source and target language of its reference texts.
MEASURED = multilingual_folders.MEASURED | {"bart": (None, None), "fsmt": (None, None)}
#: transformers looks targets up in the dictionary of the source, as if it were theirs.
_WRONG_LABELS = ("fsmt",)


class Imported:
    """A measured folder: what its toolkit says, and the import of it."""

    def __init__(self, path, name, folder):
        self.name = name
        self.report = kt.importing.convert(path / name, folder)
        self.translator = kt.Translator.load(folder)
        config = self.translator.model.config
        languages = self.translator.languages
        self.direction = direction_of(languages, config, *MEASURED[name])
        texts = path / "reference" / f"{name}.json"
        self.texts = json.loads(texts.read_text(encoding="utf-8"))
        self.arrays = dict(np.load(path / "reference" / f"{name}.npz"))


@pytest.fixture(
    scope="module", params=all_on_one_backend(MEASURED, but=("mbart", "t5-v1_1"))
)
def imported(request, shared_data, tmp_path_factory):
    path = shared_data / "pretrained"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    folder = tmp_path_factory.mktemp("imported") / "model"
    return Imported(path, request.param, folder)


@pytest.mark.one_backend
def test_ids_are_those_of_their_tokenizers(imported):
    translator, direction = imported.translator, imported.direction
    # Their reference texts have the prefix in front already.
    sources = translator.tokenizer.encode(imported.texts["sources"])
    ids = [direction.source_ids(row) for row in sources]
    assert ids == imported.texts["input_ids"]
    assert all(text.startswith(direction.prefix) for text in imported.texts["sources"])
    wrong = imported.name in _WRONG_LABELS
    tokenizer = translator.tokenizer if wrong else translator.target_tokenizer
    targets = tokenizer.encode(imported.texts["targets"])
    labels = [direction.label_ids(row) for row in targets]
    assert labels == imported.texts["label_ids"]
    starts = imported.arrays["decoder_ids"][:, 0]
    assert set(starts.tolist()) == {direction.start_id}


def test_encoder_and_logits_are_theirs(imported):
    model, arrays = imported.translator.model, imported.arrays
    source_mask = arrays["source_mask"].astype(bool)
    memory = backends.to_numpy(model.encode(arrays["source_ids"]).memory)
    assert np.abs(memory - arrays["encoder"])[source_mask].max() < 1e-4
    decoder_mask = arrays["decoder_mask"].astype(bool)
    inputs = {"source": arrays["source_ids"], "target": arrays["decoder_ids"]}
    logits = backends.to_numpy(model(inputs))
    difference = np.abs(logits - arrays["logits"])[decoder_mask]
    # Logits of T5 folders reach 38: there float32 is as far off, on both sides.
    magnitude = max(1.0, np.abs(arrays["logits"]).max() / 3)
    assert difference.max() < 1e-4 * magnitude


GENERATED = multilingual_folders.FAMILIES


@pytest.fixture(scope="module", params=GENERATED)
def generated(request, tmp_path_factory):
    """Name, foreign folder, model folder."""
    path = tmp_path_factory.mktemp("generated")
    folder = multilingual_folders.write(path / "foreign", request.param)
    kt.importing.convert(folder, path / "model")
    return request.param, folder, path / "model"


@pytest.mark.one_backend
def test_a_generated_folder_is_what_transformers_says(generated):
    name, folder, model_folder = generated
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    family = GENERATED[name]
    theirs = getattr(transformers, family.model).from_pretrained(folder).eval()
    translator = kt.Translator.load(model_folder)
    generator = np.random.default_rng(3)
    size = translator.model.config.source_vocabulary_size
    ids = generator.integers(4, size, (3, 7))
    ids[1, 5:] = translator.model.config.pad_id
    target = generator.integers(4, size, (3, 6))
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(ids),
            attention_mask=torch.tensor(ids != translator.model.config.pad_id).long(),
            decoder_input_ids=torch.tensor(target),
        ).logits.numpy()
    logits = translator.model({"source": ids, "target": target})
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(backends.to_numpy(logits), expected, atol=1e-4)


@pytest.mark.one_backend
def test_a_missing_language_is_an_error_and_none_is_guessed(generated):
    name, _, model_folder = generated
    family = GENERATED[name]
    translator = kt.Translator.load(model_folder)
    languages, config = translator.languages, translator.model.config
    if family.target is None:
        assert languages is None
        return
    with pytest.raises(InputError, match=r"give (source|target)_language"):
        direction_of(languages, config)
    with pytest.raises(InputError, match="not 'xx'"):
        direction_of(languages, config, family.source, "xx")
    direction = direction_of(languages, config, family.source, family.target)
    ids = direction.label_ids(translator.target_tokenizer.encode(["a train"])[0])
    pieces = translator.target_tokenizer.pieces(ids)
    assert pieces.count("</s>") == 1


@pytest.mark.one_backend
def test_ids_of_languages_that_a_folder_lists_elsewhere_are_refused(tmp_path):
    folder = multilingual_folders.write(tmp_path / "foreign", "NLLB")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["added_tokens_decoder"] = {"5": {"content": "deu_Latn"}}
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InputError, match="'deu_Latn' has the id"):
        kt.importing.inspect(folder)


@pytest.mark.one_backend
def test_a_folder_of_one_pair_needs_no_language(tmp_path):
    folder = multilingual_folders.write(tmp_path / "foreign", "mBART-25")
    kt.importing.convert(folder, tmp_path / "first")
    codes = kt.Translator.load(tmp_path / "first").languages.codes
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["decoder_start_token_id"] = codes["ro_RO"]
    path.write_text(json.dumps(config), encoding="utf-8")
    kt.importing.convert(folder, tmp_path / "second")
    languages = kt.Translator.load(tmp_path / "second").languages
    assert (languages.source, languages.target) == ("en_XX", "ro_RO")


@pytest.mark.one_backend
def test_more_pieces_than_rows_are_refused(tmp_path):
    folder = multilingual_folders.write(tmp_path / "foreign", "M2M100")
    shutil.copy(folder / "vocab.json", folder / "before.json")
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    more = {f"more{number}": len(vocabulary) + number for number in range(20)}
    text = json.dumps(vocabulary | more)
    (folder / "vocab.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="use the files that belong together"):
        kt.importing.inspect(folder)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", ["M2M100", "mBART-25", "T5"])
def test_more_rows_than_the_file_holds_are_refused_before_they_are_made(name, tmp_path):
    folder = multilingual_folders.write(tmp_path / "foreign", name)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for size in (10**9, 10**12):
        path.write_text(json.dumps(config | {"vocab_size": size}), encoding="utf-8")
        with pytest.raises(InputError, match=r"config declares|less than or equal"):
            kt.importing.inspect(folder)
