"""Facts about a model in its folder: what is kept, refused, and made up for a run."""

import json
import shutil
from pathlib import Path

import pytest

from keras_transformer.config.about import About
from keras_transformer.errors import InputError
from keras_transformer.folder_config import read_config
from keras_transformer.training import run_folder
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config.run_config import difference

pytestmark = pytest.mark.no_backend

FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
FILES = {"source": "a/train.en", "target": "a/train.de"}


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "model"))


def write(folder, about):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "about": about}))


def run(corpus=FILES, **sections):
    data = sections.pop("data", {"train": [corpus]})
    return RunConfig(model={"preset": "tiny"}, data=data, output="runs/my", **sections)


def test_a_folder_of_before_tells_nothing(folder):
    assert read_config(folder).about == About()


def test_a_folder_tells_its_name_and_languages(folder):
    write(folder, {"name": "mine", "source_language": "en", "licence": "of later"})
    assert read_config(folder).about == About(name="mine", source_language="en")


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ([], r"about: expected keys with values, got \[\]"),
        ({"name": 3}, r"about\.name: Input should be a valid string, got 3"),
        ({"name": " "}, r"about\.name: expected one line of printable text"),
        ({"name": "x" * 101}, r"about\.name: String should have at most 100"),
        ({"training_text": "a\nb"}, r"about\.training_text: expected one line"),
    ],
)
def test_a_fault_is_named(about, message, folder):
    write(folder, about)
    with pytest.raises(InputError, match=rf"config\.json: {message}"):
        read_config(folder)


def test_a_run_tells_what_its_config_does():
    assert run_folder.about(run()) == About(
        name="my", training_text="the files train.en, train.de"
    )
    own = {"name": "my model", "target_language": "de", "training_text": "manuals"}
    assert run_folder.about(run(about=own)) == About(**own)
    languages = {"source_language": "en", "target_language": "de"}
    found = run_folder.about(run({**FILES, **languages}))
    assert (found.source_language, found.target_language) == ("en", "de")
    found = run_folder.about(run(data={"phrasebook": "en-fr"}))
    assert (found.source_language, found.target_language) == ("en", "fr")


def test_a_run_of_several_pairs_tells_none():
    corpora = [
        {**FILES, "source_language": "en", "target_language": code}
        for code in ("de", "fr")
    ]
    found = run_folder.about(run(data={"train": corpora}))
    assert (found.source_language, found.target_language) == (None, None)


def test_names_of_files_are_cut_and_made_visible():
    files = [f"{number}\x1b{'x' * 50}.tsv" for number in range(9)]
    text = run_folder.about(run({"tsv": files})).training_text
    assert len(text) == 300 and text.endswith("...")
    assert text.startswith("the files 0?xxx")


def test_another_name_is_no_other_run():
    assert difference(run(), run(about={"name": "other"})) == []


def test_a_trained_model_hands_its_languages_on(folder):
    write(folder, {"name": "old", "source_language": "en", "target_language": "de"})
    config = RunConfig(model={"folder": str(folder)}, data={"train": [FILES]})
    found = run_folder.about(config)
    assert (found.source_language, found.target_language) == ("en", "de")
    assert found.name == "transformer"
