"""Fair queuing: clients take turns at the model, and so do a client's requests.

Start-time fair queuing, by source tokens, on two levels.

Reference: Goyal, Vin and Cheng, 1997, https://doi.org/10.1109/90.649569.
"""

from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from typing import Protocol


class Waiting(Protocol):
    """A waiting sentence: its source tokens, client and request."""

    length: int
    client: Hashable
    request: Hashable


class Turns:
    """The service that waiting clients and their requests have received.

    A new client starts at the level of the one that has received least: idle time gives
    no credit, and nobody waits for all earlier clients to finish.
    """

    def __init__(self) -> None:
        self._clients: dict[Hashable, int] = {}
        self._requests: dict[Hashable, dict[Hashable, int]] = {}

    def ordered(self, items: Sequence[Any]) -> list[Any]:
        """The sentences, oldest first, in the order of their turns."""
        by_client: dict[Hashable, dict[Hashable, list[Waiting]]] = {}
        for item in items:
            requests = by_client.setdefault(item.client, {})
            requests.setdefault(item.request, []).append(item)
        self._clients = _entered(self._clients, by_client)
        self._requests = {
            client: _entered(self._requests.get(client, {}), requests)
            for client, requests in by_client.items()
        }
        ages = {id(item): age for age, item in enumerate(items)}
        sequences = {
            client: _merged(requests, self._requests[client], ages)
            for client, requests in by_client.items()
        }
        return _merged(sequences, self._clients, ages)

    def took(self, items: Iterable[Waiting]) -> None:
        """Records sentences of `ordered` that have had their turn."""
        for item in items:
            self._clients[item.client] += item.length
            self._requests[item.client][item.request] += item.length


def _entered(
    had: dict[Hashable, int], present: Iterable[Hashable]
) -> dict[Hashable, int]:
    """The service received by waiting clients; others are forgotten."""
    kept = {key: had[key] for key in present if key in had}
    least = min(kept.values(), default=0)
    return {key: kept.get(key, least) for key in present}


def _merged(
    sequences: dict[Hashable, list[Waiting]],
    had: dict[Hashable, int],
    ages: dict[int, int],
) -> list[Waiting]:
    """Merges sequences: least service first, then the older one."""
    turns = []
    for key, items in sequences.items():
        start = had[key]
        for item in items:
            turns.append((start, ages[id(item)], item))
            start += item.length
    return [item for *_, item in sorted(turns, key=lambda turn: turn[:2])]
