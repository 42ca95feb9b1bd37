"""Limits of a server: sizes, times and numbers beyond which it refuses requests."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds of a server; requests beyond one are refused by a message that names it.

    Args:
        batch_size: the maximum number of sentences translated at once, by dynamic
            batching.
        batch_tokens: the maximum number of source tokens translated at once, padding
            included; a longer sentence is translated alone.
        wait_seconds: how long the first sentence of a batch waits for others.
        queue_sentences: the maximum number of waiting sentences; 429 beyond.
        body_bytes: the maximum size of a request; 413 beyond.
        sentences: of a request.
        characters: the maximum number of characters of a sentence.
        request_characters: the maximum number of characters of a request.
        answer_seconds: the time from a complete request to its answer; 504 beyond.
        transfer_seconds: the time for a client to send its head, to send its body, and
            to receive its answer; then 408, or the connection is closed.
        connections: the maximum number of open connections; 503 beyond.
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

        Few, since each needs a compiled program; other batches are filled up.
        """
        sizes = {1, min(8, self.batch_size), self.batch_size}
        return sorted(
            size for size in sizes if size == 1 or size * length <= self.batch_tokens
        )
