"""BART and FSMT folders, imported: ids, numbers, texts, exports, refusals."""

import importlib
import json
import sys

import listed_folders
import numpy as np
import pytest
from foreign_folders import ENGLISH
from foreign_folders import GERMAN
from safetensors.numpy import load_file
from safetensors.numpy import save_file

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.data.listed_pieces import ListedPieces
from keras_transformer.errors import InputError
from keras_transformer.export import ctranslate2
from keras_transformer.export import saved_model
from keras_transformer.export import transformers as transformers_export
from keras_transformer.models.weights import weight_values
from keras_transformer.training import load_config
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

LINES = [
    "the cat sleeps under the table",
    "  It's 3½ o'clock,   isn't it? – “Yes” & 漢字 🐌…",
    "a train <s> leaves\tthe station.",
]
GREEDY = {
    "beam_size": 1,
    "max_length": 12,
    "length_penalty": 0.0,
    "long_lines": "error",
}


class Generated:
    """A generated folder, and the import of it."""

    def __init__(self, name, path):
        self.name = name
        self.folder = listed_folders.WRITERS[name](path / "foreign")
        self.report = kt.importing.convert(self.folder, path / "model")
        self.translator = kt.Translator.load(path / "model")
        self.direction = self.translator.direction()
        self.ids = self.translator.tokenizer.encode(LINES)


@pytest.fixture(scope="module", params=listed_folders.WRITERS)
def generated(request, tmp_path_factory):
    pytest.importorskip("tokenizers")
    pytest.importorskip("sacremoses")
    return Generated(request.param, tmp_path_factory.mktemp("generated"))


@pytest.fixture(scope="module")
def theirs(generated):
    """Tokenizer and model of transformers."""
    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, listed_folders.CLASSES[generated.name])
    # It may start a second name of a matrix at random, see `tie_word_embeddings`.
    return (
        transformers.AutoTokenizer.from_pretrained(generated.folder),
        model.from_pretrained(generated.folder).eval(),
    )


def generate(model, ids):
    """The greedy translation of transformers, without its start token."""
    torch = pytest.importorskip("torch")
    found = model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        num_beams=1,
        max_length=GREEDY["max_length"] + 1,
        forced_eos_token_id=None,
    )
    return found[0].tolist()[1:]


def test_ids_and_numbers_and_greedy_texts_are_theirs(generated, theirs):
    torch = pytest.importorskip("torch")
    tokenizer, model = theirs
    translator, direction = generated.translator, generated.direction
    lines = [LINES[0], LINES[1], LINES[2].replace("<s>", "")]
    ids = translator.tokenizer.encode(lines)
    ids = [direction.source_ids(row) for row in ids]
    assert ids == [tokenizer(line).input_ids for line in lines]
    source = np.full((3, max(map(len, ids))), 1)
    for row, filled in zip(source, ids, strict=True):
        row[: len(filled)] = filled
    size = translator.model.config.target_vocabulary_size
    target = np.random.default_rng(3).integers(4, size, (3, 6))
    with torch.no_grad():
        expected = model(
            input_ids=torch.tensor(source),
            attention_mask=torch.tensor(source != 1).long(),
            decoder_input_ids=torch.tensor(target),
            use_cache=False,  # with it FSMT lets positions see later ones
        )
    memory = backends.to_numpy(translator.model.encode(source).memory)
    encoded = expected.encoder_last_hidden_state.numpy()
    np.testing.assert_allclose(memory[source != 1], encoded[source != 1], atol=1e-4)
    logits = backends.to_numpy(translator.model({"source": source, "target": target}))
    assert np.abs(logits).max() > 1.0
    np.testing.assert_allclose(logits, expected.logits.numpy(), atol=1e-4)
    found = translator.translate(lines, return_details=True, **GREEDY)
    for row, (hypothesis,) in zip(ids, found, strict=True):
        written = generate(model, row)
        assert hypothesis.ids == written
        text = tokenizer.decode(written, skip_special_tokens=True)
        assert hypothesis.text == text


def test_what_looks_like_a_special_token_is_text(generated):
    special = {*generated.translator.tokenizer.listed.rules.symbols} - {3}
    assert not special.intersection(generated.ids[2])
    pieces = generated.translator.tokenizer.pieces(generated.ids[2])
    if generated.name == "BART":  # its bytes spell everything
        assert "".join(pieces) == "aĠtrainĠ<s>ĠleavesĉtheĠstation."
        assert generated.translator.tokenizer.decode(generated.ids) == LINES


