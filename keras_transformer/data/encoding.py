"""Encoding of sentence pairs to token ids, in one process or several."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from itertools import islice

import numpy as np

from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import refuse_languages
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.filters import Filters
from keras_transformer.data.filters import SeenPairs
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer import count_space_marks
from keras_transformer.errors import InputError
from keras_transformer.processors import num_processors

_FEW = 8  # chunks that are encoded faster than worker processes start


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedChunk:
    """The pairs of a text that the filters keep.

    Args:
        pairs: the ids of the pairs, in order.
        report: the filter report of the text.
        hashes: a hash of each pair's ids, (pairs,) uint64; None unless pairs must be
            unique.
    """

    pairs: EncodedPairs
    report: CorpusReport
    hashes: np.ndarray | None

    def only_new(self, seen: SeenPairs) -> EncodedChunk:
        """The chunk without pairs that were seen before; adds its pairs to `seen`."""
        if self.hashes is None:
            return self
        new = seen.add(self.hashes)
        report = self.report.without_duplicates(int(np.count_nonzero(~new)))
        return EncodedChunk(self.pairs.take(np.flatnonzero(new)), report, None)


@dataclasses.dataclass(frozen=True, eq=False)
class PairEncoder:
    """Encoder of filtered sentence pairs; it is pickled to worker processes.

    Args:
        source_tokenizer: of the source.
        target_tokenizer: of the target; the same for a shared vocabulary.
        filters: the filters of pairs.
        direction: what stands around the texts, for pairs that are whole (see
            `EncodedPairs`); None for the ids of the texts alone.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    filters: Filters
    direction: Direction | None = None

    def __call__(self, text: ParallelText, first_line: int = 1) -> EncodedChunk:
        """Encodes a text; `first_line` is the number of its first line, for messages.

        Raises:
            InputError: where a line holds a lone surrogate, with its number.
        """
        pairs = EncodedPairs(
            _encode(self.source_tokenizer, self._sources(text), first_line),
            _encode(self.target_tokenizer, text.target, first_line),
        )
        is_empty = self.source_tokenizer.is_empty, self.target_tokenizer.is_empty
        filled = [
            not is_empty[0](source) and not is_empty[1](target)
            for source, target in zip(text.source, text.target, strict=True)
        ]
        reasons = self._filters().reasons(
            np.array(filled, bool),
            pairs.source.lengths,
            pairs.target.lengths,
            self._lengths_without_prefix(text, first_line),
        )
        marks = count_space_marks(chain(text.source, text.target))
        pairs = self._whole(pairs.take(np.flatnonzero(reasons == 0)))
        hashes = None
        if self.filters.unique:
            rows = range(len(pairs))
            hashes = np.array([_hash(pairs, row) for row in rows], np.uint64)
        report = self.filters.report(reasons, marks)
        return EncodedChunk(pairs, report, hashes)

    @property
    def _prefix(self) -> str:
        return self.direction.prefix if self.direction else ""

    def _sources(self, text: ParallelText) -> list[str]:
        prefix = self._prefix
        return [prefix + line for line in text.source] if prefix else text.source

    def _lengths_without_prefix(
        self, text: ParallelText, first_line: int
    ) -> np.ndarray | None:
        if not self._prefix or not self.filters.counts_tokens:
            return None
        return _encode(self.source_tokenizer, text.source, first_line).lengths

    def _filters(self) -> Filters:
        """The filters of texts without what stands around them."""
        if self.direction is None:
            return self.filters
        longest = self.filters.max_length + 1 - self.direction.num_around
        return dataclasses.replace(self.filters, max_length=longest)

    def _whole(self, pairs: EncodedPairs) -> EncodedPairs:
        """The pairs with what stands around them."""
        if (direction := self.direction) is None:
            return pairs
        targets = map(direction.label_ids, pairs.target.lists())
        return EncodedPairs(
            TokenRows.from_lists([*map(direction.source_ids, pairs.source.lists())]),
            TokenRows.from_lists([[direction.start_id, *row] for row in targets]),
            is_whole=True,
        )


