"""ASGI middleware before every route: host check, API key, request counts, errors."""

import datetime
import hmac
import ipaddress
import re
import sys
import time
import traceback
import urllib.parse
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers

from keras_transformer.errors import InputError
from keras_transformer.serving import exchange
from keras_transformer.serving.metrics import Metrics

#: Headers of every response.
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)

_ALIVE = ("/health", "/v2/health/live")  # answered however many clients there are


class Guard:
    """ASGI middleware around the whole application.

    Args:
        app: the application.
        metrics: the metrics that count requests.
        local: whether to answer only requests whose Host is a name of this machine.
            Otherwise a page of any site could make a browser on this machine send
            requests under the site's name and read the answers (DNS rebinding).
        keyless: whether there is no API key. Then requests from pages of other sites
            are refused, by the headers that browsers send.
        crowded: whether more clients are connected than the limit.
        log: a function that gets a line for each request; None for no log.
    """

    def __init__(
        self,
        app: Any,
        metrics: Metrics,
        *,
        local: bool = False,
        keyless: bool = False,
        crowded: Callable[[], bool] = lambda: False,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._local = local
        self._keyless = keyless
        self._crowded = crowded
        self._log = log

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: Any, send: Any
    ) -> None:
        """Runs one request."""
        start = time.perf_counter()
        status = 500

        async def send_on(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            if (refusal := self._refusal(scope)) is None:
                await self._app(scope, receive, send_on)
            else:
                answer = exchange.refusal(refusal)
                await answer(scope, receive, send_on)
        except Exception:
            # Starlette has answered and re-raises errors that have no handler.
            traceback.print_exc(file=sys.stderr)
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            seconds = time.perf_counter() - start
            self._metrics.request(route, status, seconds)
            if self._log is not None:
                self._log(_line(scope, status, seconds))

    def _refusal(self, scope: MutableMapping[str, Any]) -> exchange.Refusal | None:
        """The refusal of a request, whatever its route; or None."""
        if scope["type"] != "http":
            return None
        hosts = [
            value.decode("latin-1") for key, value in scope["headers"] if key == b"host"
        ]
        if self._local and not all(map(is_own_name, hosts)):
            return exchange.Refusal(
                421,
                "this server accepts only requests to localhost; start it with an "
                "API key to use other host names",
                exchange.CLOSE,
            )
        if self._keyless and is_foreign(Headers(scope=scope), scope["method"]):
            return exchange.Refusal(
                403,
                "requests from pages of other sites are refused, because this "
                "server has no key; start it with an API key to allow them",
                exchange.CLOSE,
            )
        if scope["path"] not in _ALIVE and self._crowded():
            return exchange.Refusal(
                503,
                "too many connections are open; try again later",
                {**exchange.retry_after(1), **exchange.CLOSE},
            )
        return None


def _line(scope: MutableMapping[str, Any], status: int, seconds: float) -> str:
    """A line of the access log: without the query, which may hold what is secret."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    client = (scope.get("client") or ["-"])[0]
    path = urllib.parse.quote(scope.get("path", ""), safe="/:")
    milliseconds = round(1000 * seconds)
    return f"{now} {client} {scope.get('method')} {path} {status} {milliseconds} ms"


def is_own_name(host: str) -> bool:
    """Whether a `Host` header, with any port, is a local name of this machine."""
    match = re.fullmatch(r"\[?([^][]*?)\]?(:\d*)?", host.strip())
    name = match[1].lower() if match else ""
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_foreign(headers: Mapping[str, str], method: str) -> bool:
    """Whether a browser sent a request from a page of another site.

    Following a link to this server is allowed. Programs other than browsers do not send
    these headers.

    Args:
        headers: the headers of the request.
        method: the method of the request.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        follows_a_link = method == "GET" and (
            headers.get("sec-fetch-mode"),
            headers.get("sec-fetch-dest"),
        ) == ("navigate", "document")
        return site not in ("same-origin", "none") and not follows_a_link
    origin = headers.get("origin")
    if origin is None:
        return False
    name = origin.lower().partition("://")[2]  # none of "null"
    return not name or name != headers.get("host", "").lower()


def parse_key(value: str | None, variable: str) -> str | None:
    """The API key of an environment variable, without surrounding spaces.

    Args:
        value: the value of the variable; None where it is not set, and no key is
            needed.
        variable: the name of the variable, for messages.

    Raises:
        InputError: where it is blank, or not UTF-8.
    """
    if value is None:
        return None
    key = value.strip()
    if not key or not key.isprintable():
        raise InputError(
            f"{variable} is set but empty; give a key, or unset it to allow everybody"
        )
    return key


def sent_key(headers: Mapping[str, str]) -> bytes | None:
    """The key in the headers of a request; None where they have no place for it.

    Args:
        headers: the key is in `Authorization: Bearer KEY` or `X-API-Key: KEY`.
    """
    if "authorization" not in headers and "x-api-key" not in headers:
        return None
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        key = headers.get("x-api-key", "")
    return key.strip().encode("latin-1")  # the bytes that came


def check_key(sent: bytes | None, key: str) -> None:
    """Refuses a request without the server's API key.

    Args:
        sent: the key that the client sent, see `sent_key`.
        key: the server's key.

    Raises:
        exchange.Refusal: 401.
    """
    if sent is None:
        raise _unauthorized("this server asks for an API key")
    if not hmac.compare_digest(sent, key.encode()):
        raise _unauthorized("this is not the API key of this server")


def _unauthorized(why: str) -> exchange.Refusal:
    return exchange.Refusal(
        401,
        f"{why}; send it as Authorization: Bearer KEY",
        {"WWW-Authenticate": "Bearer"},
    )
