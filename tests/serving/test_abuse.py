"""Clients that do what none should: the server lives, and leaks nothing."""

import base64
import json
import socket
import sys
import threading
import time

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
hypothesis = pytest.importorskip("hypothesis", reason="needs hypothesis")

from fake_engine import FakeEngine  # noqa: E402

from keras_transformer.errors import InputError  # noqa: E402
from keras_transformer.serving import messages  # noqa: E402
from keras_transformer.serving.limits import Limits  # noqa: E402

pytestmark = pytest.mark.no_backend

HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def hasty(start_server):
    """A server that gives its clients little time."""
    return start_server(limits=Limits(transfer_seconds=0.3))


def received(connection):
    """All that comes until the server closes the connection."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"POST /trans",
        HEAD,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea",
    ],
    ids=["nothing", "line", "head", "second"],
)
def test_a_head_that_never_ends_is_hung_up_on(start, hasty):
    with hasty.connect() as connection:
        connection.sendall(start)
        begin = time.monotonic()
        received(connection)
        assert time.monotonic() - begin < 5
    assert hasty.lives()


def test_a_head_that_comes_in_drops_is_hung_up_on(hasty):
    with hasty.connect() as connection, pytest.raises(OSError):
        for _ in range(100):
            connection.sendall(b"X")
            time.sleep(0.05)
    assert hasty.lives()


def test_a_body_that_never_ends_is_408(hasty):
    with hasty.connect() as connection:
        connection.sendall(HEAD + b'Content-Length: 99\r\n\r\n{"text": ')
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body came too slowly" in answer
    assert hasty.lives()


def test_a_head_that_is_too_large_is_400(server):
    with server.connect() as connection:
        try:
            connection.sendall(HEAD + b"X-Long: " + b"x" * 2**20)
        except ConnectionError:
            pass
        else:
            assert received(connection)[:12] in (b"", b"HTTP/1.1 400")
    assert server.lives()


def test_a_body_without_a_length_is_bounded_too(start_server):
    server = start_server(limits=Limits(body_bytes=100))
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(head + b"40\r\n" + b"x" * 64 + b"\r\n" * 1)
        connection.sendall(b"40\r\n" + b"x" * 64 + b"\r\n0\r\n\r\n")
        assert received(connection).startswith(b"HTTP/1.1 413 ")
    assert server.lives()


@pytest.mark.parametrize(
    "chunks",
    [b"zz\r\nabc\r\n", b"-1\r\n", b"3\r\nabcdef\r\n", b"ffffffffffffffffffffff\r\n"],
    ids=["no number", "negative", "longer", "far too large"],
)
def test_a_malformed_chunk_is_one_line_and_an_answer(chunks, server, capfd):
    time.sleep(1.1)  # lines of the log are a second apart
    capfd.readouterr()
    with server.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        answer = received(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    for name in (b"content-type: application/json", b"x-content-type-options: nosniff"):
        assert name in head.lower()
    assert json.loads(body)["error"]
    assert server.lives()
    lines = capfd.readouterr().err.splitlines()
    assert lines == ["warning: 127.0.0.1 sent a request that is not HTTP/1.1"]


def test_what_is_no_http_after_an_answer_is_no_fault(start_server, capfd):
    server = start_server(limits=Limits(body_bytes=10))
    with server.connect() as connection:
        head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"40\r\n" + b"x" * 64 + b"\r\nzz\r\n")
        received(connection)
    assert "Traceback" not in capfd.readouterr().err
    assert server.get("/ready")[0] == 200


BODIES = {
    "lists": b"[" + b"[]," * 340_000 + b"[]]",
    "keys": json.dumps({f"k{i}": 1 for i in range(80_000)}).encode(),
    "key": json.dumps({"texts" * 200_000: 1}).encode(),
    "numbers": b'{"n_best":[' + b"1," * 500_000 + b"1]}",
    "instances": json.dumps({"instances": [{"a": 1}] * 70_000}).encode(),
    "digits": b'{"n_best":' + b"1" * 1_000_000 + b"}",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_costly_to_parse_is_refused_before(body):
    limits = Limits()
    assert len(BODIES[body]) <= limits.body_bytes
    calls = []

    def trace(frame, event, argument):
        calls.append(event)

    sys.setprofile(trace)
    try:
        with pytest.raises(InputError):
            value = messages.parse_json(BODIES[body], limits)
            messages.parse_translate(value, FakeEngine(), limits)
    finally:
        sys.setprofile(None)
    assert len(calls) < 20_000


def test_requests_of_any_allowed_size_pass_the_bounds_of_json(server):
    limits = server.service.limits
    texts = [{"b64": base64.b64encode(b'\\"' * 9).decode()}] * limits.sentences
    body = {"instances": [{"text": text} for text in texts]}
    assert server.post("/v1/models/default:predict", body)[0] == 200
    quotes = ['"\\' * 400] * limits.sentences
    assert server.post("/translate", {"texts": quotes})[0] == 200
    pretty = json.dumps({"texts": ["a"] * limits.sentences}, indent=4).encode()
    assert server.post("/translate", pretty)[0] == 200


def test_a_body_in_chunks_of_one_byte_is_read(server):
    body = b'{"text": "' + b"a" * 3000 + b'"}'
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_clients_that_leave_are_not_translated_for(start_server):
    server = start_server(limits=Limits(batch_size=1, wait_seconds=0.0))
    blocker = threading.Thread(
        target=server.post, args=("/translate", {"text": "wait"})
    )
    blocker.start()
    server.until(lambda: server.engine.batches)
    body = json.dumps({"text": "gone"}).encode()
    for _ in range(20):
        with server.connect() as connection:
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            server.until(lambda: server.metric("waiting_sentences") > 0)
    gone = 'requests_total{route="translate",status="499"}'
    server.until(lambda: server.metric(gone) == 20)
    server.engine.go.set()
    blocker.join(10)
    assert server.lives()
    assert "gone" not in [text for texts, _ in server.engine.batches for text in texts]


@pytest.mark.parametrize("how", ["keep-alive", "close", "pipelined"])
def test_a_client_that_takes_no_answer_is_hung_up_on(how, start_server):
    limits = Limits(transfer_seconds=0.3, characters=2**20)
    server = start_server(limits=limits)
    text = "a" * 900_000
    body = json.dumps({"text": text, "n_best": 3}).encode()
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if how == "close":
        request = request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    if how == "pipelined":
        request *= 2
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(10)
        connection.connect((server.host, server.port))
        connection.sendall(request)
        server.until(lambda: server.engine.batches)
        server.until(lambda: not server.connections)  # though nothing was read
        assert len(received(connection)) < 7 * len(text)  # what is on its way at most
    assert server.lives()


def test_pipelined_requests_are_answered_in_order(server):
    bodies = [json.dumps({"text": text}).encode() for text in ("a", "b", "c")]
    with server.connect() as connection:
        for body in bodies:
            connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while answer.count(b"translations") < 3:
            answer += connection.recv(65536)
    assert answer.index(b'"A"') < answer.index(b'"B"') < answer.index(b'"C"')


#: Nearly a request: its keys, with values of any kind.
strategies = hypothesis.strategies
keys = strategies.sampled_from(
    [
        *("text", "texts", "n_best", "beam_size", "details", "alignments", "attention"),
        *("src_lang", "tgt_lang", "instances", "inputs", "signature_name", "b64"),
        *("q", "format", "alternatives", "split_sentences", "parameters", "outputs"),
        *("name", "shape", "datatype", "data", "binary_data_size"),
    ]
)
scalars = strategies.sampled_from(
    [
        *("a b", "", "\0", "\ud800", "\U0010ffff", "translate_n_best", "a " * 99),
        *(None, True, 0, 1, 4, -1, 2**70, 1.5, float("inf")),
    ]
)
values = scalars | strategies.lists(
    scalars | strategies.dictionaries(keys, scalars, max_size=2), max_size=3
)
bodies = strategies.binary(max_size=60) | strategies.dictionaries(
    keys, values, max_size=4
).map(lambda value: json.dumps(value).encode())
paths = strategies.sampled_from(
    [
        *("/translate", "/v1/models/default:predict", "/v1/models/%00:predict"),
        "/v2/models/default/infer",
    ]
)
BOUNDED = {
    "deadline": None,
    "derandomize": True,  # CI sees what a developer sees
    "database": None,
    "phases": [hypothesis.Phase.explicit, hypothesis.Phase.generate],
    "suppress_health_check": list(hypothesis.HealthCheck),
}


@hypothesis.given(paths, bodies)
@hypothesis.settings(
    max_examples=200,
    **BOUNDED,
)
def test_any_body_gets_an_answer_of_json(server, path, body):
    status, headers, answer = server.send("POST", path, body)
    assert status in (200, 400, 404, 413)
    assert headers.get_content_type() == "application/json"
    value = json.loads(answer)
    assert ("error" in value) == (status != 200)


@hypothesis.given(strategies.binary(min_size=1, max_size=300))
@hypothesis.settings(
    max_examples=40,
    **BOUNDED,
)
def test_any_bytes_are_survived(server, noise):
    with server.connect() as connection:
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        received(connection)


def test_afterwards_it_lives_and_holds_nothing(server):
    assert server.lives()
    server.until(lambda: server.metric("waiting_sentences") == 0)
    with server.leaking_nothing():
        for _ in range(50):
            with server.connect() as connection:
                connection.sendall(HEAD)
            server.post("/translate", b"{")
