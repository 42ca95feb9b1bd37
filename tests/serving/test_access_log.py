"""The access log: a line for each request, with nothing secret in it."""

import re

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from keras_transformer.serving import server as servers

pytestmark = pytest.mark.no_backend

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00 127\.0\.0\.1 (\w+) (\S+) (\d+) \d+ ms"
)


def test_each_request_is_a_line(start_server):
    lines = []
    server = start_server(log=lines.append)
    server.post("/translate?api_key=secret", {"text": "a"})
    server.get("/a%0Ab%20c")
    server.get("/health", Host="evil.example.com")
    server.until(lambda: len(lines) == 3)
    assert [LINE.fullmatch(line).groups() for line in lines] == [
        ("POST", "/translate", "200"),
        ("GET", "/a%0Ab%20c", "404"),
        ("GET", "/health", "421"),
    ]


def test_lines_go_to_standard_output(capsys):
    servers._log("a line")
    assert capsys.readouterr() == ("a line\n", "")
