"""Augmentation of the source: another case and typos, anew each time it is used."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from keras_transformer.data.buckets import Share
from keras_transformer.data.piece_kinds import user_defined_ids
from keras_transformer.data.text_noise import CASINGS
from keras_transformer.data.text_noise import with_typos
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

_SAMPLE = 1000  # number of rows whose growth is measured
_STREAM = 3  # of random numbers, beside those of batches and of BPE-dropout
_WORD_BEGIN = "▁"  # a piece of SentencePiece


class Augmentation:
    """Another case and typos in the source of sentence pairs; the target stays.

    For the `augment` of `TokenBatches`. Each casing is planned as further pairs, which
    an epoch sees a share of: with `upper=0.05` another twentieth of the pairs in each
    epoch is in upper case, and in 20 epochs each pair once. Typos are drawn for each
    line whenever it is used. A pure function of pairs and seed.

    User-defined symbols stay as they are, and so does what stands around the text of
    a pair that is whole, such as a language.

    Args:
        tokenizer: the tokenizer of the source.
        casings: the share of the lines in each of `"upper"`, `"title"` and `"lower"`
            case; together at most 1.
        typos: the probability of a typo in each word, see `text_noise.with_typos`.
        max_length: the maximum number of tokens that a source may grow to, with the end
            token; None for no limit.

    Raises:
        InputError: where a share is not between 0 and 1, or nothing is changed.

    Example:

    >>> from keras_transformer.data.augmentation import Augmentation
    >>> from keras_transformer.data.token_rows import EncodedPairs
    >>> from keras_transformer.data.token_rows import TokenRows
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train(["a low tower"] * 9, vocabulary_size=278)
    >>> rows = TokenRows.from_lists(tokenizer.encode(["a low tower"] * 2))
    >>> augment = Augmentation(tokenizer, {"upper": 0.1})
    >>> pairs = augment(EncodedPairs(rows, rows), [0, 1], 99, seed=(1, 2))
    >>> tokenizer.decode(pairs.source)
    ['a low tower', 'A LOW TOWER']
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        casings: Mapping[str, float] | None = None,
        typos: float = 0.0,
        max_length: int | None = None,
    ) -> None:
        shares = {name: share for name, share in (casings or {}).items() if share}
        _check(shares, typos)
        self.typos = typos
        self.max_length = max_length
        plain = 1 - sum(shares.values())
        kinds = [("plain", plain)] if plain > 1e-9 else []
        self._kinds = [*kinds, *shares.items()]
        self._tokenizer = tokenizer
        size = tokenizer.vocabulary_size
        # Ids without a text of their own: special ids and reserved symbols.
        texts = tokenizer.decode([[token] for token in range(size)])
        self._has_text = np.array([bool(text) for text in texts], bool)
        bare = np.flatnonzero(~self._has_text).tolist()
        pieces = zip(bare, tokenizer.pieces(bare), strict=True)
        #: Of the beginning of a word by itself, which has no text in front of a line.
        self._word_begins = {token for token, piece in pieces if piece == _WORD_BEGIN}
        self._symbol_ids = _symbol_ids(tokenizer)
        self._symbols = _symbols(tokenizer, self._symbol_ids)

    def __call__(
        self,
        pairs: EncodedPairs,
        kinds: Sequence[int] | np.ndarray,
        longest: int | np.ndarray,
        seed: Sequence[int],
    ) -> EncodedPairs:
        """The pairs with their sources changed.

        Args:
            pairs: as they are.
            kinds: the number of the kind of each pair, from 0: first the plain one,
                unless it has no share, then the casings that have one, (pairs,).
            longest: the maximum number of tokens of a source, or of each; one that
                would become longer loses its typos, and if need be its case.
            seed: integers from 0.
        """
        random = np.random.default_rng((*seed, _STREAM))
        limits = np.broadcast_to(longest, len(pairs))
        rows = self._changed(pairs.source, np.asarray(kinds), limits, random)
        return dataclasses.replace(pairs, source=rows)

    def shares(self, shares: Sequence[Share]) -> list[Share]:
        """The shares of corpora, those of the first kind first, then of the next."""
        return [
            (count, weight * share)
            for _, share in self._kinds
            for count, weight in shares
        ]

    def room(self, pairs: EncodedPairs, lengths: np.ndarray) -> np.ndarray:
        """Estimated maximum length of each source, (kinds, pairs) int32.

        The mean growth m per token and its variance v of each kind are measured on
        `_SAMPLE` rows. A row of n tokens gets room for m n + sqrt(v n), a standard
        deviation above the expected length, and at least n.

        Args:
            pairs: as they are.
            lengths: the room that their sources have without augmentation, (pairs,).
        """
        places = np.linspace(0, len(pairs) - 1, min(_SAMPLE, len(pairs))).astype(int)
        sample = pairs.source.take(places)
        before, tokens = sample.lengths, max(sample.lengths.sum(), 1)
        limits = np.full(len(sample), np.iinfo(np.int32).max)
        plain = pairs.source.lengths
        rooms = []
        for kind in range(len(self._kinds)):
            random = np.random.default_rng((kind, _STREAM))
            kinds = np.full(len(sample), kind)
            after = self._changed(sample, kinds, limits, random).lengths
            mean = after.sum() / tokens
            variance = ((after - mean * before) ** 2).sum() / tokens
            room = np.ceil(mean * plain + np.sqrt(variance * plain)) + lengths - plain
            if self.max_length is not None:
                room = np.minimum(room, self.max_length - 1)
            rooms.append(np.maximum(room, lengths).astype(np.int32))
        return np.stack(rooms)

    def _changed(
        self,
        rows: TokenRows,
        kinds: np.ndarray,
        limits: np.ndarray,
        random: np.random.Generator,
    ) -> TokenRows:
        """The rows in their kinds and with typos, where they fit."""
        lists = rows.lists()
        active = [
            i
            for i, row in enumerate(lists)
            if (self.typos or self._kinds[kinds[i]][0] in CASINGS)
            and self._tokenizer.unknown_id not in row
        ]
        spans = [self._span(lists[i]) for i in active]
        plain = self._tokenizer.decode(
            [lists[i][begin:end] for i, (begin, end) in zip(active, spans, strict=True)]
        )
        cased = [self._cased(t, kinds[i]) for i, t in zip(active, plain, strict=True)]
        typed = [self._typed(text, random) for text in cased]
        for before, after in ((plain, cased), (cased, typed)):
            changed = [j for j, text in enumerate(after) if text != before[j]]
            encoded = self._tokenizer.encode([after[j] for j in changed])
            for j, ids in zip(changed, encoded, strict=True):
                begin, end = spans[j]
                row = rows[active[j]].tolist()
                row[begin:end] = ids
                if ids and len(row) <= limits[active[j]]:
                    lists[active[j]] = row
        return TokenRows.from_lists(lists)

    def _span(self, row: Sequence[int]) -> tuple[int, int]:
        """Where the text of a row begins and ends."""
        size = len(self._has_text)
        places = [i for i, t in enumerate(row) if t < size and self._has_text[t]]
        if not places:
            return 0, 0
        begin, end = self._with_word_begin(row, places[0]), places[-1] + 1
        after = next((i for i in places if row[i] not in self._symbol_ids), end)
        after = self._with_word_begin(row, after)
        if begin < after < end:  # symbols in front of the text, or at its beginning?
            text = list(row[after:end])
            if self._tokenizer.encode(self._tokenizer.decode([text]))[0] == text:
                begin = after
        return begin, end

    def _with_word_begin(self, row: Sequence[int], place: int) -> int:
        """A place, or that before it, where the piece there only begins a word."""
        return place - (place > 0 and row[place - 1] in self._word_begins)

    def _cased(self, text: str, kind: int) -> str:
        change = CASINGS.get(self._kinds[kind][0])
        if change is None:
            return text
        parts = self._parts(text)
        parts[::2] = map(change, parts[::2])
        return "".join(parts)

    def _typed(self, text: str, random: np.random.Generator) -> str:
        if not self.typos:
            return text
        parts = self._parts(text)
        parts[::2] = [with_typos(part, self.typos, random) for part in parts[::2]]
        return "".join(parts)

    def _parts(self, text: str) -> list[str]:
        """The text between user-defined symbols, and these, in turn."""
        return self._symbols.split(text) if self._symbols else [text]


