"""Server process of the HTTP interface, until a signal arrives."""

import asyncio
import contextlib
import dataclasses
import ipaddress
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import uvicorn

from keras_transformer.errors import InputError
from keras_transformer.serving import open_files
from keras_transformer.serving.application import application
from keras_transformer.serving.protocol import protocol
from keras_transformer.serving.service import Service

_LONGEST_SILENCE = 2.0  # seconds


def serve(
    service: Service,
    host: str,
    port: int,
    api_key: str | None = None,
    *,
    access_log: bool = False,
) -> None:
    """Answers requests until SIGTERM or ctrl-C, then finishes accepted requests.

    The signal is raised again at the end, for the caller. SIGHUP counts as SIGTERM,
    unless it is ignored, as under `nohup`.

    Args:
        service: the service, not started.
        host: a name or address; only a loopback address excludes other machines.
        port: the port; 0 takes a free one, which is printed to standard error.
        api_key: see `application`.
        access_log: whether to write a line to standard output for each request.

    Raises:
        InputError: where listening on the address is not possible.
    """
    listener = listen(host, port)
    address = listener.getsockname()[:2]
    is_loopback = ipaddress.ip_address(address[0]).is_loopback
    if not (is_loopback or api_key):
        _say(
            f"warning: {host} is open to other machines without an API key; set "
            "KERAS_TRANSFORMER_API_KEY"
        )
    allowed, backlog = open_files.connections(service.limits.connections)
    if allowed < service.limits.connections:
        _say(
            "warning: this process may open few files (ulimit -n): it serves "
            f"{allowed} connections at once instead of {service.limits.connections}"
        )
        service.limits = dataclasses.replace(service.limits, connections=allowed)
    server = http_server(
        service,
        api_key,
        local=is_loopback and not api_key,
        log=_log if access_log else None,
    )
    server.config.backlog = backlog
    failed = False

    def done(seconds: float | None) -> None:
        nonlocal failed
        if seconds is None:
            failed = server.should_exit = True
            return
        _say(f"ready after {seconds:.1f} s: {_url(*address)}")

    said = time.monotonic()

    def compiled(step: str) -> None:
        nonlocal said
        if time.monotonic() - said > _LONGEST_SILENCE:
            _say(f"compiled for {step}; going on ...")
            said = time.monotonic()

    # The model starts once uvicorn handles signals, so that none is lost.
    server.on_startup = lambda: service.start(done, compiled)
    _say(f"listening on {_url(*address)}; preparing the model")
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
        service.stop()
    if failed:
        raise RuntimeError("the model cannot translate; see the messages above")


class HttpServer(uvicorn.Server):
    """A uvicorn server that calls `on_startup` once it listens."""

    on_startup: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening, then calls `on_startup`."""
        asyncio.get_running_loop().set_exception_handler(_log_fault)
        await super().startup(sockets)
        if self.on_startup is not None:
            self.on_startup()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles the signals that end the server."""

        def hang_up(number: int, frame: Any) -> None:
            self.handle_exit(signal.SIGTERM, frame)

        number: Any = getattr(signal, "SIGHUP", None)
        takes = number is not None and signal.getsignal(number) != signal.SIG_IGN
        takes = takes and threading.current_thread() is threading.main_thread()
        with super().capture_signals():
            before = signal.signal(number, hang_up) if takes else None
            try:
                yield
            finally:
                if takes:
                    signal.signal(number, before)


def http_server(
    service: Service,
    api_key: str | None = None,
    *,
    local: bool = False,
    log: Callable[[str], None] | None = None,
) -> HttpServer:
    """A uvicorn server with the limits of a service.

    Args:
        service: the service that answers.
        api_key: see `application`.
        local: see `guard.Guard`.
        log: see `guard.Guard`.
    """
    limits = service.limits

    def crowded() -> bool:
        return len(server.server_state.connections) > limits.connections

    seconds: dict[str, Any] = {  # fractions do, too
        "timeout_keep_alive": limits.transfer_seconds,
        "timeout_graceful_shutdown": limits.answer_seconds + limits.transfer_seconds,
    }
    server = HttpServer(
        uvicorn.Config(
            application(service, api_key, local=local, crowded=crowded, log=log),
            http=protocol(limits, Complaints().say),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            **seconds,
        )
    )
    return server


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        InputError: where listening on the address is not possible.
    """
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:
        why = str(error)
        if isinstance(error, socket.gaierror):
            why = error.strerror or why
        elif isinstance(error, OSError) and error.errno is not None:
            why = os.strerror(error.errno)
        raise InputError(
            f"cannot listen on {host}, port {port}: {why}; choose another"
        ) from None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _log(line: str) -> None:
    with contextlib.suppress(OSError):  # whoever read it is gone
        print(line, flush=True)


class Complaints:
    """A rate-limited log of clients' faults: one line per second.

    Args:
        seconds: the time between two lines.
    """

    def __init__(self, seconds: float = 1.0) -> None:
        self._seconds = seconds
        self._next = 0.0
        self._left_out = 0

    def say(self, text: str) -> None:
        """Writes a line to standard error, or counts it for the next one."""
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more such lines)" if self._left_out else ""
        self._left_out, self._next = 0, now + self._seconds
        _say(f"warning: {text}{more}")


_accept_complaints = Complaints(60.0)


def _log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The handler of asyncio; connections that cannot be accepted are retried."""
    error = context.get("exception")
    if isinstance(error, OSError) and "accept" in context.get("message", ""):
        _accept_complaints.say(f"a connection cannot be accepted: {error.strerror}")
    else:
        loop.default_exception_handler(context)
