"""The page in a real browser without a window: by mouse, by keyboard, on a phone."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("selenium.webdriver", reason="needs selenium")
pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from test_languages_of_requests import Multilingual

from keras_transformer.config.about import About
from keras_transformer.data.known_words import KnownWords
from reference import browsers

pytestmark = [
    pytest.mark.no_backend,
    pytest.mark.slow,
    pytest.mark.skipif(
        not browsers.INSTALLED, reason="needs Chromium and its chromedriver"
    ),
]

PHONE, DESKTOP = (390, 844), (1280, 900)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = browsers.start(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, server):
    """The page, freshly opened at the size of a desktop."""
    open_page(browser, server, DESKTOP)
    yield browser
    complaints = [entry["message"] for entry in browser.get_log("browser")]
    assert not complaints  # no error, and nothing that the page may not load


def open_page(browser, server, size):
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**metrics, "mobile": size == PHONE}
    )
    browser.get(f"http://{server.host}:{server.port}/")
    server.until(lambda: "fake" in text_of(browser, "#model"))


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def all_of(browser, selector):
    return browser.find_elements(By.CSS_SELECTOR, selector)


def text_of(browser, selector):
    return one(browser, selector).text


def content_of(browser, selector):
    """The text of what the page is replacing; None where there is nothing yet."""
    script = "return document.querySelector(arguments[0])?.textContent"
    return browser.execute_script(script, selector)


def translate(browser, server, text, *keys):
    """Types into what has the focus, as a person without a mouse does."""
    browser.switch_to.active_element.send_keys(text, *keys)
    server.until(lambda: all_of(browser, "#target-words button"))


def test_translations_hypotheses_and_attention_are_seen(page, server):
    one(page, "#source").send_keys("a house\n\nthe cat sleeps")
    one(page, "#go").click()
    server.until(lambda: all_of(page, "#target-words button"))
    assert [item.text for item in all_of(page, "#translations li")] == [
        "A HOUSE",
        "",
        "THE CAT SLEEPS",
    ]
    beams = [item.text for item in all_of(page, "#beams .text")]
    assert beams == ["A HOUSE", "A HOUSE!", "A HOUSE!!"]
    assert "−1.000" in text_of(page, "#beams .score")
    all_of(page, "#translations button")[1].click()
    server.until(lambda: len(all_of(page, "#target-words button")) == 3)
    all_of(page, "#target-words button")[1].click()
    assert text_of(page, "#looked").startswith("CAT: cat 100 %")
    all_of(page, "#beams button")[1].click()
    assert all_of(page, "#beams button")[1].get_attribute("aria-pressed") == "true"
    one(page, "#matrix-details summary").click()
    rows = [row.text.split() for row in all_of(page, "#matrix tbody tr")]
    assert rows == [["THE", "100"], ["CAT", "100"], ["SLEEPS", "100"]]


def test_a_model_without_attention_has_hypotheses(browser, start_server):
    engine = FakeEngine()
    engine.attention = False
    server = start_server(engine)
    open_page(browser, server, DESKTOP)
    one(browser, "#source").send_keys("a house")
    one(browser, "#go").click()
    server.until(lambda: len(all_of(browser, "#beams button")) == 3)
    all_of(browser, "#beams button")[1].click()
    assert all_of(browser, "#beams button")[1].get_attribute("aria-pressed") == "true"
    for selector in ("#attention", "#matrix-details"):
        assert not one(browser, selector).is_displayed()
    assert not any(options.attention for _, options in engine.batches)
    assert not browser.get_log("browser")


def test_words_that_the_model_has_not_learned_are_marked(browser, start_server):
    engine = FakeEngine()
    engine.known_words = KnownWords(
        description="words",
        words={"the", "cat", "sleeps"},
        examples=["The cat sleeps."],
    )
    server = start_server(engine, languages=("en", "de"))
    open_page(browser, server, DESKTOP)
    assert "The model knows 3 words; other" in text_of(browser, "#knows")
    assert one(browser, "#source").get_attribute("placeholder") == "The cat sleeps."
    one(browser, "#source").send_keys("the cat\n\nthe <b>bird</b> sings\n<b>")
    one(browser, "#go").click()
    server.until(lambda: all_of(browser, "#target-words button"))
    marked = [item.text.split("\n") for item in all_of(browser, "#translations li")]
    assert marked == [
        ["THE CAT"],
        [""],
        ["THE <B>BIRD</B> SINGS", "unknown words: bird, sings"],
        ["<B>"],
    ]
    assert all_of(browser, ".unknown span")[0].get_attribute("lang") == "en"
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for selector in (".unknown", "#knows"):
            assert browsers.contrast(browser, selector) >= 4.5, (scheme, selector)
    copied = (
        "let copied; navigator.clipboard.writeText = async (text) => {copied = text};"
    )
    browser.execute_script(
        f"{copied} document.querySelector('#copy').click(); window.copied = copied"
    )
    assert browser.execute_script("return window.copied") == (
        "THE CAT\n\nTHE <B>BIRD</B> SINGS\n<B>"
    )
    assert not browser.get_log("browser")


class Subwords(FakeEngine):
    """Halves its words, and parts them from their punctuation."""

    def _hypotheses(self, text, options):
        source = ["<2de>", "▁the", "▁c", "at", "▁sl", "eeps", ".", "</s>"]
        tokens = ["▁die", "▁Kat", "ze", "▁sch", "läft", ".", "“", "▁我", "们"]
        weights = np.zeros((len(tokens) + 1, len(source)), np.float32)
        weights[:, 0] = 1
        weights[1, :4] = 0, 0, 0.5, 0.5
        weights[2, :4] = 0.2, 0, 0.4, 0.4
        (first, *_) = super()._hypotheses(text, options)
        return [
            dataclasses.replace(
                first,
                tokens=tokens,
                source_tokens=source,
                attention={"cross": weights[None, None]},
            )
        ]


def test_subwords_are_shown_as_words(browser, start_server):
    server = start_server(Subwords())
    open_page(browser, server, DESKTOP)
    translate(browser, server, "the cat sleeps.", Keys.CONTROL, Keys.ENTER)
    targets = all_of(browser, "#target-words button")
    assert [word.text for word in targets] == [
        "die",
        "Katze",
        "schläft",
        ".“",
        "我",
        "们",
    ]
    sources = [word.text for word in all_of(browser, "#source-words span")]
    assert sources == ["<2de>", "the", "cat", "sleeps", ".", "end"]
    targets[1].click()
    looked = text_of(browser, "#looked")
    assert looked.startswith("Katze: cat 90 %, <2de> 10 %, ")
    assert not browser.get_log("browser")


def test_a_paragraph_is_translated_sentence_by_sentence(page, server):
    pytest.importorskip("sentencex", reason="needs sentencex")
    text = "A cat. Two  dogs.\n\n Rain."
    page.execute_script("document.querySelector('#source').value = arguments[0]", text)
    one(page, "#go").click()
    server.until(lambda: all_of(page, "#target-words button"))
    buttons = all_of(page, "#translations button")
    assert [button.text for button in buttons] == ["A CAT.", "TWO DOGS.", "RAIN."]
    assert text_of(page, "#status").startswith("3 sentences, ")
    assert "sentence by sentence" in text_of(page, "#hint")
    buttons[1].click()
    server.until(lambda: content_of(page, "#beams .text") == "TWO  DOGS.")
    pressed = [button.get_attribute("aria-pressed") for button in buttons]
    assert pressed == ["false", "true", "false"]
    page.execute_script(
        "navigator.clipboard.writeText = async (text) => {window.copied = text};"
        "document.querySelector('#copy').click()"
    )
    assert page.execute_script("return window.copied") == text.upper()


def test_an_error_leaves_no_translation_of_another_text(browser, start_server):
    server = start_server()
    open_page(browser, server, DESKTOP)
    translate(browser, server, "a house", Keys.CONTROL, Keys.ENTER)
    one(browser, "#source").send_keys(" word" * 60, Keys.CONTROL, Keys.ENTER)
    server.until(lambda: "line 1 has 63 tokens" in text_of(browser, "#error"))
    assert not all_of(browser, "#translations li")
    for selector in ("#inside", "#copy"):
        assert not one(browser, selector).is_displayed()
    one(browser, "#source").clear()
    one(browser, "#source").send_keys("a cat", Keys.CONTROL, Keys.ENTER)
    server.until(lambda: content_of(browser, "#translations") == "A CAT")
    assert not one(browser, "#error").is_displayed()
    browser.get_log("browser")  # the refusal that this test made


def test_it_says_what_the_model_translates(browser, start_server):
    engine = FakeEngine()
    engine.about = About(training_text="our manuals")
    server = start_server(engine, languages=("en", "de"))
    open_page(browser, server, DESKTOP)
    assert text_of(browser, "#knows").split("\n") == [
        "The model translates from English into German.",
        "It was trained on our manuals.",
    ]
    assert text_of(browser, "#target-language") == "German"
    open_page(browser, start_server(), DESKTOP)
    assert "does not tell its languages" in text_of(browser, "#knows")


def test_a_language_is_chosen_where_there_are_several(browser, start_server):
    server = start_server(Multilingual())
    open_page(browser, server, DESKTOP)
    assert "from 3 languages into 3" in text_of(browser, "#knows")
    one(browser, "#source").send_keys("a", Keys.CONTROL, Keys.ENTER)
    server.until(lambda: "Choose the language" in text_of(browser, "#error"))
    Select(one(browser, "#target-code")).select_by_visible_text("French")
    one(browser, "#source").send_keys(Keys.CONTROL, Keys.ENTER)
    server.until(lambda: content_of(browser, "#translations") == "A EN-FR")
    server.until(lambda: all_of(browser, "#target-words button"))
    assert one(browser, "#translations").get_attribute("lang") == "fr"
    assert not browser.get_log("browser")


def test_it_works_by_keyboard_alone(page, server):
    # The text has the focus when the page opens.
    translate(page, server, "a house here", Keys.CONTROL, Keys.ENTER)
    assert text_of(page, "#translations") == "A HOUSE HERE"
    for _ in range(20):
        page.switch_to.active_element.send_keys(Keys.TAB)
        focus = page.switch_to.active_element
        if focus.find_element(By.XPATH, "..").get_attribute("id") == "target-words":
            break
    assert focus.text == "A"
    focus.send_keys(Keys.ARROW_RIGHT)
    assert page.switch_to.active_element.text == "HOUSE"
    assert text_of(page, "#looked").startswith("HOUSE: house 100 %")
    page.switch_to.active_element.send_keys(Keys.END)
    assert page.switch_to.active_element.text == "HERE"
    page.switch_to.active_element.send_keys(Keys.TAB, Keys.SPACE)
    assert one(page, "#matrix-details").get_attribute("open")


def test_it_fits_on_a_phone(page, server):
    open_page(page, server, PHONE)
    one(page, "#source").send_keys("word " * 40)
    one(page, "#go").click()
    server.until(lambda: all_of(page, "#target-words button"))
    one(page, "#matrix-details summary").click()
    width = page.execute_script("return document.documentElement.scrollWidth")
    assert width <= PHONE[0]
    for button in all_of(page, "button"):
        if button.is_displayed():
            assert button.rect["height"] >= 40  # for a finger
    source, target = one(page, "#source"), one(page, "#translations")
    assert target.rect["y"] > source.rect["y"] + source.rect["height"]


def test_every_control_has_a_name_and_text_can_be_read(page, server):
    translate(page, server, "a house", Keys.CONTROL, Keys.ENTER)
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = {"button", "textbox", "link", "region", "group"}
    nameless = [
        node["role"]["value"]
        for node in tree
        if node.get("role", {}).get("value") in controls
        and not node.get("ignored")
        and not node.get("name", {}).get("value")
    ]
    assert not nameless
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for selector in ("body", ".quiet", "#go", "#copy", "#looked"):
            assert browsers.contrast(page, selector) >= 4.5, (scheme, selector)


def test_what_goes_wrong_is_said(browser, start_server):
    server = start_server(key="secret")
    browser.get(f"http://{server.host}:{server.port}/")
    server.until(lambda: one(browser, "#key").is_displayed())
    assert "Whoever runs it can give you one" in text_of(browser, "#key-form label")
    assert not one(browser, "#error").is_displayed()
    one(browser, "#key").send_keys("wrong", Keys.ENTER)
    server.until(lambda: "does not know this key" in text_of(browser, "#error"))
    assert "Bearer" not in text_of(browser, "body")
    assert one(browser, "#key-form button").rect["height"] < 50  # one line
    one(browser, "#key").clear()
    one(browser, "#key").send_keys("secret", Keys.ENTER)
    server.until(lambda: "fake" in text_of(browser, "#model"))
    one(browser, "#source").send_keys("word " * 60)
    one(browser, "#go").click()
    server.until(lambda: "line 1 has 61 tokens" in text_of(browser, "#error"))
    assert one(browser, "#error").get_attribute("role") == "alert"
    browser.get_log("browser")  # the refusals that this test made
