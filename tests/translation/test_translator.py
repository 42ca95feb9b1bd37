"""Strings to strings, and the model folder on disk."""

import json
import shutil
import subprocess
import threading
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.config.about import About
from keras_transformer.errors import InputError
from keras_transformer.models.weights import named_weights
from reference import configs
from reference.weights import scatter

pytestmark = pytest.mark.one_backend
FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
SOURCES = (FOLDER / "source.txt").read_text(encoding="utf-8").splitlines()


def expected(name):
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def translator():
    return kt.Translator.load(FOLDER)


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "model"))


@pytest.mark.each_backend
@pytest.mark.no_tensorflow
@pytest.mark.parametrize(
    ("beam_size", "name"),
    [(4, "beam"), pytest.param(1, "greedy", marks=pytest.mark.one_backend)],
)
def test_the_format_1_folder_translates_as_ever(translator, beam_size, name):
    assert translator.translate(SOURCES, beam_size=beam_size) == expected(name)


def test_a_blank_source_without_an_end_is_scored_as_an_end_alone(translator):
    """As the SavedModel does it: no row may be padding alone."""
    config = translator.model.config.model_copy(update={"source_end": False})
    tokenizers = translator.tokenizer, translator.target_tokenizer
    plain = kt.Translator(kt.Transformer(config), *tokenizers)
    assert plain._lines.encode(["", SOURCES[0]], [1, 2]) == [
        [config.end_id],
        translator.tokenizer.encode(SOURCES[:1])[0],
    ]
    blank, other = plain.score(["", ""], ["a", "b"])
    assert np.isfinite(blank.log_probability)
    assert blank.log_probability != other.log_probability