def test_the_search_is_that_of_the_folder(generated):
    changed = generated.translator.decoding.changed()
    if generated.name == "BART":
        assert changed == {"beam_size": 1, "normalization": "average"}
        assert generated.direction.label_ids([7]) == [0, 7, 2]
        assert generated.report.languages == ("und",)
    else:
        power = {"normalization": "power", "length_penalty": 1.1}
        assert changed == {"beam_size": 5, **power}
        assert generated.direction.label_ids([7]) == [7, 2]
        languages = [
            side.listed.rules.language
            for side in (
                generated.translator.tokenizer,
                generated.translator.target_tokenizer,
            )
        ]
        assert languages == ["en", "de"]


def test_words_are_aligned_where_pieces_are_parts_of_them(generated):
    options = {**GREEDY, "return_details": True, "return_alignments": True}
    if generated.name == "FSMT":
        with pytest.raises(InputError, match="translate without alignments"):
            generated.translator.translate(LINES[:1], **options)
        return
    ((hypothesis,),) = generated.translator.translate(LINES[:1], **options)
    words = len(LINES[0].split())
    assert hypothesis.alignment
    assert all(source < words for source, _ in hypothesis.alignment)


# === The way out ===


def program(folder, monkeypatch):
    """The class `Translator` of the program beside an export."""
    monkeypatch.syspath_prepend(folder)
    for name in ("translate", "engine", "listed_pieces"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("translate").Translator(folder, 1)


@pytest.mark.export
def test_the_program_of_an_export_cuts_text_the_same_way(
    generated, tmp_path, monkeypatch
):
    pytest.importorskip("ctranslate2")
    options = {**GREEDY, "normalization": "average"}
    folder = ctranslate2.export(generated.translator, tmp_path / "export", **options)
    translate = program(folder, monkeypatch)
    lines = [*LINES, ""]
    assert [translate.source.encode([x])[0] for x in LINES] == generated.ids
    assert translate.translate(lines) == generated.translator.translate(
        lines, **options
    )
    for name in ("translate", "engine", "listed_pieces"):
        monkeypatch.delitem(sys.modules, name)


def test_a_saved_model_is_refused_for_its_tokenizers(generated, tmp_path):
    with pytest.raises(InputError, match="export to ctranslate2, onnx or litert"):
        saved_model.export(generated.translator, tmp_path / "export")
    with pytest.raises(InputError, match="KerasHub has no tokenizer"):
        generated.translator.tokenizer.to_keras_nlp()
    assert not list(tmp_path.iterdir())


@pytest.mark.export
def test_transformers_loads_an_export_and_it_comes_back(generated, theirs, tmp_path):
    transformers = pytest.importorskip("transformers")
    translator = generated.translator
    options = {"normalization": "power", **GREEDY}
    folder = transformers_export.export(translator, tmp_path / "export", **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    assert type(model) is type(theirs[1])
    ids = [generated.direction.source_ids(row) for row in generated.ids]
    assert [tokenizer(line).input_ids for line in LINES] == ids
    assert generate(model, ids[0]) == generate(theirs[1], ids[0])
    kt.importing.convert(folder, tmp_path / "back")
    back = kt.Translator.load(tmp_path / "back")
    assert back.tokenizer.model == translator.tokenizer.model
    assert back.target_tokenizer.model == translator.target_tokenizer.model
    assert back.languages == translator.languages
    before = dict(weight_values(translator.model))
    for path, values in weight_values(back.model).items():
        np.testing.assert_array_equal(values, before[path])
    transformers_export.export(back, folder)  # in place of the other


CONFIG = """
model: {folder: MODEL, dropout: 0.0, attention_dropout: 0.0, activation_dropout: 0.0}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 400, max_length: 90}
training:
  {steps: 8, warmup_steps: 1, learning_rate: 0.02, schedule: constant,
  label_smoothing: 0.0, checkpoint_every: 8, average_last: 1, log_every: 8}
output: tuned
"""


def test_a_run_goes_on_with_the_model(generated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = {"en": ENGLISH, "de": GERMAN}
    for language, lines in pairs.items():
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / f"train.{language}").write_text(text, encoding="utf-8")
    config = CONFIG.replace("MODEL", str(generated.report.folder))
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    train(load_config("config.yaml"))
    tuned = kt.Translator.load("tuned/averaged")
    before = generated.translator
    assert tuned.tokenizer.model == before.tokenizer.model
    assert tuned.target_tokenizer.model == before.target_tokenizer.model
    assert (tuned.languages, tuned.decoding) == (before.languages, before.decoding)
    scores = [
        sum(score.log_probability for score in one.score(ENGLISH, GERMAN))
        for one in (before, tuned)
    ]
    assert scores[1] > 0.8 * scores[0]


# === Other forms of a folder ===


@pytest.fixture
def bart(tmp_path):
    pytest.importorskip("tokenizers")
    return listed_folders.bart(tmp_path / "bart")


@pytest.fixture
def fsmt(tmp_path):
    pytest.importorskip("sacremoses")
    return listed_folders.fsmt(tmp_path / "fsmt")


def edit(path, **fields):
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **fields}), encoding="utf-8")


