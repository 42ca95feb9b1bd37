"""CTranslate2 gives what the model gives, without PyTorch and without this package.

The library runs in processes of its own: PyTorch in the same process slows it down.
"""

import copy
import json

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.config import UNKNOWN_ID
from keras_transformer.config.about import About
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.export import ctranslate2
from keras_transformer.export.ctranslate2_spec import check_config
from keras_transformer.export.ctranslate2_spec import specification
from keras_transformer.importing import convert
from keras_transformer.models.scoring import score
from keras_transformer.models.search import search
from keras_transformer.models.weights import weight_values
from reference import configs
from reference import models
from reference.fixture_folder import BLOCKED
from reference.fixture_folder import lines
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import TARGET_LENGTHS
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize

pytest.importorskip("ctranslate2")
# Once is enough: weights are the same anywhere.
pytestmark = [pytest.mark.export, pytest.mark.one_backend]

#: Fields that make of a model of `configs` one that the library can be given.
CHANGES = {
    "rotary, grouped, gated": {"query_key_norm": False},
    "deep, additive, unlike sides": {
        "query_key_norm": False,
        "deep_norm": False,
        "attention_scoring": "dot_product",
    },
}
PORTABLE = [
    name
    for name, fields in configs.OPTIONS.items()
    if not {"attention_window", "decoder"} & fields.keys()
]
LENGTH = 5

RUN = """
import json
import ctranslate2

results = []
for task in json.load(open({path!r})):
    model = ctranslate2.Translator(task["folder"], intra_threads=1)
    found = model.translate_batch(
        task["sources"],
        beam_size=1,
        max_decoding_length={length},
        suppress_sequences=task["suppressed"],
    )
    scored = model.score_batch(task["sources"], task["targets"])
    beam = model.translate_batch(
        task["sources"],
        beam_size=3,
        length_penalty=0,
        min_decoding_length=0,
        max_decoding_length={length},
        return_scores=True,
    )
    again = model.score_batch(task["sources"], [r.hypotheses[0] for r in beam])
    results.append(
        (
            [r.hypotheses[0] for r in found],
            [sum(r.log_probs) for r in scored],
            [r.scores[0] for r in beam],
            [sum(r.log_probs[:{length}]) for r in again],
        )
    )
print(json.dumps(results))
"""


def pieces(ids):
    return [f"piece {int(token)}" for token in ids]


def ended(rows, lengths, config):
    """Rows of ids (B, T) with the end behind each, then padding."""
    rows = np.pad(rows, [(0, 0), (0, 1)], constant_values=config.pad_id)
    rows[np.arange(len(rows)), lengths] = config.end_id
    return rows


def task_and_truth(name, folder):
    """What the library is asked, and our own greedy translations and scores."""
    model = models.model(name)
    if name in CHANGES:
        model = randomize(models.build(name, **CHANGES[name]))
    config = model.config
    check_config(config)
    vocabularies = (config.source_vocabulary_size, config.target_vocabulary_size)
    spec = specification(
        config,
        weight_values(model),
        *(pieces(range(v)) for v in vocabularies),
        UNKNOWN_ID,
    )
    spec.optimize()
    folder.mkdir()
    spec.save(str(folder))
    source = ids(SOURCE_LENGTHS, seed=1, pad_id=config.pad_id)
    target = ids(TARGET_LENGTHS, seed=2, pad_id=config.pad_id)
    task = {
        "folder": str(folder),
        "sources": [
            pieces(row[:n]) for row, n in zip(source, SOURCE_LENGTHS, strict=True)
        ],
        "targets": [
            pieces(row[:n]) for row, n in zip(target, TARGET_LENGTHS, strict=True)
        ],
        "suppressed": [pieces([config.pad_id]), pieces([config.start_id])],
    }
    source = ops.convert_to_tensor(ended(source, SOURCE_LENGTHS, config))
    target = ops.convert_to_tensor(ended(target, TARGET_LENGTHS, config))
    limits = ops.full((len(SOURCE_LENGTHS),), LENGTH, "int32")
    greedy = DecodingOptions(beam_size=1)
    result = search(model, source, limits, length=LENGTH, options=greedy)
    content = numpy(result.lengths)[:, 0] - numpy(result.finished)[:, 0]
    found = [
        pieces(row[:n])
        for row, n in zip(numpy(result.tokens)[:, 0], content, strict=True)
    ]
    return task, (found, numpy(score(model, source, target)))


def test_every_config_gives_the_same_translations_and_scores(tmp_path, run_python):
    pairs = [task_and_truth(name, tmp_path / name) for name in PORTABLE]
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps([task for task, _ in pairs]))
    results = run_python(RUN.format(path=str(path), length=LENGTH), block=BLOCKED)
    results = json.loads(results.splitlines()[-1])
    for name, (_, (found, scores)), theirs in zip(
        PORTABLE, pairs, results, strict=True
    ):
        assert theirs[0] == found, name
        np.testing.assert_allclose(theirs[1], scores, atol=1e-4, err_msg=name)
        # Hypotheses of a beam are scored as they are alone.
        np.testing.assert_allclose(*theirs[2:], atol=1e-4, err_msg=name)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    output = tmp_path_factory.mktemp("export") / "model"
    return ctranslate2.export(translator, output, card="# Of a test\n")


