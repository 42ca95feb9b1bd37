"""A real browser without a window, and what is measured in it."""

import os
import shutil

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
#: Where CI has installed them, their tests fail rather than be skipped.
INSTALLED = bool(BROWSER and DRIVER) or os.environ.get("CHROMIUM") == "required"


def start(profile):
    """A driver whose browser keeps what it must in the folder `profile`."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",  # its own pages only, and CI may be root
        "--disable-dev-shm-usage",
        "--disable-gpu",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(DRIVER))


def named_controls(browser, roles):
    """Role and name of each control, as a screen reader hears them.

    Waits until there are controls of all `roles`: the browser makes them late.
    """
    from selenium.webdriver.support.wait import WebDriverWait

    def found(browser):
        nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        named = [
            (node["role"]["value"], node.get("name", {}).get("value"))
            for node in nodes
            if node.get("role", {}).get("value") in roles and not node.get("ignored")
        ]
        return named if {role for role, _ in named} == roles else None

    return WebDriverWait(browser, 20).until(found)


def contrast(browser, selector):
    """WCAG's contrast of the text of an element with what is behind it."""
    script = """
    const parse = (color) => color.match(/[\\d.]+/g).map(Number);
    let element = document.querySelector(arguments[0]);
    const ink = parse(getComputedStyle(element).color);
    let paper = [0, 0, 0, 0];
    for (; element && paper[3] === 0; element = element.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(element).backgroundColor);
      paper = [r, g, b, a];
    }
    return [ink, paper];
    """
    ink, paper = browser.execute_script(script, selector)

    def luminance(color):
        linear = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
            for c in (value / 255 for value in color[:3])
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(ink), luminance(paper)))
    return (light + 0.05) / (dark + 0.05)
