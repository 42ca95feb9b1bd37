"""The page in a real browser without a window: by mouse, by keyboard, on a phone."""

import pytest

pytest.importorskip("selenium.webdriver", reason="needs selenium")

from fake_engine import FakeEngine
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

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
    one(browser, "#key").send_keys("secret", Keys.ENTER)
    server.until(lambda: "fake" in text_of(browser, "#model"))
    one(browser, "#source").send_keys("word " * 60)
    one(browser, "#go").click()
    server.until(lambda: "line 1 has 61 tokens" in text_of(browser, "#error"))
    assert one(browser, "#error").get_attribute("role") == "alert"
    browser.get_log("browser")  # the refusals that this test made