USE = """
import json, sys
sys.path.insert(0, {folder!r})
from translate import Translator

translator = Translator({folder!r}, threads=1)
lines = {lines!r}
greedy = translator.translate(lines, beam_size=1)
translator.engine.suppressed = None  # the others would share their probability
rows = translator.hypotheses(lines, beam_size=4, length_penalty=0.6)
beam = [hypotheses[0] for hypotheses in rows if hypotheses]
sources = [translator.source.encode(line) + [2] for line in lines if line.strip()]
totals = translator.engine.score(sources, [[*h.ids, 2] for h in beam])
print(json.dumps([greedy, [(h.score, len(h.ids)) for h in beam], totals]))
"""


def test_a_folder_translates_alone(folder, run_python):
    source = ["", *lines("source"), "  "]
    printed = run_python(USE.format(folder=str(folder), lines=source), block=BLOCKED)
    greedy, beam, totals = json.loads(printed.splitlines()[-1])
    assert greedy == ["", *lines("greedy"), ""]
    # Its score of a hypothesis is log-probability / length^alpha, the end counted.
    for (score_of_beam, length), total in zip(beam, totals, strict=True):
        assert score_of_beam * (length + 1) ** 0.6 == pytest.approx(total, abs=1e-4)


def test_the_program_reads_and_writes_lines(folder, run_python):
    code = f"""
import io, runpy, sys
sys.stdin = io.TextIOWrapper(io.BytesIO({chr(10).join(lines("source")).encode()!r}))
sys.argv = ["translate.py", "--beam-size", "1", "--threads", "1"]
sys.path.insert(0, {str(folder)!r})
runpy.run_path({str(folder / "translate.py")!r}, run_name="__main__")
"""
    assert run_python(code, block=BLOCKED).split("\n")[:-1] == lines("greedy")


def test_what_it_says_of_its_model_comes_back(translator, tmp_path):
    own = kt.Translator(
        translator.model,
        translator.tokenizer,
        translator.target_tokenizer,
        about=About(name="a name", source_language="de"),
    )
    options = {"suppressed_tokens": (7, 9), "beam_size": 3}
    ctranslate2.export(own, tmp_path / "export", **options)
    convert(tmp_path / "export", tmp_path / "model")
    found = kt.Translator.load(tmp_path / "model")
    assert found.decoding.suppressed_tokens == (7, 9)
    assert found.decoding.beam_size == 3
    assert (found.about.name, found.about.source_language) == ("a name", "de")
    assert found.known_words == translator.known_words


def test_the_program_ends_where_a_limit_leaves_the_end_alone(
    translator, tmp_path, run_python
):
    options = {"beam_size": 1, "max_length": 1, "forced_end": True}
    folder = ctranslate2.export(translator, tmp_path / "export", **options)
    code = f"""
import json, sys
sys.path.insert(0, {str(folder)!r})
from translate import Translator
print(json.dumps(Translator({str(folder)!r}, threads=1).translate(["a b", "c"])))
"""
    printed = run_python(code, block=BLOCKED)
    assert json.loads(printed.splitlines()[-1]) == ["", ""]


def test_the_card_says_how_to_use_it(folder):
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Of a test\n\n# For CTranslate2\n")
    assert "pip install sentencepiece ctranslate2\npython translate.py <" in card
    assert "in float32.\n" in card


def test_quantized_models_are_smaller_and_translate(
    translator, folder, tmp_path, run_python
):
    sizes = {None: (folder / "model.bin").stat().st_size}
    for name in ctranslate2.QUANTIZATIONS:
        quantized = ctranslate2.export(translator, tmp_path / name, quantization=name)
        sizes[name] = (quantized / "model.bin").stat().st_size
        code = USE.format(folder=str(quantized), lines=lines("source"))
        greedy, *_ = json.loads(run_python(code, block=BLOCKED).splitlines()[-1])
        same = sum(a == b for a, b in zip(greedy, lines("greedy"), strict=True))
        assert same >= (19 if name == "float16" else 10)
    assert sizes["float16"] < 0.55 * sizes[None]
    assert sizes["int8"] <= sizes["int8_float32"] < 0.65 * sizes[None]


def test_an_older_export_is_replaced_and_nothing_else(translator, folder, tmp_path):
    (folder / "model.bin").write_bytes(b"older")
    (folder / "__pycache__").mkdir(exist_ok=True)
    ctranslate2.export(translator, folder)
    assert (folder / "model.bin").stat().st_size > 5
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "model.bin").touch()  # of another model of CTranslate2
    with pytest.raises(InputError, match="is not an export"):
        ctranslate2.export(translator, foreign)
    (foreign / "model.bin").rename(tmp_path / "letter.txt")
    foreign.rmdir()
    with pytest.raises(InputError, match="is not an export"):
        ctranslate2.export(translator, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_what_it_cannot_represent_is_refused(tmp_path, translator):
    local = copy.copy(translator)
    local.model = models.model("window")
    with pytest.raises(InputError, match="attention_window 2"):
        ctranslate2.export(local, tmp_path / "model")
    with pytest.raises(InputError, match="quantization 'int4' is unknown"):
        ctranslate2.export(translator, tmp_path / "model", quantization="int4")
    assert not list(tmp_path.iterdir())
