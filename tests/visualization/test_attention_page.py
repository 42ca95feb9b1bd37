"""The page of attention: its text, and the page in a real browser without a window."""

import html.parser
import json

import numpy as np
import pytest
from sample_maps import HARD
from sample_maps import maps

from keras_transformer.errors import InputError
from keras_transformer.visualization import html_page
from reference import browsers

pytestmark = pytest.mark.no_backend

SOURCE = ["A", "▁h", "ouse", ".", "</s>"]
TARGET = ["Ein", "▁Haus", ".", "</s>"]
PHONE, DESKTOP = (390, 844), (1280, 900)


class Scripts(html.parser.HTMLParser):
    """The scripts of a page, as a browser parts them: `(attributes, text)`."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "script":
            self.found.append((dict(attributes), ""))

    def handle_data(self, data):
        if self.found and self.rawdata and self.cdata_elem == "script":
            attributes, text = self.found[-1]
            self.found[-1] = attributes, text + data


def data_of(page):
    (data, program) = Scripts(page).found
    assert data[0]["type"] == "application/json"
    assert program[0] == {}
    return json.loads(data[1])


def test_the_page_holds_all_weights():
    found = maps(SOURCE, TARGET)
    data = data_of(html_page(found))
    assert [kind["name"] for kind in data["kinds"]] == ["encoder", "decoder", "cross"]
    for kind in data["kinds"]:
        rows, columns = found.tokens(kind["name"])
        assert (kind["rows"], kind["columns"]) == (rows.labels, columns.labels)
        weights = np.array(kind["weights"]) / 1000
        np.testing.assert_allclose(weights, found.weights[kind["name"]], atol=5.1e-4)
    assert data["first"] == {"kind": "cross", "layer": 1, "head": "mean"}
    assert (data["source"], data["target"]) == ("A house.", "Ein Haus.")


def test_any_text_is_data_and_nothing_else():
    found = maps(HARD, HARD[::-1])
    page = html_page(found)
    assert page.count("</script>") == html_page(maps("a", "b")).count("</script>")
    kind = data_of(page)["kinds"][0]
    assert kind["rows"] == found.source.labels
    assert kind["rows"][0] == "</script>"


def test_it_loads_nothing_and_names_no_other_place():
    page = html_page(maps(SOURCE, TARGET)).replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in page
    for sign in ("http:", "https:", "src=", "url(", "@import", "fetch("):
        assert sign not in page


def test_what_is_shown_first_can_be_chosen():
    found = maps(SOURCE, TARGET)
    first = data_of(html_page(found, "encoder", 0, -1))["first"]
    assert first == {"kind": "encoder", "layer": 0, "head": 2}
    with pytest.raises(InputError, match="no head 3"):
        html_page(found, head=3)
    with pytest.raises(InputError, match="no attention of the kind 'encoder'"):
        html_page(maps(SOURCE, TARGET, kinds=["cross"]), "encoder")


# === In a browser ===


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    pytest.importorskip("selenium.webdriver", reason="needs selenium")
    if not browsers.INSTALLED:
        pytest.skip("needs Chromium and its chromedriver")
    driver = browsers.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser, tmp_path):
    """`show(maps, size, **what is shown first)` opens the page of maps."""

    def run(found, size=DESKTOP, **first):
        file = tmp_path / "maps.html"
        file.write_text(html_page(found, **first), encoding="utf-8")
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        metrics["mobile"] = size == PHONE
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(file.as_uri())
        return browser

    yield run
    assert not browser.get_log("browser")  # no error, and nothing it may not load


def all_of(browser, selector):
    return browser.find_elements("css selector", selector)


def texts(browser, selector):
    return [element.text for element in all_of(browser, selector)]


def weights_shown(browser, selector="#map tbody td"):
    script = (
        "return [...document.querySelectorAll(arguments[0])]"
        ".map((element) => Number(element.style.getPropertyValue('--weight')))"
    )
    return browser.execute_script(script, selector)


def assert_shown(browser, weights):
    """The map shows weights, the strongest as 1."""
    expected = np.array(weights) / np.max(weights)
    np.testing.assert_allclose(weights_shown(browser), expected.ravel(), atol=4e-3)


@pytest.mark.slow
def test_kind_layer_and_head_are_chosen(show):
    found = maps(SOURCE, TARGET)
    page = show(found)
    assert texts(page, "header p") == ["A house.", "Ein Haus."]
    assert texts(page, "#rows li") == found.target.labels
    assert texts(page, "#columns li") == found.source.labels
    assert_shown(page, found.weights["cross"][1].mean(axis=0))
    all_of(page, "#heads input")[2].click()
    assert_shown(page, found.weights["cross"][1, 1])
    all_of(page, "#layers input")[0].click()
    assert_shown(page, found.weights["cross"][0, 1])
    all_of(page, "#kinds input")[0].click()
    assert_shown(page, found.weights["encoder"][0, 1])
    assert texts(page, "#rows li") == found.source.labels
    assert len(all_of(page, "#heads canvas")) == 4  # the mean and three heads


@pytest.mark.slow
def test_pointing_at_a_word_shows_what_it_attends_to(show):
    action_chains = pytest.importorskip("selenium.webdriver").ActionChains
    found = maps(SOURCE, TARGET, layers=1, heads=1)
    found.weights["cross"][0, 0, 1] = [0.07, 0.6, 0.3, 0.03, 0.0]
    page = show(found)
    word = all_of(page, "#rows button")[1]
    action_chains(page).move_to_element(word).perform()
    said = "Haus attends to: h (60 %), ouse (30 %), A (7 %), . (3 %)"
    assert texts(page, "#looked") == [said]
    assert word.get_attribute("aria-pressed") == "true"
    np.testing.assert_allclose(
        weights_shown(page, "#columns span"), np.array([7, 60, 30, 3, 0]) / 60
    )
    assert len(all_of(page, "#map tr.looking")) == 1
    # A cell of the map points at the word of its row.
    action_chains(page).move_to_element(all_of(page, "#map tbody td")[0]).perform()
    assert texts(page, "#looked")[0].startswith("Ein attends to: ")


@pytest.mark.slow
def test_it_works_by_keyboard_alone(show):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    found = maps(SOURCE, TARGET)
    page = show(found)

    def press(*pressed):
        page.switch_to.active_element.send_keys(*pressed)
        return page.switch_to.active_element

    focus = page.find_element("css selector", "body")
    focus.send_keys(keys.TAB)
    assert page.switch_to.active_element.get_attribute("value") == "cross"
    press(keys.ARROW_LEFT)
    assert_shown(page, found.weights["decoder"][1].mean(axis=0))
    press(keys.TAB)
    press(keys.ARROW_LEFT)
    press(keys.TAB)
    press(keys.ARROW_RIGHT)
    assert_shown(page, found.weights["decoder"][0, 0])
    assert press(keys.TAB).text == "Ein"
    assert press(keys.ARROW_DOWN).text == "Haus"
    assert texts(page, "#looked")[0].startswith("Haus attends to: ")
    assert press(keys.END).text == "⟨end⟩"
    assert press(keys.ARROW_DOWN).text == "⟨end⟩"
    assert press(keys.HOME).text == "Ein"
    assert press(keys.TAB).get_attribute("id") == "map"
    style = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.execute_script(style) == "solid"  # the focus is seen


@pytest.mark.slow
def test_any_text_is_shown_as_it_is(show):
    found = maps(HARD, HARD[::-1])
    page = show(found)
    words = [word.get_attribute("textContent") for word in all_of(page, "#rows button")]
    assert words == found.target.labels
    assert words[-1] == "</script>"
    assert page.execute_script("return document.scripts.length") == 2


@pytest.mark.slow
def test_it_fits_on_a_phone(show):
    words = [f"▁word{i}" for i in range(30)]
    page = show(maps(words, words), PHONE)
    width = page.execute_script("return document.documentElement.scrollWidth")
    assert width <= PHONE[0]
    for choice in all_of(page, ".choices label"):
        assert choice.rect["height"] >= 40  # for a finger


@pytest.mark.slow
def test_every_control_has_a_name_and_text_can_be_read(show):
    page = show(maps(SOURCE, TARGET))
    roles = {"button", "radio", "region", "group", "list", "table"}
    named = browsers.named_controls(page, roles)
    assert not [role for role, name in named if not name]
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for selector in ("body", ".quiet", "legend", "#looked"):
            assert browsers.contrast(page, selector) >= 4.5, (scheme, selector)
