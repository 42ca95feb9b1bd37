"""A server in a thread of this process, and a client that hides nothing."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time

import pytest


def until(condition, seconds=20):
    """Waits for a condition, and fails where it does not come true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not true after {seconds} s", pytrace=True)
        time.sleep(0.005)


def open_files():
    """How many this process has, as far as the system tells."""
    files = "/proc/self/fd"
    return len(os.listdir(files)) if os.path.isdir(files) else 0


def threads():
    """How many run, but for those that Starlette keeps, at most 40, and reuses."""
    names = [thread.name for thread in threading.enumerate()]
    return len([name for name in names if not name.startswith("AnyIO")])


class Client:
    """Requests to one server; `server`, `service` and `engine` are its parts."""

    host = "127.0.0.1"

    def __init__(self, service, port):
        self.service = service
        self.engine = service.engine
        self.port = port

    def send(self, method, path, body=None, **headers):
        """`(status, headers, body)`; values that are no bytes are sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        with contextlib.closing(connection):
            connection.request(method, path, body, names)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def get(self, path, **headers):
        status, _, body = self.send("GET", path, **headers)
        return status, json.loads(body)

    def post(self, path, body, **headers):
        status, _, body = self.send("POST", path, body, **headers)
        return status, json.loads(body)

    def metric(self, name):
        """The value of a metric, labels included in its name."""
        _, _, body = self.send("GET", "/metrics")
        for line in body.decode().splitlines():
            if line.startswith(f"keras_transformer_{name} "):
                return float(line.split()[-1])
        return None

    until = staticmethod(until)

    def connect(self):
        """A connection for what no client should send."""
        return socket.create_connection((self.host, self.port), timeout=10)

    @contextlib.contextmanager
    def leaking_nothing(self):
        """Fails where what happens inside leaves files open or threads running."""
        files, running = open_files(), threads()
        yield
        self.until(lambda: open_files() <= files + 3 and threads() <= running)

    def lives(self):
        """Whether it still answers correctly."""
        answer = self.post("/translate", {"texts": ["is it", "alive"]})
        return answer == (200, {"translations": ["IS IT", "ALIVE"]})


@contextlib.contextmanager
def starting():
    """A function that starts servers; in the end they are stopped."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    pytest.importorskip("uvicorn", reason="needs the extra serve")
    pytest.importorskip("prometheus_client", reason="needs the extra serve")
    from fake_engine import FakeEngine

    from keras_transformer.serving import server as servers
    from keras_transformer.serving.service import Service

    running = []

    def start(
        engine=None,
        limits=None,
        key=None,
        wait=True,
        local=True,
        log=None,
        **options,
    ):
        service = Service(engine or FakeEngine(), limits=limits, **options)
        listener = servers.listen("127.0.0.1", 0)
        server = servers.http_server(service, key, local=local and key is None, log=log)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        service.start()
        thread.start()
        running.append((service, server, thread, listener))
        client = Client(service, listener.getsockname()[1])
        client.connections = server.server_state.connections
        until(lambda: server.started and (service.ready or not wait))
        return client

    try:
        yield start
    finally:
        for service, server, thread, listener in running:
            if hasattr(service.engine, "go"):
                service.engine.go.set()
                service.engine.prepared.set()
            server.should_exit = True
            thread.join(30)
            service.stop()
            listener.close()
            assert not thread.is_alive()


@pytest.fixture
def start_server():
    """`start_server(engine=FakeEngine(), limits=None, key=None, **service options)`."""
    with starting() as start:
        yield start


@pytest.fixture(scope="module")
def server():
    """A server of a fake engine, with the limits that people get."""
    with starting() as start:
        yield start()