def encode_pairs(
    text: ParallelText,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_length: int,
    *,
    min_length: int = 1,
    max_ratio: float | None = None,
    unique: bool = False,
    languages: Languages | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> tuple[EncodedPairs, CorpusReport]:
    """Sentence pairs as ids, filtered.

    Args:
        text: the sentence pairs.
        source_tokenizer: of the source.
        target_tokenizer: of the target; the same for a shared vocabulary.
        max_length: the maximum number of tokens of either side, with the end token.
        min_length: see `Filters`, as are `max_ratio` and `unique`.
        max_ratio: see `min_length`.
        unique: see `min_length`.
        languages: of a multilingual model (`Translator.languages`); the pairs are then
            whole, see `EncodedPairs`.
        source_language: the code of the source, where `languages` has no default.
        target_language: the code of the target, in the same way.

    Returns:
        The pairs that are kept, in order, and the report of those dropped.

    Raises:
        InputError: where no pair remains, or a code is missing or not known.

    Example:

    >>> from keras_transformer.data.encoding import encode_pairs
    >>> from keras_transformer.data.parallel_text import ParallelText
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> text = ParallelText(["a b c", "", "a a a a a a"], ["b", "c", "a"])
    >>> tokenizer = Tokenizer.train(["a b c"], vocabulary_size=264)
    >>> pairs, report = encode_pairs(text, tokenizer, tokenizer, max_length=8)
    >>> print(report)
    1 pairs kept, 2 dropped: 1 empty, 1 longer than 8 tokens
    """
    filters = Filters(max_length, min_length, max_ratio, unique)
    ids, direction = target_tokenizer.special_ids, None
    if languages is None:
        refuse_languages(source_language, target_language)
    else:
        direction = languages.direction(ids, source_language, target_language)
    encode = PairEncoder(source_tokenizer, target_tokenizer, filters, direction)
    seen, encoded, first_line = SeenPairs(), [], 1
    # Lists of ids take nine times the memory of an array: encode in chunks.
    for part in text.chunks() if len(text) else [text]:
        encoded.append(encode(part, first_line).only_new(seen))
        first_line += len(part)
    report = CorpusReport.total([chunk.report for chunk in encoded])
    check_not_empty("the corpus", report)
    pairs = EncodedPairs.concatenate([chunk.pairs for chunk in encoded])
    return dataclasses.replace(pairs, special_ids=ids), report


def check_not_empty(name: str, report: CorpusReport) -> None:
    """Refuses a corpus without any pair that is kept.

    Raises:
        InputError: with the report.
    """
    if not report.kept:
        raise InputError(
            f"{name} has no usable pair ({report}); check its files and the filters"
        )


def encode_stream(
    texts: Iterable[ParallelText], encoder: PairEncoder, workers: int | None = None
) -> Iterator[EncodedChunk]:
    """Encodes texts in order, in several processes where that pays off.

    Args:
        texts: a stream, read only as fast as the workers need it.
        encoder: the encoder of each text.
        workers: processes; None for one on each core, 1 for this process alone.

    Raises:
        InputError: where a worker process dies.
    """
    texts = iter(texts)
    workers = workers or num_processors()
    if workers > 1:
        yield from map(encoder, islice(texts, _FEW))
        following = next(texts, None)
        if following is not None:
            yield from _encode_elsewhere(chain([following], texts), encoder, workers)
    else:
        yield from map(encoder, texts)


def _encode_elsewhere(
    texts: Iterator[ParallelText], encoder: PairEncoder, workers: int
) -> Iterator[EncodedChunk]:
    # Spawned: a fork of a process with a framework's threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin_work, initargs=(encoder,)
    )
    waiting: collections.deque[Future[EncodedChunk]] = collections.deque()
    try:
        for text in texts:
            waiting.append(pool.submit(_work, text))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise InputError(
            "a process that encodes text died: out of memory, or the program has "
            'no `if __name__ == "__main__":`; set data.workers to 1'
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


_encoder: PairEncoder  # of a worker process


def _begin_work(encoder: PairEncoder) -> None:
    global _encoder
    _encoder = encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends a worker when its parent was killed: it would wait for ever otherwise."""
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)


def _work(text: ParallelText) -> EncodedChunk:
    return _encoder(text)


def _encode(tokenizer: Tokenizer, lines: list[str], first_line: int) -> TokenRows:
    return TokenRows.from_lists(tokenizer.encode(lines, first_line=first_line))


def _hash(pairs: EncodedPairs, row: int) -> int:
    # No id is negative.
    pair = pairs.source[row].tobytes() + b"\xff" * 4 + pairs.target[row].tobytes()
    return int.from_bytes(hashlib.blake2b(pair, digest_size=8).digest(), "little")
