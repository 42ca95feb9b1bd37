"""Byte-pair encoding (BPE) on arrays of ids, with merges skipped at random.

SentencePiece can do this as well, but its random numbers differ between processes
whatever the seed: a killed run could not be resumed exactly.
"""

from __future__ import annotations

import numpy as np

from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer


class BPEMerges:
    """The merges of a tokenizer.

    Args:
        tokenizer: a byte-pair encoding tokenizer.
        split_symbols: whether user-defined symbols are split as other pieces are, as in
            runs of earlier versions, which did not protect them.

    Raises:
        InputError: where the tokenizer is not byte-pair encoding.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.data.bpe_merges import BPEMerges
    >>> from keras_transformer.data.token_rows import TokenRows
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train(["low lower lowest"] * 9, vocabulary_size=275)
    >>> rows = TokenRows.from_lists(tokenizer.encode(["low lower"]))
    >>> merges = BPEMerges(tokenizer)
    >>> anew = merges.join(rows, 1.0, np.random.default_rng(1))
    >>> tokenizer.pieces(anew[0])
    ['l', 'o', 'w', '▁', 'l', 'o', 'w', 'e', 'r']
    """

    def __init__(self, tokenizer: Tokenizer, *, split_symbols: bool = False) -> None:
        scores = tokenizer.scores(split_symbols=split_symbols)
        pieces = tokenizer.pieces(range(len(scores)))
        merged = {i: score for i, score in enumerate(scores) if score is not None}
        ids = {pieces[i]: i for i in merged}
        self._size = len(scores)
        self._by_rank = np.array(sorted(ids.values(), key=lambda i: -merged[i]), int)
        ranks = np.zeros(self._size, int)
        ranks[self._by_rank] = np.arange(len(ids))
        merges = {
            ids[piece[:cut]] * self._size + ids[piece[cut:]]: ranks[i]
            for piece, i in ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        # Each pair of neighbours as one number, sorted, and the rank of its merge. The
        # last number is larger than any pair.
        self._pairs = np.array([*sorted(merges), self._size**2], int)
        self._ranks = np.array([*(merges[pair] for pair in self._pairs[:-1]), 0], int)
        inside = {ids[letter] for piece in ids for letter in piece[1:] if letter in ids}
        self._begins = np.ones(self._size, bool)  # no merge joins it to its predecessor
        self._begins[list(inside)] = False
        self._characters = self._split(pieces, ids)

    def join(
        self, rows: TokenRows, dropout: float, random: np.random.Generator
    ) -> TokenRows:
        """Segments rows again, starting from their characters.

        In each round, each word makes its best merge (the first of equal ones) among
        those that are not skipped in this round; a word whose merges are all skipped is
        finished. Bytes and unknown characters stay as they are.

        Args:
            rows: rows of the tokenizer's ids.
            dropout: the probability that a merge is skipped; 0 gives the tokenizer's
                plain segmentation.
            random: the generator of a number for each possible merge.

        Reference: Provilkov et al., 2020, https://arxiv.org/abs/1910.13267,
        algorithm 1.
        """
        letters = self._characters.take(rows.ids.astype(int))
        offsets = letters.offsets[rows.offsets]
        ids = letters.ids.astype(int)
        begins = np.append(self._begins[ids], True)
        begins[offsets] = True
        words = np.cumsum(begins[:-1])
        mask = self._join(ids, words, dropout, random)
        new_offsets = np.append(0, np.cumsum(mask))[offsets]
        return TokenRows(ids[mask].astype(np.int32), new_offsets)

    def _join(
        self,
        ids: np.ndarray,
        words: np.ndarray,
        dropout: float,
        random: np.random.Generator,
    ) -> np.ndarray:
        """Merges in place; returns a mask of the places that hold an id at the end."""
        mask = np.ones(len(ids), bool)
        places = np.arange(len(ids))  # of the unfinished words
        while len(places):
            word = words[places]
            ranks = self._possible(ids[places], word)
            ranks[random.random(len(ranks), np.float32) < dropout] = self._size
            starts = np.flatnonzero(np.diff(word, prepend=-1))
            lengths = np.diff(starts, append=len(word))
            best = np.repeat(np.minimum.reduceat(ranks, starts), lengths)
            active = best < self._size
            merged = np.flatnonzero(active & (ranks == best))
            merged = merged[np.diff(word[merged], prepend=-1) > 0]  # one per word
            ids[places[merged]] = self._by_rank[ranks[merged]]
            mask[places[merged + 1]] = False
            active[merged + 1] = False
            places = places[active]
        return mask

    def _possible(self, ids: np.ndarray, words: np.ndarray) -> np.ndarray:
        """The rank of each id's merge with the next; `self._size` for none."""
        ranks = np.full(len(ids), self._size)
        pairs = ids[:-1] * self._size + ids[1:]
        positions = np.searchsorted(self._pairs, pairs)
        possible = (self._pairs[positions] == pairs) & (words[:-1] == words[1:])
        ranks[:-1][possible] = self._ranks[positions[possible]]
        return ranks

    def _split(self, pieces: list[str], ids: dict[str, int]) -> TokenRows:
        """The characters of each id; the id itself where they merge differently."""
        split = [
            [ids[letter] for letter in piece]
            if piece in ids and all(letter in ids for letter in piece)
            else [i]
            for i, piece in enumerate(pieces)
        ]
        self._characters = TokenRows.from_lists(split)
        single_ids = TokenRows.from_lists([[i] for i in range(self._size)])
        joined = self.join(single_ids, 0.0, np.random.default_rng(0))
        return TokenRows.from_lists(
            [
                letters if back.tolist() == [i] else [i]
                for i, (letters, back) in enumerate(zip(split, joined, strict=True))
            ]
        )
