"""Who comes in at all: by which name, how many at once, and what is no HTTP."""

import contextlib
import http.client
import json
import socket
import time
import types

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.errors import InputError
from keras_transformer.serving import guard
from keras_transformer.serving import open_files
from keras_transformer.serving import protocol
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
        assert "accepts only requests to localhost" in json.loads(body)["error"]
    assert server.post("/translate", {"text": "a"}, Host=host)[0] == 421


def own(server):
    return f"{server.host}:{server.port}"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example.com"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
        | {"Sec_Fetch_Dest": "iframe"},
    ],
)
def test_pages_of_other_sites_are_not_answered(headers, server, start_server):
    open_to_all = start_server(key=None, local=False)
    for one in (server, open_to_all):
        before = len(one.engine.batches)
        for path in ("/translate", "/v1/models/default:predict"):
            status, answer = one.post(path, {"text": "a"}, **headers)
            assert status == 403 and "pages of other sites" in answer["error"]
        assert one.get("/health", **headers)[0] == 403
        assert len(one.engine.batches) == before
    closed = start_server(key="secret")
    request = {"text": "a"}
    assert closed.post("/translate", request, X_API_Key="secret", **headers)[0] == 200


def test_the_page_of_the_server_is_answered(server):
    for headers in (
        {"Origin": f"http://{own(server)}"},
        {"Origin": f"http://{own(server)}", "Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
        {"Content_Type": "application/x-www-form-urlencoded"},  # as curl -d sends it
    ):
        assert server.post("/translate", {"text": "a"}, **headers)[0] == 200
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    link["Sec_Fetch_Dest"] = "document"
    assert server.send("GET", "/", **link)[0] == 200
    assert server.post("/translate", {"text": "a"}, **link)[0] == 403  # a form


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
        config = types.SimpleNamespace()
        return types.SimpleNamespace(config=config, run=lambda sockets: None)

    monkeypatch.setattr(servers, "http_server", http_server)
    servers.serve(Service(FakeEngine()), host, 0, key)
    assert given == [(key, {"local": local, "log": None})]


@pytest.mark.parametrize(("silence", "said"), [(-1, True), (60, False)])
def test_a_long_preparation_says_what_is_compiled(silence, said, monkeypatch, capsys):
    service = Service(FakeEngine())

    def run(sockets):
        server.on_startup()
        while not service.ready:
            time.sleep(0.01)

    server = types.SimpleNamespace(config=types.SimpleNamespace(), run=run)
    monkeypatch.setattr(servers, "http_server", lambda *_, **__: server)
    monkeypatch.setattr(servers, "_LONGEST_SILENCE", silence)
    servers.serve(service, "127.0.0.1", 0)
    _, *told, ready = capsys.readouterr().err.splitlines()
    assert told == ["compiled for nothing; going on ..."] * said
    assert ready.startswith("ready after ")


@pytest.mark.parametrize(
    ("value", "key"), [(None, None), ("secret", "secret"), (" a b\n", "a b")]
)
def test_a_key_comes_without_the_line_that_holds_it(value, key):
    assert guard.parse_key(value, "KEY") == key


@pytest.mark.parametrize("value", ["", " \n", "a\nb", "\udcff"])
def test_a_variable_that_holds_no_key_is_refused(value):
    with pytest.raises(InputError, match="KEY is set but empty; give a key"):
        guard.parse_key(value, "KEY")


@pytest.mark.parametrize("host", ["a..b", ".", "a" * 64, "no such host"])
def test_an_address_that_is_none_is_named(host):
    with pytest.raises(InputError, match=rf"^cannot listen on {host}, port 0: [^\[]+;"):
        servers.listen(host, 0)


def test_an_error_of_listening_without_a_number_is_told(monkeypatch):
    def refuse(*arguments, **options):
        raise OSError("no such family")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(InputError, match="port 0: no such family; choose another"):
        servers.listen("127.0.0.1", 0)


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
        assert server.get("/v2/health/live") == (200, {"live": True})
    server.until(lambda: server.get("/ready")[0] == 200)
    assert server.lives()


def test_idle_connections_make_room(start_server):
    server = start_server(limits=Limits(connections=20))
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(contextlib.closing(server.connect()))
        assert server.get("/health") == (200, {"status": "alive"})
        assert len(server.connections) <= 20 + protocol.SPARE_CONNECTIONS
    server.until(lambda: server.get("/ready")[0] == 200)
    assert server.lives()


@pytest.mark.parametrize(
    ("free", "right"),
    [(10**6, (1000, 1024)), (2024, (1000, 1024)), (1100, (1000, 64)), (100, (75, 25))],
)
def test_no_more_connections_are_served_than_files_may_be_open(
    free, right, monkeypatch
):
    others = open_files._OTHER_FILES + protocol.SPARE_CONNECTIONS + 10
    monkeypatch.setattr(open_files, "_open_already", lambda: 10)
    monkeypatch.setattr(open_files, "_raise_limit", lambda wanted: free + others)
    assert open_files.connections(1000) == right


def test_a_process_that_may_open_no_file_is_told_so(monkeypatch):
    monkeypatch.setattr(open_files, "_raise_limit", lambda wanted: 20)
    with pytest.raises(InputError, match=r"may open too few files .* ulimit -n"):
        open_files.connections(1000)


def test_nobody_fills_the_log(capsys):
    complaints = servers.Complaints(seconds=0.05)
    for i in range(1000):
        complaints.say(f"no {i}")
    time.sleep(0.06)
    complaints.say("the last")
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first == "warning: no 0"
    assert last.startswith("warning: the last (") and "more such lines" in last


def test_what_is_no_http_is_told_so_in_json(server):
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.status == 400
        assert response.headers.get_content_type() == "application/json"
        assert "not an HTTP/1.1 request" in json.loads(response.read())["error"]
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Cache-Control"] == "no-store"
    assert server.lives()
