"""HTTP/1.1 protocol with limits of time and connections."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.serving import exchange
from keras_transformer.serving import guard
from keras_transformer.serving.limits import Limits

#: Connections beyond the limit that get an answer; a further one closes another.
SPARE_CONNECTIONS = 16
#: Bytes read per turn of the event loop: chunks of one byte take long to parse.
_MOST_BYTES_AT_ONCE = 4096


def protocol(limits: Limits, say: Callable[[str], None]) -> type[asyncio.Protocol]:
    """The uvicorn protocol of a server with these limits.

    It gives a client `transfer_seconds` to send a head, and to receive an answer;
    uvicorn itself waits for ever after the first byte of a head, or for an answer that
    is not read. The number of open connections is bounded: those idle for longest make
    room.

    Args:
        limits: the limits of the server.
        say: a function that logs a line.
    """
    settings = {
        "seconds": limits.transfer_seconds,
        "most": limits.connections + SPARE_CONNECTIONS,
        "say": staticmethod(say),
        "idle": {},
    }
    return type("Connection", (_Connection,), settings)


class _Connection(H11Protocol):
    seconds: float
    most: int
    say: Callable[[str], None]
    idle: dict[Any, None]  # without a request, the oldest first
    head_timer: asyncio.TimerHandle | None = None
    answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # notified of all pending
        with contextlib.suppress(AttributeError):  # uvloop's have none
            transport.max_size = _MOST_BYTES_AT_ONCE
        self._time_head()
        if len(self.connections) > self.most:
            oldest = next(iter(self.idle), self)
            self.idle.pop(oldest, None)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.idle.pop(self, None)
        for timer in (self.head_timer, self.answer_timer):
            if timer is not None:
                timer.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note_idle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.answer_timer = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.answer_timer is not None:
            self.answer_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        name = self.client[0] if self.client else "a client"
        self.say(f"{name} sent a request that is not HTTP/1.1")
        if self.cycle is not None:  # of an invalid body
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer has started already
            return
        answer = exchange.error(
            400, "this is not an HTTP/1.1 request; send one", exchange.CLOSE
        )
        headers = [*answer.raw_headers, *guard.HEADERS]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(answer.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _time_head(self) -> None:
        waits = self._note_idle()
        if waits and self.head_timer is None:
            self.head_timer = self.loop.call_later(self.seconds, self.transport.abort)
        elif not waits and self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _note_idle(self) -> bool:
        waits = self.cycle is None or self.cycle.response_complete
        if waits and not self.transport.is_closing():
            self.idle.setdefault(self, None)
        else:
            self.idle.pop(self, None)
        return waits
