"""Each family of imported models, in each use and each format: the same text.

The table of docs/import.md says what these tests show.
"""

import contextlib
import functools
import os
import re
import sys
import warnings
from pathlib import Path

import imported_families
import keras
import numpy as np
import pytest
from imported_families import FAMILIES
from imported_families import FORMATS
from imported_families import QUICK
from imported_families import REFUSALS
from imported_families import USES

import keras_transformer as kt
from keras_transformer.errors import InputError

pytestmark = [pytest.mark.one_backend, pytest.mark.export]

EVERY = bool(os.environ.get("EVERY_TEST"))
#: One family of each row of the table, or all.
FEW = {family.row: name for name, family in FAMILIES.items()}
FEW = list(FAMILIES if EVERY else FEW.values())
LINES = ["the cat sleeps under the old table", "a train leaves"]
TRANSLATIONS = ["die Katze", "ein Zug"]
OPTIONS = {"beam_size": 1, "max_length": 8, "min_length": 4}
#: So that random weights do not repeat one piece; LiteRT's own search has none of it.
MORE = {form: {"no_repeat_ngram_size": 1} for form in ("SavedModel", "ONNX")}
DOCUMENT = Path(__file__).parents[2] / "docs" / "import.md"
ON_TENSORFLOW = [
    pytest.mark.one_backend("tensorflow"),
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow", reason="TensorFlow exports"
    ),
]


class Imported:
    """A small folder of a family, imported, and where that is quick, fine-tuned.

    Random weights repeat one piece whatever the source is; tuned ones write more, and
    are so sure of it that no rounding changes it.
    """

    def __init__(self, name, path):
        self.family = FAMILIES[name]
        self.family.write(path / "foreign")
        codes = {
            f"{side}_language": code
            for side, code in zip(
                ("source", "target"), self.family.languages, strict=True
            )
            if code
        }
        kt.importing.convert(path / "foreign", path / "model", **codes)
        loaded = kt.Translator.load(path / "model")
        self.translator = kt.Translator(
            loaded.model,
            loaded.tokenizer,
            loaded.target_tokenizer,
            languages=loaded.languages,
            suppressed_tokens=loaded.decoding.suppressed_tokens,
            **OPTIONS,
        )
        if keras.backend.backend() == "torch":
            self.losses = self.tune()

    @functools.cached_property
    def expected(self):
        return self.translator.translate(LINES)

    def tune(self):
        """The loss of each step, on two pairs."""
        translator = self.translator
        pairs, _ = kt.data.encode_pairs(
            kt.data.ParallelText(LINES, TRANSLATIONS),
            translator.tokenizer,
            translator.target_tokenizer,
            max_length=200,
            languages=translator.languages,
        )
        keras.utils.set_random_seed(1)
        translator.model.compile(
            keras.optimizers.Adam(0.02), kt.training.LabelSmoothedCrossEntropy(0.0)
        )
        batches = kt.data.TokenBatches(pairs, 4096, max_buckets=1)
        history = translator.model.fit(batches, epochs=30, shuffle=False, verbose=0)
        return history.history["loss"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Imports by name, each once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = Imported(name, tmp_path_factory.mktemp("imported"))
        return made[name]

    return get


def export_to(name):
    """The module that exports to a format."""
    from keras_transformer.export import ctranslate2
    from keras_transformer.export import litert
    from keras_transformer.export import onnx
    from keras_transformer.export import saved_model
    from keras_transformer.export import transformers

    modules = saved_model, onnx, litert, ctranslate2, transformers
    return dict(zip(FORMATS, modules, strict=True))[name].export


def written(imported, name, form, folder):
    """The folder of an export; None where it is refused, as `REFUSALS` says."""
    one = imported(name)
    refusal = REFUSALS.get((one.family.row, form))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if refusal is None:
            return export_to(form)(one.translator, folder, **MORE.get(form, {}))
        with pytest.raises(InputError, match=refusal) as raised:
            export_to(form)(one.translator, folder)
    assert "\n" not in str(raised.value)
    assert not folder.exists()
    return None


# === Uses ===


@pytest.mark.parametrize("name", FEW)
def test_a_model_folder_is_fine_tuned_and_served(name, imported, tmp_path):
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from keras_transformer.serving.engine import Options
    from keras_transformer.serving.limits import Limits
    from keras_transformer.serving.loading import load_engine

    one = imported(name)
    assert np.isfinite(one.losses).all()
    assert one.losses[-1] < 0.5 * one.losses[0]
    assert any(one.expected)
    one.translator.save(tmp_path / "saved")
    engine = load_engine(tmp_path / "saved", Limits(batch_size=2))
    rows = engine.translate(LINES, Options(1))
    assert [row[0].text for row in rows] == one.expected


# === Formats ===


@pytest.mark.parametrize("name", FEW)
def test_ctranslate2(name, imported, tmp_path):
    pytest.importorskip("ctranslate2")
    folder = written(imported, name, "CTranslate2", tmp_path / "exported")
    if folder:
        assert said_by_program(folder) == imported(name).expected


@pytest.mark.parametrize("name", FEW)
def test_transformers(name, imported, tmp_path):
    pytest.importorskip("torch")
    library = pytest.importorskip("transformers")
    folder = written(imported, name, "transformers", tmp_path / "exported")
    if folder is None:
        return
    tokenizer = library.AutoTokenizer.from_pretrained(folder)
    model = library.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    translator = imported(name).translator
    direction = translator.direction()
    lines = [direction.prefix + line for line in LINES]
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    ids = translator.tokenizer.encode(lines)
    first = direction.source_ids(ids[0])
    if batch["input_ids"][0].tolist() != first:  # a language in front of the text
        codes = {"source": direction.source_language}
        codes["target"] = direction.target_language
        front = f">>{codes[translator.languages.source_layout[0]]}<< "
        lines = [front + line for line in lines]
        batch = tokenizer(lines, return_tensors="pt", padding=True)
    assert batch["input_ids"][0].tolist() == first
    found = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    assert [line.strip() for line in found] == [
        line.strip() for line in imported(name).expected
    ]


def said_by_program(folder):
    """What the program beside an export says, in this process."""
    with program_of(folder) as translate:
        return translate.Translator(folder, threads=1).translate(LINES, batch_size=2)


@contextlib.contextmanager
def program_of(folder):
    """The program beside an export as a module, and none of its modules afterwards."""
    names = ("translate", "engine", "search", "rules")
    sys.path.insert(0, str(folder))
    try:
        yield __import__("translate")
    finally:
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)


