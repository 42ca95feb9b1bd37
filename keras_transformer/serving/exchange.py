"""Request and response helpers: bodies, refusals, waiting for futures."""

import asyncio
import gzip
import io
import json
import zlib
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request
from starlette.responses import Response

from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import Hypothesis

_LONGEST_MESSAGE = 400
#: Bytes of a too large body that are read and dropped: many clients read the answer
#: only after sending everything.
_DROPPED = 32 * 2**20
_GONE = 499  # never sent: the client is gone
CLOSE = {"Connection": "close"}


class Refusal(HTTPException):
    """A refused request: becomes an error response.

    Args:
        status: the HTTP status.
        message: the fault, and what the client can do about it.
        headers: further headers.
    """

    def __init__(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)


def retry_after(seconds: int) -> dict[str, str]:
    """Headers that tell a client to retry later."""
    return {"Retry-After": str(seconds)}


def as_json(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A response of JSON, in UTF-8."""
    content = json.dumps(value, ensure_ascii=False).encode()
    return Response(content, status, headers, "application/json")


def as_response(answer: Any) -> Response:
    """A response of JSON, unless the answer is a response already."""
    return answer if isinstance(answer, Response) else as_json(answer)


def error(
    status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error in the form of TF Serving, on one line."""
    message = " ".join(message.split())
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}..."
    # A client's text may hold half of a surrogate pair.
    message = message.encode("utf-8", "replace").decode()
    return as_json({"error": message}, status, headers)


def refusal(reason: HTTPException) -> Response:
    """The response to a refused request."""
    return error(reason.status_code, reason.detail, reason.headers)


async def refused(request: Request, reason: HTTPException) -> Response:
    """See `refusal`."""
    return refusal(reason)


async def bad_input(request: Request, reason: InputError) -> Response:
    """The response to a request that the client can correct."""
    return error(400, str(reason))


async def fault(request: Request, reason: Exception) -> Response:
    """The response to a fault of the server, without internal details."""
    return error(500, "the server failed on this request; see its log", CLOSE)


async def broken_model(request: Request, reason: ModelError) -> Response:
    """The response to a fault of the model, which no other request would avoid."""
    return error(500, str(reason))


async def gone(request: Request, reason: ClientDisconnect) -> Response:
    """The end of a request whose client disconnected."""
    return Response(status_code=_GONE)


async def read_body(request: Request, limits: Limits) -> bytes:
    """The body of a request, decompressed where it is gzip.

    Raises:
        InputError: where it is not gzip although its header says so.
        Refusal: where it is too large, compressed or decompressed, too slow, or
            compressed in another format.
        ClientDisconnect: where the client disconnects.
    """
    body = await _read(request, limits)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        return await run_in_threadpool(_unpacked, body, limits.body_bytes)
    if encoding not in ("", "identity"):
        raise Refusal(
            415,
            f"the Content-Encoding {encoding!r} is not supported; send gzip or none",
        )
    return body


def _unpacked(body: bytes, most: int) -> bytes:
    """The decompressed content of one or several gzip members."""
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(body)).read(most + 1)
    except EOFError:
        raise InputError("the body's gzip data is truncated; send all of it") from None
    except (gzip.BadGzipFile, zlib.error):
        raise InputError(
            "the body is not gzip, unlike its Content-Encoding; send it as declared"
        ) from None
    if len(content) > most:
        raise _too_large(most)
    return content


def _too_large(most: int) -> Refusal:
    return Refusal(
        413,
        f"the body is larger than {most} bytes; split it into several requests",
        CLOSE,
    )


async def _read(request: Request, limits: Limits) -> bytes:
    most = limits.body_bytes
    parts, size = [], 0
    try:
        declared = int(request.headers.get("content-length", 0))
        waits = "expect" in request.headers  # for our answer before it sends
        async with asyncio.timeout(limits.transfer_seconds):
            if declared <= _DROPPED and not (waits and declared > most):
                async for part in request.stream():
                    size += len(part)
                    if size <= most:
                        parts.append(part)
                    elif size > _DROPPED:
                        break
    except TimeoutError:
        raise Refusal(408, "the body came too slowly; send it faster", CLOSE) from None
    if max(size, declared) > most:
        raise _too_large(most)
    return b"".join(parts)


async def results(
    request: Request, futures: Sequence[Future[Any]], seconds: float
) -> list[list[Hypothesis]]:
    """The results of futures; pending ones are cancelled when the client is gone.

    Raises:
        Refusal: where the results take too long.
        ClientDisconnect: where the client disconnects.
    """
    answers: asyncio.Future[Any] = asyncio.gather(*map(asyncio.wrap_future, futures))
    disconnection: asyncio.Future[Any] = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait(
            {answers, disconnection},
            timeout=seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if answers.done():
            return answers.result()
        if disconnection.done():
            raise ClientDisconnect
        raise Refusal(504, f"no translation within {seconds:g} s; try again later")
    finally:
        answers.cancel()
        for future in futures:  # `gather` would cancel them a turn later
            future.cancel()
        answers.add_done_callback(_ignore)
        disconnection.cancel()


def _ignore(found: asyncio.Future[Any]) -> None:
    """Retrieves an exception that nobody awaits: asyncio logs it otherwise."""
    if not found.cancelled():
        found.exception()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
