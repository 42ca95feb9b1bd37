"""The page of an export to ONNX in a real browser: equal to the exported program."""

import functools
import http.server
import importlib
import json
import os
import random
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.export import programs
from keras_transformer.export import web_page
from reference import browsers
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines
from reference.search_options import OPTIONS

pytest.importorskip("selenium.webdriver", reason="needs selenium")
pytest.importorskip("onnxruntime", reason="needs onnxruntime")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

#: A folder where npm installed the packages of the page. CI sets it; the tests then
#: fail where they are not there.
PACKAGES = os.environ.get("WEB_PACKAGES")

pytestmark = [
    pytest.mark.no_backend,
    pytest.mark.slow,
    pytest.mark.skipif(
        not browsers.INSTALLED, reason="needs Chromium and its chromedriver"
    ),
    pytest.mark.skipif(
        not PACKAGES, reason="needs WEB_PACKAGES, the npm packages of the page"
    ),
]

EXPORT = FOLDER.parent / "exports" / "onnx"
PROGRAMS = {
    "translate.py": "translate.py",
    "search.py": "search.py",
    "rules.py": "rules.py",
    "onnx_engine.py": "engine.py",
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = browsers.start(tmp_path_factory.mktemp("profile"))
    driver.set_script_timeout(120)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """An export with its page, as this version writes it around the graphs."""
    web_page.check(assets=PACKAGES)
    folder = tmp_path_factory.mktemp("export") / "model"
    shutil.copytree(EXPORT, folder)
    for program, name in PROGRAMS.items():
        shutil.copy(Path(programs.__file__).with_name(program), folder / name)
    search = DecodingOptions(beam_size=4, max_length=18)  # quick, and a cache grows
    describe(folder, search=search.model_dump())
    web_page.write(folder, PACKAGES)
    return folder


@pytest.fixture(scope="module")
def program(export):
    """The module `translate` of the export."""
    names = [Path(name).stem for name in PROGRAMS.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(export)
        for name in names:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("translate")
        for name in names:
            sys.modules.pop(name, None)


def describe(folder, **changes):
    path = folder / "model.json"
    description = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps(description), "utf-8")


@pytest.fixture(scope="module")
def address(export):
    """Where the folders beside the export, and it, are served as files."""

    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Files, directory=export.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser, address, export):
    """The page of the export, with its model loaded."""
    if browser.current_url != f"{address}/{export.name}/index.html":
        open_page(browser, f"{address}/{export.name}")
    yield browser
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    assert not complaints  # no error, and nothing that the page may not load


def open_page(browser, address):
    browser.get(f"{address}/index.html")
    until_idle(browser)


def until_idle(browser):
    busy = "return document.querySelector('.busy') !== null"
    WebDriverWait(browser, 120).until_not(lambda browser: browser.execute_script(busy))


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def translations(browser, lines, beam_size):
    """What the page makes of lines."""
    fields = {
        "source": "".join(f"{line}\n" for line in lines),
        "beam-size": beam_size,
    }
    for name, value in fields.items():
        fill = "document.getElementById(arguments[0]).value = arguments[1]"
        browser.execute_script(fill, name, value)
    one(browser, "#go").click()
    until_idle(browser)
    assert not one(browser, "#error").is_displayed(), one(browser, "#error").text
    items = "return [...document.querySelectorAll('#translations li')]"
    return browser.execute_script(f"{items}.map((item) => item.textContent)")


def many_lines():
    """200 lines: of the fixture, of its words in another order, and odd ones."""
    source = lines("source")
    odd = [
        "",
        " \t ",
        "\u3000\xa0\u2028",
        "\x1c\x85\u200d",
        "🐌 ☃ 한국",
        " a  b ",
        "▁ <unk>",
    ]
    words = " ".join(source).split()
    generator = random.Random(0)
    mixed = [
        " ".join(generator.choices(words, k=generator.randint(1, 4)))
        for _ in range(200 - len(source) - len(odd))
    ]
    return [*source, *odd, *mixed]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_page_translates_as_the_program(page, export, program, beam_size):
    source = many_lines()
    expected = program.Translator(export, threads=1).translate(source, beam_size)
    assert translations(page, source, beam_size) == expected
    assert len(set(expected)) > 100


#: A search of the page on a table.
SEARCH = """
const [tables, ids, options, limit, done] = arguments;
const cut = (name) => ["best_ids", "best_log_probabilities"].includes(name);
const decoder = {
  mask: tables.attention[0][0].map(() => true),
  step: async (tokens, position, beams, count, names) => {
    const row = (name, token) => {
      const values = tables[name][position][token].map((value) => value ?? NEVER);
      return cut(name) ? values.slice(0, count) : values;
    };
    const rows = (name) => [name, tokens.map((token) => row(name, token))];
    return Object.fromEntries(names.map(rows));
  },
};
const fail = (error) => done(String(error));
search(decoder, limit, new Rules(ids, options)).then(done, fail);
"""