CELLS = [
    pytest.param(form, name, marks=ON_TENSORFLOW)
    for form, few in QUICK.items()
    for name in (FAMILIES if EVERY else few)
]


@pytest.mark.parametrize(("form", "name"), CELLS)
def test_formats_of_tensorflow(form, name, imported, tmp_path):
    packages = {"SavedModel": "tensorflow_text", "LiteRT": "ai_edge_litert"}
    packages["ONNX"] = "onnxruntime"
    pytest.importorskip(packages[form])
    folder = written(imported, name, form, tmp_path / "exported")
    if folder is None:
        return
    if form == "SavedModel":
        import tensorflow as tf

        signatures = tf.saved_model.load(str(folder)).signatures
        answer = signatures["serving_default"](text=tf.constant(LINES))
        found = [text.decode() for text in answer["translation"].numpy()]
    else:
        found = said_by_program(folder)
    translate = imported(name).translator.translate
    assert found == translate(LINES, **MORE.get(form, {}))


# === The table ===


def test_the_table_of_the_document_is_what_these_tests_show():
    text = DOCUMENT.read_text(encoding="utf-8")
    columns = (*USES, *FORMATS)
    head = re.escape(f"| {' | '.join(('family', *columns))} |")
    (table,) = re.findall(head + r"\n\|[-|]+\|\n((?:\|.*\n)+)", text)
    rows = {}
    for line in table.splitlines():
        row, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[row] = dict(zip(columns, cells, strict=True))
    assert list(rows) == list(dict.fromkeys(one.row for one in FAMILIES.values()))
    for row, cells in rows.items():
        for column, cell in cells.items():
            refused = (row, column) in REFUSALS
            assert cell == ("no" if refused else "yes"), (row, column)
    assert imported_families.QUICK.keys() <= set(FORMATS)
