"""Who comes in at all: by which name, how many at once, and what is no HTTP."""

import contextlib
import http.client
import json
import socket
import types

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from keras_transformer.errors import InputError
from keras_transformer.serving import guard
from keras_transformer.serving import server as servers
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.service import Service

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:8501", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:8501"],
)
def test_own_names_are_answered(host, server):
    assert server.get("/health", Host=host) == (200, {"status": "alive"})


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example.com", "evil.example.com:8501", "localhost.evil.example.com"),
        *("127.0.0.1.evil.example.com", "evil.example.com#localhost", "localhost@evil"),
        *("192.0.2.1", "[2001:db8::1]", "0.0.0.0", "", "[", ":8501", "a:b:c"),
    ],
)
def test_foreign_names_are_not(host, server):
    for path in ("/", "/info", "/health"):
        status, headers, body = server.send("GET", path, Host=host)
        assert status == 421 and headers.get_content_type() == "application/json"
        assert "answers only to localhost" in json.loads(body)["error"]
    assert server.post("/translate", {"text": "a"}, Host=host)[0] == 421


def test_with_a_key_any_name_is_answered(start_server):
    server = start_server(key="secret")
    key = {"Authorization": "Bearer secret"}
    request = {"text": "a"}
    host = "translate.example.com"
    assert server.post("/translate", request, Host=host, **key)[0] == 200


@pytest.mark.parametrize(
    ("host", "key", "local"),
    [("127.0.0.1", None, True), ("127.0.0.1", "k", False), ("0.0.0.0", None, False)],
)
def test_only_an_open_server_of_this_machine_asks_for_names(
    host, key, local, monkeypatch
):
    given = []

    def http_server(service, api_key, **options):
        given.append((api_key, options))
        return types.SimpleNamespace(run=lambda sockets: None)

    monkeypatch.setattr(servers, "http_server", http_server)
    servers.serve(Service(engine=None), host, 0, key)
    assert given == [(key, {"local": local})]


@pytest.mark.parametrize(
    ("value", "key"), [(None, None), ("secret", "secret"), (" a b\n", "a b")]
)
def test_a_key_comes_without_the_line_that_holds_it(value, key):
    assert guard.parse_key(value, "KEY") == key


@pytest.mark.parametrize("value", ["", " \n", "a\nb", "\udcff"])
def test_a_variable_that_holds_no_key_is_refused(value):
    with pytest.raises(InputError, match="KEY is set, but it holds no key; give one"):
        guard.parse_key(value, "KEY")


@pytest.mark.parametrize("host", ["a..b", ".", "a" * 64, "no such host"])
def test_an_address_that_is_none_is_named(host):
    with pytest.raises(InputError, match=rf"^cannot listen on {host}, port 0: [^\[]+;"):
        servers.listen(host, 0)


def test_one_connection_too_many_is_told_so_in_json(start_server):
    server = start_server(limits=Limits(connections=2))
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            connection = http.client.HTTPConnection(server.host, server.port, timeout=9)
            stack.enter_context(contextlib.closing(connection))
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b'{"status": "alive"}'
        status, headers, body = server.send("POST", "/translate", {"text": "a"})
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "too many connections are open" in json.loads(body)["error"]
        assert server.get("/health") == (200, {"status": "alive"})
    server.until(lambda: server.get("/ready")[0] == 200)
    assert server.lives()


def test_what_is_no_http_is_told_so_in_json(server):
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 400
        assert response.headers.get_content_type() == "application/json"
        assert "not an HTTP/1.1 request" in json.loads(response.read())["error"]
    assert server.lives()
