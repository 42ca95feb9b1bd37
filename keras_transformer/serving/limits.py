"""Limits of a server: what it takes on, and what it refuses."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a server; what is beyond one is refused with a message that names it.

    Args:
        batch_size: the most sentences translated at once, by dynamic batching.
        batch_tokens: the most source tokens translated at once, padding included; a
            longer sentence is translated alone.
        wait_seconds: how long the first sentence of a batch waits for company.
        queue_sentences: the most sentences that wait; 429 beyond.
        body_bytes: of a request; 413 beyond.
        sentences: of a request.
        characters: of a sentence.
        request_characters: of all sentences of a request.
        answer_seconds: from a whole request to its answer; 504 beyond.
        transfer_seconds: for a client to send its head, then its body, and to take
            its answer; 408, or the connection is closed.
        connections: open at once; 503 beyond.
    """

    batch_size: int = 64
    batch_tokens: int = 8192
    wait_seconds: float = 0.005
    queue_sentences: int = 1024
    body_bytes: int = 2**20
    sentences: int = 128
    characters: int = 4000
    request_characters: int = 2**17
    answer_seconds: float = 60.0
    transfer_seconds: float = 20.0
    connections: int = 1000

    def row_counts(self, length: int) -> list[int]:
        """The batch sizes that sentences of `length` tokens are translated in.

        Few, since a program is compiled for each; a batch in between is filled up.
        """
        sizes = {1, min(8, self.batch_size), self.batch_size}
        return sorted(
            size for size in sizes if size == 1 or size * length <= self.batch_tokens
        )
