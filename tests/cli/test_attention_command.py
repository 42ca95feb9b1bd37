"""`attention`: pictures, pages and reports of a real model folder."""

import json

import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

pytestmark = pytest.mark.one_backend

TEXT = "The cathedral is 250 meters high."
WORDS = ["--kind", "alignment"]


def test_a_page_shows_what_was_chosen_first(invoke, tmp_path):
    output = tmp_path / "maps.html"
    arguments = ["--text", TEXT, "--translation", "Der Dom.", "--output", output]
    arguments += ["--kind", "encoder", "--head", "-1"]
    assert invoke("attention", FOLDER, *arguments).exit_code == 0
    maps = kt.visualization.attention_maps(kt.Translator.load(FOLDER), TEXT, "Der Dom.")
    expected = kt.visualization.html_page(maps, "encoder", head=-1)
    assert output.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    "options",
    [[], ["--kind", "decoder", "--layer", "0", "--head", "mean"], WORDS],
    ids=["heads", "one head", "alignment"],
)
def test_pictures(invoke, tmp_path, options):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    output = tmp_path / "maps.png"
    invoke("attention", FOLDER, "--text", TEXT, "--output", output, *options)
    assert output.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [output]


def test_characters_without_a_font_are_one_warning(invoke, tmp_path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    output = tmp_path / "maps.png"
    arguments = ["--text", "a \U0001fae8 \U0001faf8", "--translation", "b"]
    result = invoke("attention", FOLDER, *arguments, "--output", output, *WORDS)
    warned = [line for line in result.stderr.splitlines() if "warning:" in line]
    assert len(warned) == 1
    assert "drawn as boxes because no installed font has them" in warned[0]


def test_a_report_is_a_table_or_json(invoke, tmp_path):
    files = tmp_path / "source", tmp_path / "target"
    sides = lines("source")[10:13], lines("beam")[10:13]
    for file, side in zip(files, sides, strict=True):
        file.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
    report = kt.visualization.head_report(kt.Translator.load(FOLDER), *sides)
    arguments = ["attention", FOLDER, "--source", files[0]]
    table = invoke(*arguments, "--target", files[1]).stdout
    assert table == f"{report}\n"
    output = tmp_path / "report.json"
    invoke(*arguments, "--target", files[1], "--output", output)
    assert json.loads(output.read_text()) == report.to_dict()
    assert invoke(*arguments).stdout == table  # the model's own translations


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either --text"),
        (["--text", "a", "--source", "b"], "or --source"),
        (["--text", "a"], "--output is missing"),
        (["--text", "a", "--output", "b.pdf"], "b.pdf must end in .png or .html"),
        (["--text", "a", "--target", "b"], "--target works with --source only"),
        (
            ["--text", "a", "--output", "b.png", "--head", "two"],
            "--head two is not valid",
        ),
        (
            ["--text", "a", "--output", "b.html", "--kind", "alignment"],
            "alignment draws a picture",
        ),
        (["--source", "a", "--kind", "alignment"], "work with --text only"),
        (["--source", "a", "--layer", "0"], "work with --text only"),
        (["--source", "a", "--translation", "b"], "work with --text only"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value) or "none",
)
def test_what_does_not_go_together_is_refused_at_once(invoke, arguments, message):
    with pytest.raises(InputError, match=message):
        invoke("attention", "no-model", *arguments)
