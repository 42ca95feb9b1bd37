"""Runs the HTTP interface until a signal comes."""

import asyncio
import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.errors import InputError
from keras_transformer.serving import exchange
from keras_transformer.serving.application import application
from keras_transformer.serving.service import Service


def serve(service: Service, host: str, port: int, api_key: str | None = None) -> None:
    """Answers requests until SIGTERM or ctrl-C, then finishes what it has taken on.

    The signal is raised again at the end, so that whoever called this sees it.

    Args:
        service: not started yet.
        host: a name or address; only a loopback address keeps others out.
        port: 0 takes a free one; which one is printed to standard error.
        api_key: see `application`.

    Raises:
        InputError: where the address cannot be listened on.
    """
    listener = listen(host, port)
    address = listener.getsockname()[:2]
    is_loopback = ipaddress.ip_address(address[0]).is_loopback
    if not (is_loopback or api_key):
        _say(f"warning: {host} is open to other machines, and there is no API key")
    server = http_server(service, api_key, local=is_loopback and not api_key)
    failed = False

    def done(seconds: float | None) -> None:
        nonlocal failed
        if seconds is None:
            failed = server.should_exit = True
            return
        _say(f"ready after {seconds:.1f} s: {_url(*address)}")

    # The model starts only once uvicorn handles signals, so that none is lost.
    server.on_startup = lambda: service.start(done)
    _say(f"listening on {_url(*address)}; preparing the model")
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
        service.stop()
    if failed:
        raise RuntimeError("the model cannot translate; see the lines above")


class HttpServer(uvicorn.Server):
    """A server of uvicorn that calls `on_startup` once it listens."""

    on_startup: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens; then calls."""
        await super().startup(sockets)
        if self.on_startup is not None:
            self.on_startup()


def http_server(
    service: Service, api_key: str | None = None, *, local: bool = False
) -> HttpServer:
    """A server of uvicorn with the limits of a service.

    Args:
        service: what answers.
        api_key: see `application`.
        local: see `guard.Guard`.
    """
    limits = service.limits

    def crowded() -> bool:
        return len(server.server_state.connections) > limits.connections

    server = HttpServer(
        uvicorn.Config(
            application(service, api_key, local=local, crowded=crowded),
            http=_protocol(limits.transfer_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.transfer_seconds,
            timeout_graceful_shutdown=limits.answer_seconds + limits.transfer_seconds,
        )
    )
    return server


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        InputError: where the address cannot be listened on.
    """
    try:
        family, *_, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:
        why = str(error)
        if isinstance(error, socket.gaierror):
            why = error.strerror
        elif isinstance(error, OSError):
            why = os.strerror(error.errno)
        raise InputError(
            f"cannot listen on {host}, port {port}: {why}; choose another"
        ) from None


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """HTTP/1.1 that gives a client `seconds` for a head, and to take an answer.

    uvicorn itself waits for ever once a byte of a head has come, or for an answer that
    nobody takes.
    """

    class Protocol(H11Protocol):
        head_timer: asyncio.TimerHandle | None = None
        answer_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # to be told of all that waits
            self._time_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._time_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            for timer in (self.head_timer, self.answer_timer):
                if timer is not None:
                    timer.cancel()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.answer_timer = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self.answer_timer.cancel()

        def send_400_response(self, msg: str) -> None:
            answer = exchange.error(
                400, "this is not an HTTP/1.1 request; send one", exchange.CLOSE
            )
            headers = answer.raw_headers
            for event in (
                h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
                h11.Data(data=answer.body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
            self.transport.close()

        def _time_head(self) -> None:
            waits = self.cycle is None or self.cycle.response_complete
            if waits and self.head_timer is None:
                self.head_timer = self.loop.call_later(seconds, self.transport.abort)
            elif not waits and self.head_timer is not None:
                self.head_timer.cancel()
                self.head_timer = None

    return Protocol
