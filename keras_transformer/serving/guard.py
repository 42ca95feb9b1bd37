"""What stands before every route: the key, counts, and no silent fault."""

import hmac
import sys
import time
import traceback
from collections.abc import MutableMapping
from typing import Any

from keras_transformer.serving import exchange
from keras_transformer.serving.metrics import Metrics

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """ASGI middleware around the whole application.

    Args:
        app: the application.
        metrics: where requests are counted.
    """

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: MutableMapping, receive: Any, send: Any) -> None:
        """Runs one request."""
        start = time.perf_counter()
        status = 500

        async def send_on(message: MutableMapping) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception:
            # Starlette has answered and raises what our handlers do not know.
            traceback.print_exc(file=sys.stderr)
        finally:
            route = getattr(scope.get("endpoint"), "__name__", "none")
            self._metrics.request(route, status, time.perf_counter() - start)


def check_key(headers: MutableMapping[str, str], key: str) -> None:
    """Refuses a request without the server's key.

    Args:
        headers: of the request; the key stands in `Authorization: Bearer KEY` or in
            `X-API-Key: KEY`.
        key: the server's.

    Raises:
        exchange.Refusal: 401.
    """
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        given = headers.get("x-api-key", "")
    if not hmac.compare_digest(given.strip().encode("latin-1"), key.encode()):
        raise exchange.Refusal(
            401,
            "a key is needed; send it as Authorization: Bearer KEY",
            {"WWW-Authenticate": "Bearer"},
        )
