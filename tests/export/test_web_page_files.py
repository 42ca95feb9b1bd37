"""The files of the page: what is copied, and what is said where one is missing."""

import base64
import hashlib
import json
import warnings
from pathlib import Path

import pytest

from keras_transformer.data import listed_pieces
from keras_transformer.data.listed_pieces import Rules
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.export import web_page
from keras_transformer.export.program_card import program_card

pytestmark = pytest.mark.no_backend

WEB = Path(web_page.__file__).with_name("web")
COMMAND = "npm install --ignore-scripts @an/engine@1.2 pieces@3.0"


@pytest.fixture
def assets(tmp_path, monkeypatch):
    """A folder where npm installed packages, which are then the page's."""
    pins = {}
    for name, version in (("@an/engine", "1.2"), ("pieces", "3.0")):
        content = f"alert('{name}')".encode()
        path = tmp_path / "assets" / "node_modules" / name / "dist" / "index.js"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        (path.parent / "other.js").write_bytes(b"not needed")
        digest = base64.b64encode(hashlib.sha384(content).digest()).decode()
        files = {"dist/index.js": f"sha384-{digest}"}
        pins[name] = {"version": version, "files": files}
    monkeypatch.setattr(web_page, "_libraries", lambda: pins)
    return tmp_path / "assets"


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "export"
    folder.mkdir()
    return folder


def test_the_page_and_what_it_needs_of_the_packages_are_copied(folder, assets):
    web_page.check(assets=assets)
    assert web_page.write(folder, assets) == "index.html"
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    scripts = {
        f"node_modules/{name}/dist/index.js" for name in ("@an/engine", "pieces")
    }
    assert {file for file in files if (folder / file).is_file()} == {
        *web_page.FILES,
        *scripts,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        web_page.warn_of_missing(folder)


def test_what_is_missing_is_named_with_the_command(folder, assets):
    web_page.write(folder)
    path = "node_modules/@an/engine/dist/index.js"
    with pytest.warns(UserWarning) as caught:
        web_page.warn_of_missing(folder)
    assert str(caught[0].message) == (
        f"{folder} has no {path}; the page needs it: run in {folder}: {COMMAND}"
    )


def test_a_folder_without_the_packages_is_refused(folder, assets):
    with pytest.raises(InputError, match="has no node_modules") as refused:
        web_page.check(assets=folder)
    assert str(refused.value).endswith(f"; run there: {COMMAND}")
    (assets / "node_modules" / "pieces" / "dist" / "index.js").write_text("alert()")
    with pytest.raises(InputError, match=r"index\.js is of another version; run there"):
        web_page.check(assets=assets)


def test_a_tokenizer_that_is_a_list_of_pieces_has_no_page():
    rules = Rules(kind="bytes", pad=0, start=1, end=2, unknown=3, symbols=())
    pieces = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab"]
    listed = Tokenizer(listed_pieces.serialized(pieces, [("a", "b")], rules))
    pieces = Tokenizer.train(["a b"] * 9, 264)
    web_page.check(pieces, pieces, assets=None)
    with pytest.raises(InputError, match="is a list of pieces and merges; export with"):
        web_page.check(pieces, listed, assets=None)


def test_versions_and_hashes_are_pinned():
    pins = json.loads((WEB / "libraries.json").read_text("utf-8"))
    assert set(pins) == {"onnxruntime-web", "@agnai/sentencepiece-js"}
    guide = Path(__file__).parents[2] / "docs" / "browser.md"
    assert web_page.npm_command() in guide.read_text("utf-8")
    script = (WEB / "page.js").read_text("utf-8")
    for name, pin in pins.items():
        assert f"{name}@{pin['version']}" in web_page.npm_command()
        assert f'"{name}"' in script
        for file, integrity in pin["files"].items():
            assert f'"{file}"' in script
            assert len(base64.b64decode(integrity.removeprefix("sha384-"))) == 48


def test_the_card_tells_of_the_page():
    description = {"format": "onnx", "quantization": None}
    assert "index.html" not in program_card("", description)
    card = program_card("", description | {"page": "index.html"})
    assert "`index.html` translates in a browser" in card
    assert web_page.npm_command() in card
