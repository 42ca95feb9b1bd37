"""The command that runs the whole suite: what it says of tests that it never ran."""

from xml.etree import ElementTree

import pytest

import run

pytestmark = pytest.mark.no_backend

SKIP = '<skipped type="pytest.skip" message="{}"/>'
WHOLE = """<skipped type="pytest.skip" message="collection skipped">
('a/test_a.py', 5, "Skipped: {}")</skipped>"""


def report(*cases):
    elements = (
        f'<testcase classname="{module}" name="{name}">{content}</testcase>'
        for module, name, content in cases
    )
    return ElementTree.fromstring(f"<testsuites>{''.join(elements)}</testsuites>")


def test_a_test_that_every_stage_skips_is_named():
    reports = [
        report(
            ("a.test_a", "test_on_jax", SKIP.format("JAX alone")),
            ("a.test_a", "test_nowhere", SKIP.format("once is enough")),
            ("a.test_a", "test_browser", SKIP.format("needs Chromium")),
            ("a.test_a", "test_arrow", SKIP.format("could not import 'pyarrow'")),
            ("", "a.test_b", WHOLE.format("PyTorch's own")),
            ("", "a.test_c", WHOLE.format("needs the extra plot")),
            ("", "a.test_d", WHOLE.format("nobody's")),
        ),
        report(
            ("a.test_a", "test_on_jax", ""),
            ("a.test_a", "test_nowhere", SKIP.format("once is enough")),
            ("a.test_a", "test_xfail", '<skipped type="pytest.xfail" message=""/>'),
            ("a.test_b", "test_of_b", ""),
        ),
    ]
    found = run.skipped_everywhere(reports)
    assert list(found) == ["a.test_a.test_nowhere", "a.test_d"]
    assert found["a.test_a.test_nowhere"] == "once is enough"


def test_the_slowest_files_come_first():
    times = (("a.test_a", 1.2), ("tests.b.test_b", 3.0), ("a.test_a", 2.4))
    cases = [f'<testcase classname="{name}" time="{time}"/>' for name, time in times]
    found = ElementTree.fromstring(f"<testsuites>{''.join(cases)}</testsuites>")
    assert run.slowest_files(found) == ["a.test_a 4", "b.test_b 3"]
    assert run.slowest_files(found, 1) == ["a.test_a 4"]