def _symbol_ids(tokenizer: Tokenizer) -> set[int]:
    """The ids of the user-defined symbols of a tokenizer."""
    return set() if tokenizer.listed is not None else user_defined_ids(tokenizer.model)


def _symbols(tokenizer: Tokenizer, ids: set[int]) -> re.Pattern[str] | None:
    """What finds these symbols in a text; None where there are none."""
    pieces = tokenizer.pieces(sorted(ids))
    longest_first = sorted(pieces, key=len, reverse=True)
    return (
        re.compile(f"({'|'.join(map(re.escape, longest_first))})") if pieces else None
    )


def _check(shares: Mapping[str, float], typos: float) -> None:
    for name, share in {**shares, "typos": typos}.items():
        if name != "typos" and name not in CASINGS:
            raise InputError(
                f"unknown casing {name!r}; use one of {', '.join(CASINGS)}"
            )
        if not 0 <= share <= 1:
            raise InputError(f"the share {share} of {name} must be between 0 and 1")
    if sum(shares.values()) > 1 + 1e-9:
        raise InputError(
            f"{' and '.join(shares)} add up to {sum(shares.values()):.4g}; together "
            f"they may be 1 at most"
        )
    if not shares and not typos:
        raise InputError("nothing is augmented; give a casing or typos a share above 0")