@pytest.mark.each_backend
@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch runs one program at a time"
)
def test_several_batches_at_once_are_each_as_if_alone(translator, monkeypatch):
    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2}
    sizes |= {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = translator.model.config.model_copy(update=sizes)
    model = scatter(kt.Transformer(config), seed=3, deviation=0.5)
    translator = kt.Translator(model, translator.tokenizer, max_length=6)
    sources = sorted(SOURCES, key=len)[:4]
    targets = translator.translate(sources, beam_size=1)
    alone = translator.score(sources, targets)
    monkeypatch.setattr(backends, "num_programs", lambda: 3)
    search = translator._searcher  # looked at: where its batches run
    threads = set()
    default = search._translate

    def noted(*arguments):
        threads.add(threading.current_thread())
        return default(*arguments)

    monkeypatch.setattr(search, "_translate", noted)
    assert translator.translate(sources, beam_size=1, batch_size=2) == targets
    assert translator.translate(sources, beam_size=1) == targets  # in three batches
    assert threading.main_thread() not in threads
    assert translator.translate(sources[:1], beam_size=1) == targets[:1]
    assert threading.main_thread() in threads
    for score, expected in zip(translator.score(sources, targets), alone, strict=True):
        np.testing.assert_allclose(score.token_scores, expected.token_scores, atol=1e-5)


def test_empty_lines_give_empty_lines(translator):
    found = translator.translate(["", SOURCES[0], " \t", ""])
    assert found == ["", expected("beam")[0], "", ""]
    assert translator.translate([]) == []


def test_details_agree_with_the_score_of_the_same_text(translator):
    details = translator.translate(SOURCES[:5], top_beams=3, return_details=True)
    for source, hypotheses in zip(SOURCES, details, strict=False):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        best = hypotheses[0]
        assert best.finished
        assert best.ids[-1] == translator.model.config.end_id
        assert translator.target_tokenizer.decode([best.ids]) == [best.text]
        penalty = ((5 + len(best.ids)) / 6) ** 0.6
        assert best.score == pytest.approx(best.log_probability / penalty, rel=1e-5)
        (score,) = translator.score([source], [best.text])
        if score.num_tokens == len(best.ids):  # the same segmentation
            assert score.log_probability == pytest.approx(
                best.log_probability, abs=1e-4
            )


def test_scores_of_a_batch_are_those_of_single_lines(translator):
    targets = expected("beam")
    together = translator.score(SOURCES, targets)
    for source, target, score in zip(SOURCES, targets, together, strict=True):
        (alone,) = translator.score([source], [target])
        assert alone.num_tokens == score.num_tokens
        assert alone.log_probability == pytest.approx(score.log_probability, abs=1e-4)
    with pytest.raises(InputError, match="2 sources do not pair with 1 targets"):
        translator.score(["a", "b"], ["c"])


def test_attention_weights_belong_to_the_translation(translator):
    ((best,),) = translator.translate(
        SOURCES[:1], return_details=True, return_attention_weights=True
    )
    config = translator.model.config
    S, T = len(best.source_tokens), len(best.ids)
    layers, heads = config.num_decoder_layers, config.num_heads
    assert best.attention["cross"].shape == (layers, heads, T, S)
    assert best.attention["decoder"].shape == (layers, heads, T, T)
    assert best.attention["encoder"].shape == (1, heads, S, S)
    for weights in best.attention.values():
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert np.triu(best.attention["decoder"][0, 0], 1).max() == 0.0


def test_a_model_folder_may_hold_the_words_that_its_model_knows(tmp_path):
    translator, folder = kt.Translator.load(FOLDER), tmp_path / "model"
    assert translator.known_words is None
    assert "knows" not in translator.info()
    translator.save(folder)
    assert not (folder / "known_words.json").exists()
    translator.known_words = kt.data.KnownWords(description="words", words={"dog"})
    translator.save(folder)
    found = kt.Translator.load(folder, folder)  # of several, those of the first
    assert found.known_words == translator.known_words
    assert found.known_words.unknown_in("The dog") == ["The"]
    assert next(iter(found.info().items())) == (
        "knows",
        "1 words; other words it has not learned",
    )
    assert "knows: 1 words" in (folder / "README.md").read_text()


def test_a_model_folder_may_tell_its_name_and_languages(tmp_path):
    translator, folder = kt.Translator.load(FOLDER), tmp_path / "model"
    assert translator.about == About()
    translator.about = About(name="mine", source_language="en", target_language="de")
    translator.save(folder)
    found = kt.Translator.load(folder)
    assert found.about == translator.about
    facts = {"name": "mine", "from": "en", "into": "de"}
    assert dict([*found.info().items()][:3]) == facts
    assert "* name: mine" in (folder / "README.md").read_text()


@pytest.mark.no_tensorflow
def test_saved_and_loaded_it_translates_the_same(translator, tmp_path):
    translator.save(tmp_path / "a" / "model")
    again = kt.Translator.load(tmp_path / "a" / "model")
    assert again.translate(SOURCES) == expected("beam")
    assert (again.beam_size, again.length_penalty) == (4, 0.6)
    again.save(tmp_path / "a" / "model")  # an older model folder is replaced
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["model"]


def test_weights_are_stored_under_names_of_our_own(translator):
    with h5py.File(FOLDER / "model.weights.h5") as file:
        names = []
        file.visititems(
            lambda name, item: names.append(name) if hasattr(item, "shape") else None
        )
    assert sorted(names) == sorted(named_weights(translator.model))
    assert "decoder_1/cross_attention/key_kernel" in names


def test_separate_vocabularies(tmp_path):
    source = kt.data.Tokenizer.train(["a house"] * 9, 270)
    target = kt.data.Tokenizer.train(["das kleine Haus"] * 9, 275)
    sizes = {"source_vocabulary_size": 270, "target_vocabulary_size": 275}
    config = configs.tiny(**sizes, tie_embeddings="target")
    translator = kt.Translator(kt.Transformer(config), source, target, beam_size=2)
    translator.save(tmp_path / "model")
    again = kt.Translator.load(tmp_path / "model")
    assert again.translate(["a house"]) == translator.translate(["a house"])
    with pytest.raises(InputError, match="target: the tokenizer has vocabulary_size"):
        kt.Translator(translator.model, source)


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "config.json").unlink(), "is not a model folder"),
        (lambda f: (f / "model.weights.h5").unlink(), "model.weights.h5 is missing"),
        (lambda f: (f / "tokenizer.model").unlink(), "cannot read the tokenizer"),
        (lambda f: cut(f / "config.json"), "is not JSON, or is cut off"),
        (lambda f: cut(f / "model.weights.h5"), "is not a weights file"),
        (lambda f: cut(f / "tokenizer.model"), "tokenizer"),
        (lambda f: (f / "model.weights.h5").write_bytes(b"PK"), "is not a weights"),
        (lambda f: edit(f / "config.json", format_version=9), "format_version 9"),
        (lambda f: edit(f / "config.json", kind="other"), "kind .other. is not"),
        (
            lambda f: edit(f / "config.json", tokenizer={"source": "../x"}),
            "lacks or misspells",
        ),
        (
            lambda f: edit(
                f / "config.json", tokenizer={"source": "../x", "target": "../x"}
            ),
            "which no model folder has",
        ),
    ],
)
def test_a_broken_folder_gives_one_clear_error(folder, break_it, message):
    break_it(folder)
    with pytest.raises(InputError, match=message) as error:
        kt.Translator.load(folder)
    assert "\n" not in str(error.value)