@pytest.mark.parametrize("name", OPTIONS)
def test_the_search_of_the_page_is_that_of_the_program(page, program, name):
    """On a step that is a table, by position and last token."""
    options = DecodingOptions(**OPTIONS[name])
    size, length, limit = 11, 4, 7
    generator = np.random.default_rng(3)
    logits = generator.normal(0, 2, (limit, size, size)).astype("float32")
    attention = generator.uniform(0, 0.7, (limit, size, length)).astype("float32")
    ids = {"start": 1, "end": 2, "suppressed": [0, 1, *options.suppressed_tokens]}
    decoder = Table(logits, attention, ids["suppressed"])
    search = sys.modules["search"].search
    (expected,) = search(decoder, [limit], ids, options.model_dump())
    assert expected
    found = page.execute_async_script(
        SEARCH, decoder.tables(), ids, options.model_dump(), limit
    )
    assert [h["ids"] for h in found] == [h.ids for h in expected]
    np.testing.assert_allclose(
        [[h["total"], h["score"]] for h in found],
        [[h.log_probability, h.score] for h in expected],
        rtol=1e-5,
        atol=1e-5,
    )


class Table:
    """A decoder step that is a table."""

    def __init__(self, logits, attention, suppressed):
        self.mask = np.ones((1, attention.shape[2]), bool)
        logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
        logs[:, :, suppressed] = -np.inf
        ids = np.argsort(-logs, axis=2, kind="stable")
        self.values = {
            "logits": logits,
            "attention": attention,
            "best_ids": ids.astype("int32"),
            "best_log_probabilities": np.take_along_axis(logs, ids, axis=2),
        }

    def __call__(self, tokens, position, beams, count, names):
        arrays = [self.values[name][position][tokens] for name in names]
        cut = {"best_ids", "best_log_probabilities"}
        pairs = zip(names, arrays, strict=True)
        return [array[..., :count] if name in cut else array for name, array in pairs]

    def tables(self):
        """Its values in words of JSON, which has no infinity."""
        return {
            name: np.where(np.isfinite(values), values.astype(object), None).tolist()
            for name, values in self.values.items()
        }


def test_a_long_line_is_refused_and_leaves_no_translation(page):
    assert translations(page, ["the cat"], 1) != [""]
    page.execute_script(
        "document.querySelector('#source').value = 'a cat\\n' + 'word '.repeat(2000)"
    )
    one(page, "#source").send_keys(Keys.CONTROL, Keys.ENTER)
    until_idle(page)
    assert "Line 2 has " in one(page, "#error").text
    assert not one(page, "#copy").is_displayed()
    one(page, "#beam-size").clear()
    one(page, "#beam-size").send_keys("0")
    one(page, "#go").click()
    until_idle(page)
    assert "from 1 (greedy search) to " in one(page, "#error").text
    assert not page.execute_script("return translations.children.length")


def test_every_control_has_a_name_and_text_can_be_read(page):
    controls = browsers.named_controls(page, {"textbox", "button", "spinbutton"})
    assert all(name for _, name in controls)
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for selector in ("body", ".quiet", "#go", "label"):
            assert browsers.contrast(page, selector) >= 4.5, (scheme, selector)


def test_prefixes_limits_and_rules_are_those_of_the_program(
    browser, address, export, program, capsys
):
    """As a model of several languages has them, with what model.json may ask for."""
    folder = shutil.copytree(export, export.with_name("rules"))
    search = DecodingOptions(
        beam_size=4,
        num_beam_groups=2,
        diversity_penalty=0.5,
        normalization="power",
        length_penalty=0.8,
        patience=1.5,
        min_length=6,
        no_repeat_ngram_size=2,
        repetition_penalty=1.2,
        forced_start=7,
        forced_end=True,
        max_source_length=24,
        long_lines="truncate",
    )
    around = {"prefix": "the ", "before": [9], "after": [2, 11]}
    languages = {"source": "en", "target": "de", **around}
    describe(folder, search=search.model_dump(), languages=languages)
    source = lines("source")[:4]
    open_page(browser, f"{address}/rules")
    translator = program.Translator(folder, threads=1)
    for beam_size in (1, 4):
        expected = translator.translate(source, beam_size)
        messages = capsys.readouterr().err
        assert translations(browser, source, beam_size) == expected
        warnings = one(browser, "#warnings").text.split("\n")
        assert warnings[0].startswith("Line 1 has ")
        assert len(warnings) == messages.count("warning: ") > 1
    assert one(browser, "#translations").get_attribute("lang") == "de"
    assert not browser.get_log("browser")


def test_a_package_that_is_missing_or_another_is_named(browser, address, export):
    folder = shutil.copytree(export, export.with_name("incomplete"))
    name = "node_modules/@agnai/sentencepiece-js/dist/index.js"
    script = folder / name
    command = (
        f'Run "{web_page.npm_command()}" in the folder of this page, and load the page '
        f"again."
    )
    for content, problem in (
        ("alert()", "is not that of version"),
        (None, "is missing"),
    ):
        script.unlink() if content is None else script.write_text(content)
        open_page(browser, f"{address}/incomplete")
        assert one(browser, "#error").text.startswith(f"{name} {problem}")
        assert one(browser, "#error").text.endswith(command)
    browser.get_log("browser")  # the refusals that this test made


def test_a_page_on_a_disk_says_how_to_serve_it(browser, export):
    open_page(browser, export.as_uri())
    assert "http.server" in one(browser, "#error").text
    browser.get_log("browser")