def tokenizer_json(folder, pairs, **fields):
    """Puts `tokenizer.json` in the place of vocabulary and merges."""
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    merges = [line.split() for line in lines] if pairs else lines
    mask = vocabulary.pop("<mask>")
    content = {
        "added_tokens": [{"id": mask, "content": "<mask>"}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**content, **fields}), encoding="utf-8")
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()


@pytest.mark.parametrize("pairs", [True, False])
def test_a_tokenizer_json_is_read_where_there_are_no_other_files(bart, tmp_path, pairs):
    kt.importing.convert(bart, tmp_path / "first")
    tokenizer_json(bart, pairs)
    kt.importing.convert(bart, tmp_path / "second")
    first, second = (
        (tmp_path / name / "tokenizer.model").read_bytes()
        for name in ("first", "second")
    )
    assert first == second
    edit(bart / "tokenizer_config.json", add_prefix_space=True)
    kt.importing.convert(bart, tmp_path / "third")
    third = ListedPieces((tmp_path / "third" / "tokenizer.model").read_bytes())
    plain = ListedPieces(first)
    assert third.encode(["cat"]) == plain.encode([" cat"]) != plain.encode(["cat"])


def test_a_model_without_its_head_is_said_to_be_pre_trained_only(bart):
    path = bart / "model.safetensors"
    held = load_file(path)
    held.pop("final_logits_bias")
    save_file({k.removeprefix("model."): v for k, v in held.items()}, path)
    report = kt.importing.inspect(bart)
    assert "pre-trained model alone" in report.left_out[0]
    assert report.num_weights > 1000


def text(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def config(**fields):
    return lambda folder: edit(folder / "config.json", **fields)


def vocabulary(name, piece):
    def rewrite(folder):
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        content["other"] = content.pop(piece)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return rewrite


def too_few_rows(folder):
    edit(folder / "config.json", vocab_size=9)
    path = folder / "model.safetensors"
    held = load_file(path)
    held["model.shared.weight"] = held["model.shared.weight"][:9].copy()
    save_file(held, path)


HUGE = 10**9
#: Family, what is wrong, and what the message says.
REFUSALS = {
    "rows": ("bart", config(vocab_size=HUGE), r"config declares .*together"),
    "too few rows": (
        "bart",
        too_few_rows,
        r"has \d+ pieces, but the matrix of config.json has 9 rows",
    ),
    "pre-norm": ("bart", config(normalize_before=True), "translate with fairseq"),
    "unknown piece": ("bart", vocabulary("vocab.json", "<unk>"), "lacks .*'<unk>'"),
    "merges": ("bart", text("merges.txt", "#version\na b\nab\n"), "line 3 has no two"),
    "no merges": (
        "bart",
        lambda folder: (folder / "merges.txt").unlink(),
        "merges.txt.*get all files",
    ),
    "no tokenizer": (
        "bart",
        lambda folder: (folder / "vocab.json").unlink(),
        "tokenizer.json.*get all files",
    ),
    "splitter": (
        "bart",
        lambda folder: tokenizer_json(folder, False, pre_tokenizer={"type": "Bert"}),
        "not byte-level BPE as BART has it; add vocab.json and merges.txt",
    ),
    "vocabulary": (
        "bart",
        lambda folder: tokenizer_json(folder, False, added_tokens=[3]),
        "holds no vocabulary with merges",
    ),
    "source rows": ("fsmt", config(src_vocab_size=HUGE), "config declares"),
    "target rows": ("fsmt", config(tgt_vocab_size=HUGE), "config declares"),
    "padding": ("fsmt", config(pad_token_id=[1]), "pad_token_id must be a number"),
    "languages": (
        "fsmt",
        lambda folder: edit(folder / "tokenizer_config.json", langs=["en"]),
        "langs .* must be two languages",
    ),
    "language": (
        "fsmt",
        lambda folder: edit(folder / "tokenizer_config.json", langs=["en", "../a"]),
        r"language '\.\./a' is no code",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_folder_is_refused_in_one_sentence(name, request):
    family, change, message = REFUSALS[name]
    folder = request.getfixturevalue(family)
    change(folder)
    with pytest.raises(InputError, match=message) as error:
        kt.importing.inspect(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def test_without_sacremoses_the_message_says_what_to_install(fsmt, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(InputError, match="run pip install sacremoses"):
        kt.importing.inspect(fsmt)