def test_a_saved_model_is_no_model_folder():
    folder = FOLDER.parents[2] / "saved_models" / "phrasebook-en-de"
    with pytest.raises(InputError, match="is a SavedModel, for TF Serving; give the"):
        kt.Translator.load(folder)


def test_a_run_folder_names_the_model_folder_in_it(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "run" / "averaged")
    with pytest.raises(InputError, match=r"is a run folder; give .*run.averaged$"):
        kt.Translator.load(tmp_path / "run")


def test_weights_of_another_model_are_refused(folder, tmp_path):
    config = json.loads((folder / "config.json").read_text())
    model = {**config["model"], "intermediate_dim": 8}
    edit(folder / "config.json", model=model)
    with pytest.raises(InputError, match=r"has shape .* needs"):
        kt.Translator.load(folder)
    edit(folder / "config.json", model={**config["model"], "num_encoder_layers": 2})
    with pytest.raises(InputError, match="lacks the weight 'encoder_1/"):
        kt.Translator.load(folder)


def test_weights_of_another_model_of_this_architecture_are_refused(tmp_path):
    translator = kt.Translator.load(FOLDER)
    translator.save(tmp_path / "a")
    first, *_ = translator.model.trainable_weights
    first.assign(-first)
    translator.save(tmp_path / "b")
    kt.Translator.load(tmp_path / "b")
    shutil.copy(tmp_path / "b" / "model.weights.h5", tmp_path / "a")
    with pytest.raises(InputError, match=r"holds other weights than those that"):
        kt.Translator.load(tmp_path / "a")


def test_a_folder_of_something_else_is_not_overwritten(translator, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="exists and is not a model folder"):
        translator.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(InputError, match="cannot"):
        translator.save(tmp_path / "letter.txt" / "model")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if (
        not shutil.which("mount")
        or subprocess.run(command, capture_output=True).returncode
    ):
        pytest.skip("needs root, who can mount a small disk")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_nothing_half_written(translator, small_disk):
    with pytest.raises(InputError, match=r"cannot write .*: No space left") as error:
        translator.save(small_disk / "model")
    assert "\n" not in str(error.value)
    assert list(small_disk.iterdir()) == []


def test_a_bad_line_is_named_by_its_own_number(translator):
    lines = ["", SOURCES[0], "", "a \ud800 b"]
    with pytest.raises(InputError, match=r"line 13 holds the lone surrogate U\+D800"):
        translator.translate(lines, first_line=10)


def test_bad_arguments(translator):
    with pytest.raises(InputError, match="must be a list of strings"):
        translator.translate("one string")
    with pytest.raises(InputError, match="top_beams 5 must be between 1 and"):
        translator.translate(["a"], top_beams=5)
    with pytest.raises(InputError, match="batch_size must be a whole number above 0"):
        translator.translate(["a"], batch_size=0)
    long = "a " * 3000
    with pytest.raises(InputError, match=r"line 12 has .* tokens, but the model takes"):
        translator.translate(["a", long], first_line=11)
