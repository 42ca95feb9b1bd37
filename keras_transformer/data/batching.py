"""Token batches of sentence pairs: a token budget, few shapes, little padding.

B batch, T target positions, S source positions.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.arguments import check_counts
from keras_transformer.data.augmentation import Augmentation
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.bpe_dropout import Longest
from keras_transformer.data.buckets import BatchPlan
from keras_transformer.data.buckets import Shape
from keras_transformer.data.buckets import Share
from keras_transformer.data.buckets import plan_batches
from keras_transformer.data.epoch_order import EpochOrder
from keras_transformer.data.span_corruption import SpanCorruption
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

#: The version of the batch plan that new runs use; see `TokenBatches`.
RULE = 2

_SPECIAL_IDS = {"pad_id": 0, "start_id": 1, "end_id": 2}

Batch = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]


def pad_rows(
    rows: TokenRows | Sequence[Sequence[int]], length: int, pad_id: int = 0
) -> np.ndarray:
    """Rows of ids as one array, padded with `pad_id`: (B, length) int32.

    Raises:
        InputError: where a row has more than `length` ids.

    Example:

    >>> from keras_transformer.data.batching import pad_rows
    >>> pad_rows([[7, 8, 9], [6]], 4)
    array([[7, 8, 9, 0],
           [6, 0, 0, 0]], dtype=int32)
    """
    if not isinstance(rows, TokenRows):
        rows = TokenRows.from_lists(rows)
    lengths = rows.lengths
    if lengths.max(initial=0) > length:
        raise InputError(
            f"a row of {lengths.max()} ids does not fit into {length} positions; "
            f"shorten the row or give more positions"
        )
    padded = np.full((len(rows), length), pad_id, np.int32)
    padded[np.arange(length) < lengths[:, None]] = rows.ids
    return padded


class TokenBatches(keras.utils.PyDataset):
    """Batches of about `batch_tokens` target tokens, for `fit` on every backend.

    Pairs of similar length share a batch. All batches of one bucket have the same
    shape (rows, S, T), so a compiled step is compiled at most `max_buckets` times. The
    weights of a batch sum to 1: a summed loss is the mean over its tokens, however the
    batch is split over devices. Which pairs share a batch does not depend on the number
    of devices: `rows_multiple_of` only adds rows of padding.

    A batch is `({"source": (B, S), "target": (B, T)}, labels (B, T), weights (B, T))`,
    int32 and float32: source x1..xn `</s>`, target `<s>` y1..ym, labels y1..ym `</s>`.
    Rows that fill up a batch hold only padding and have weight 0. Pairs that are whole
    (see `EncodedPairs`) are taken as they are: nothing is added to the source, and the
    labels are the target without its first id.

    The order is a pure function of `seed` and `epoch`. An index beyond the last batch
    is a batch of a later epoch, so that step k of a whole training is `batches[k]`. By
    default `fit` shuffles the batches again with Python's global random state;
    `fit(..., shuffle=False)` keeps the order of this class. Keras' epochs of
    `steps_per_epoch` steps are not epochs of the corpus: see `from_step`.

    The ids may be memory-mapped from a file: 12 bytes per pair are held in memory.

    Args:
        pairs: the sentence pairs.
        batch_tokens: the maximum number of target positions of a batch, padding
            included; a longer sentence forms a batch alone.
        shuffle: False gives the same order in every epoch: longest first, except for
            the second batch, which is the shortest.
        seed: the seed of the order.
        max_buckets: the maximum number of shapes.
        rows_multiple_of: the number of devices that share a batch, times their
            micro-batches; rows of padding fill up a remainder.
        sizes_multiple_of: of which number S and T are multiples, and rows, where there
            are many: 8 on a GPU, which is slow for other sizes.
        pad_id: the padding id. Default, as for `start_id` and `end_id`: that of the
            tokenizer, where `encode_pairs` made the pairs, otherwise 0, 1 and 2.
        start_id: the first id of the decoder's input.
        end_id: the last id of labels and source.
        source_end: whether the source ends with `end_id`, where pairs are not whole.
        shares: `(num_pairs, weight)` of each corpus, where `pairs` concatenates
            several. With weight 0.25, each epoch sees a different quarter of that
            corpus.
        bpe_dropout: segments the pairs again each time they are used, as a function of
            `seed`, epoch and batch. The shapes leave room for most segmentations; a row
            that does not fit keeps its plain segmentation.
        augment: changes sources each time they are used, in the same way; a source that
            does not fit stays as it is.
        span_corruption: makes pairs of the sources alone, each time they are used, in
            the same way: text with gaps, and what stood in them. It goes with neither
            of the two above.
        batch_source_tokens: the maximum number of source positions of a batch, padding
            included; None for `batch_tokens`.
        max_positions: the positions of a model that has learned them, beyond which S
            and T are not rounded up.
        rule: the version of the batch plan. 2, or 1 for runs that earlier versions
            began: rule 1 rounds the planned rows to a multiple of `rows_multiple_of`,
            and does not bound the source by default.

    Attributes:
        special_ids: `pad_id`, `start_id` and `end_id`; a model of this package compares
            them with its config before it trains.
        is_packed: whether a row may hold several pairs, see `PackedBatches`.
        epoch: the number of the epoch that starts at index 0, from 0; may be set. The
            end of an epoch increases it by one, and so does the start of the first
            `fit`, because Keras also calls `on_epoch_end` there.
        shapes: (rows, S, T) of each bucket, the longest first.
        num_tokens: target tokens of an epoch, end tokens included, in the plain
            segmentation; the mean where epochs differ because of `shares`.
        padding: the share of target positions that are padding.

    Raises:
        InputError: where there are no pairs, a number is not positive, or
            `span_corruption` does not go with the rest.

    Example:

    >>> from keras_transformer.data.batching import TokenBatches
    >>> from keras_transformer.data.token_rows import EncodedPairs
    >>> from keras_transformer.data.token_rows import TokenRows
    >>> rows = TokenRows.from_lists([[5, 6, 7], [8, 9, 4], [3]])
    >>> batches = TokenBatches(EncodedPairs(rows, rows), batch_tokens=8)
    >>> batches.shapes
    [(2, 4, 4), (1, 2, 2)]

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.1.
    """

    is_packed = False

    def __init__(
        self,
        pairs: EncodedPairs,
        batch_tokens: int = 4096,
        *,
        shuffle: bool = True,
        seed: int = 1,
        max_buckets: int = 8,
        rows_multiple_of: int = 1,
        sizes_multiple_of: int = 1,
        pad_id: int | None = None,
        start_id: int | None = None,
        end_id: int | None = None,
        source_end: bool = True,
        shares: Sequence[Share] | None = None,
        bpe_dropout: BPEDropout | None = None,
        augment: Augmentation | None = None,
        span_corruption: SpanCorruption | None = None,
        batch_source_tokens: int | None = None,
        max_positions: int | None = None,
        rule: int = RULE,
    ) -> None:
        super().__init__(workers=0)
        if not len(pairs):
            raise InputError("there are no sentence pairs to batch; give at least one")
        if batch_source_tokens is None and rule > 1:
            batch_source_tokens = batch_tokens
        _check_numbers(
            rule,
            batch_tokens=batch_tokens,
            batch_source_tokens=batch_source_tokens,
            max_buckets=max_buckets,
            rows_multiple_of=rows_multiple_of,
            sizes_multiple_of=sizes_multiple_of,
        )
        self.pairs = pairs
        self.shuffle = shuffle
        self.seed = seed
        self.rows_multiple_of = rows_multiple_of
        self.sizes_multiple_of = sizes_multiple_of
        self.max_positions = max_positions
        self.rule = rule
        ids = _special_ids(pairs, pad_id=pad_id, start_id=start_id, end_id=end_id)
        self.special_ids, self.pad_id = ids, ids["pad_id"]
        self.start_id, self.end_id = ids["start_id"], ids["end_id"]
        self.source_end = source_end and not pairs.is_whole
        # Of the labels, those that the targets lack, or that they have too many.
        self._added = -1 if pairs.is_whole else 1
        self.shares = _checked(shares or [(len(pairs), 1.0)], len(pairs))
        self.bpe_dropout = bpe_dropout
        self.augment = augment
        self.span_corruption = span_corruption
        self.epoch = 0
        self._begun: bool | None = None  # an epoch, by Keras; None before the first
        self._part = (0, 1)
        lengths = pairs.source.lengths, pairs.target.lengths
        if bpe_dropout is not None:
            lengths = bpe_dropout.room(pairs)
        if augment is not None:
            self.shares = augment.shares(self.shares)
            rooms = augment.room(pairs, lengths[0])  # of each kind
            lengths = rooms.ravel(), np.tile(lengths[1], len(rooms))
        if span_corruption is not None:
            self._check_corruption()
            lengths = span_corruption.lengths(lengths[0])
        self._plan = self._planned(
            lengths[0] + np.int32(self.source_end),
            lengths[1] + np.int32(self._added),
            batch_tokens,
            max_buckets,
            batch_source_tokens,
        )
        self._order = EpochOrder(self._plan, shuffle, seed)
        self.shapes = self._shapes()
        self.num_tokens = self._count_tokens()
        self.padding = 1.0 - self.num_tokens / self._count_positions()

    def __len__(self) -> int:
        return len(self._plan.buckets)

    def __getitem__(self, index: int) -> Batch:
        epoch, batch, rows, (B, S, T) = self._planned_batch(index)
        part, parts = self._part
        part_rows = slice(part * (B // parts), (part + 1) * (B // parts))
        if self._is_plain:
            tokens = self._tokens_of(rows)
            pairs = self.pairs.take(rows[part_rows])
        else:
            # All rows are segmented: the number of tokens of the other parts is needed.
            room = S - self.source_end, T - self._added
            pairs = self._drawn(rows, room, (self.seed, epoch, batch))
            tokens = len(pairs.target.ids) + len(rows) * self._added
            pairs = pairs.take(np.arange(len(rows))[part_rows])
        return self._batch(pairs, (B // parts, S, T), tokens)

    @property
    def adds_source_end(self) -> bool | None:
        """Whether `end_id` is put behind each source; None where pairs are whole."""
        return None if self.pairs.is_whole else self.source_end

    @property
    def _is_plain(self) -> bool:
        """Whether pairs are taken as they are."""
        changes = self.bpe_dropout, self.augment, self.span_corruption
        return all(change is None for change in changes)

    def _check_corruption(self) -> None:
        """Refuses what cannot be, beside `span_corruption`."""
        if self.bpe_dropout is not None or self.augment is not None:
            raise InputError(
                "span_corruption goes with neither bpe_dropout nor augment; give one "
                "of them"
            )
        if self.pairs.is_whole:
            raise InputError(
                "span_corruption makes pairs of plain text, and these pairs have "
                "languages or tags; encode them without"
            )
        if self.pairs.source.lengths.min() < 2:
            raise InputError(
                "span_corruption needs at least two tokens a row; encode the text with "
                "min_length=2"
            )

    def _drawn(
        self,
        numbers: np.ndarray,
        longest: tuple[Longest, Longest],
        seed: tuple[int, int, int],
    ) -> EncodedPairs:
        """The pairs with these numbers of the plan, as they are used this time: as of
        `span_corruption`, or of `augment` and then of `bpe_dropout`, up to so many
        tokens of source and target."""
        kinds, places = np.divmod(numbers, len(self.pairs))
        pairs = self.pairs.take(places)
        if self.span_corruption is not None:
            return self.span_corruption.corrupted(pairs, seed)
        if self.augment is not None:
            pairs = self.augment(pairs, kinds, longest[0], seed)
        if self.bpe_dropout is not None:
            pairs = self.bpe_dropout(pairs, longest, seed)
        return pairs

    def _planned_batch(self, index: int) -> tuple[int, int, np.ndarray, Shape]:
        """Epoch, batch of the plan, its rows and its shape, of one in the order."""
        if index < 0:
            raise IndexError(f"batch {index}: the index must not be negative")
        epoch, index = divmod(index, len(self))
        epoch += self.epoch
        slots, batches = self._order(epoch)
        batch = batches[index]
        first, end = self._plan.cuts[batch : batch + 2]
        return epoch, batch, slots[first:end], self.shapes[self._plan.buckets[batch]]

    def on_epoch_begin(self) -> None:
        self._begun = True

    def on_epoch_end(self) -> None:
        # Keras also calls it when `fit` begins. A second `fit` goes on where the first
        # one ended, so that shares are seen whole.
        if self._begun is not False:
            self.epoch += 1
        if self._begun:
            self._begun = False

    def part(self, index: int, count: int) -> TokenBatches:
        """The rows of each batch that belong to part `index` of `count` equal parts.

        For one of `count` processes that train together. The concatenated parts are the
        batch, in its order, on which dropout masks depend. The weights are those of the
        whole batch: they sum to 1 over all parts. Rows of other parts are not built.

        Raises:
            InputError: where `rows_multiple_of` is not a multiple of `count`.
        """
        if not 0 <= index < count or self.rows_multiple_of % count:
            raise InputError(
                f"part {index} of {count} does not fit rows_multiple_of "
                f"{self.rows_multiple_of}; give a multiple of the number of parts"
            )
        part = copy.copy(self)
        part._part = (index, count)
        return part

    def of_each_shape(self) -> Iterator[Batch]:
        """One batch of each of `shapes`, in their order."""
        _, order = self._order(self.epoch)
        for bucket in range(len(self.shapes)):
            of_bucket = self._plan.buckets[order] == bucket
            yield self[int(np.flatnonzero(of_bucket)[0])]

    def from_step(
        self, step: int, part: tuple[int, int] = (0, 1)
    ) -> keras.utils.PyDataset:
        """The batches `self[step]`, `self[step + 1]`, ... without end.

        For training by steps, and for resuming in the middle of an epoch:
        `fit(batches.from_step(done), steps_per_epoch=..., shuffle=False)` continues
        with the next step across Keras' epochs. A loop of one's own iterates over it.

        Args:
            step: the step of the first batch.
            part: the arguments index and count of `part`, for one of several processes.
        """
        return _Endless(self.part(*part), step)

    def _planned(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        max_buckets: int,
        batch_source_tokens: int | None,
    ) -> BatchPlan:
        """The plan of pairs of these lengths, special ids included."""
        return plan_batches(
            source_lengths,
            target_lengths,
            self.shares,
            batch_tokens,
            max_buckets,
            self.rows_multiple_of if self.rule == 1 else 1,
            batch_source_tokens,
            self.sizes_multiple_of,
            self.max_positions,
        )

    def _batch(self, pairs: EncodedPairs, shape: Shape, tokens: int) -> Batch:
        """Pads pairs to a shape; `tokens` are those of the whole batch."""
        B, S, T = shape
        rows = np.arange(len(pairs))
        target_lengths = pairs.target.lengths
        source = np.full((B, S), self.pad_id, np.int32)
        target = np.full((B, T), self.pad_id, np.int32)
        labels = np.full((B, T), self.pad_id, np.int32)
        weights = np.zeros((B, T), np.float32)

        source[rows] = pad_rows(pairs.source, S, self.pad_id)
        if self.source_end:
            source[rows, pairs.source.lengths] = self.end_id
        if pairs.is_whole:
            whole = pad_rows(pairs.target, T + 1, self.pad_id)
            labels[rows] = whole[:, 1:]
            target_lengths = target_lengths - 2
            is_input = np.arange(T) <= target_lengths[:, None]
            target[rows] = np.where(is_input, whole[:, :-1], self.pad_id)
        else:
            labels[rows] = pad_rows(pairs.target, T, self.pad_id)
            target[rows, 0] = self.start_id
            target[:, 1:] = labels[:, :-1]
            labels[rows, target_lengths] = self.end_id
        weights[rows] = (np.arange(T) <= target_lengths[:, None]) / tokens
        return {"source": source, "target": target}, labels, weights

    def _shapes(self) -> list[Shape]:
        multiple = self.rows_multiple_of
        return [
            (-(-rows // multiple) * multiple, S, T) for rows, S, T in self._plan.shapes
        ]

    def _count_positions(self) -> int:
        shapes = (self.shapes[bucket] for bucket in self._plan.buckets)
        return sum(rows * T for rows, _, T in shapes)

    def _count_tokens(self) -> int:
        tokens = 0.0
        for stratum in (s for bucket in self._plan.strata for s in bucket):
            epoch_tokens = self._tokens_of(stratum.pairs)
            tokens += epoch_tokens * stratum.slots / len(stratum.pairs)
        return round(tokens)

    def _tokens_of(self, pairs: np.ndarray) -> int:
        """The target tokens of the pairs with these numbers, end tokens included."""
        lengths = self._target_lengths(pairs)
        return int(lengths.sum()) + len(lengths) * self._added

    def _target_lengths(self, numbers: np.ndarray) -> np.ndarray:
        """The tokens of the targets with these numbers, in their plain segmentation."""
        places = numbers % len(self.pairs)
        if self.span_corruption is not None:
            rows = self.pairs.source.lengths_of(places)
            return self.span_corruption.lengths(rows)[1]
        return self.pairs.target.lengths_of(places)


def _special_ids(pairs: EncodedPairs, **given: int | None) -> dict[str, int]:
    explicit_ids = {name: value for name, value in given.items() if value is not None}
    return {**(pairs.special_ids or _SPECIAL_IDS), **explicit_ids}


def _check_numbers(rule: int, **counts: int | None) -> None:
    check_counts(**{name: n for name, n in counts.items() if n is not None})
    if rule not in (1, RULE):
        raise InputError(f"rule {rule} is not 1 or {RULE}; leave it out")


def _checked(shares: Sequence[Share], pairs: int) -> list[Share]:
    if sum(count for count, _ in shares) != pairs or any(w <= 0 for _, w in shares):
        raise InputError(
            f"shares {list(shares)} do not fit {pairs} pairs; give the number of pairs "
            f"of each corpus, and a positive number for how often each is seen"
        )
    return list(shares)


class _Endless(keras.utils.PyDataset):
    """Batches from a step on; `num_batches` None means "infinite" in Keras."""

    num_batches = None

    def __init__(self, batches: TokenBatches, step: int) -> None:
        super().__init__(workers=0)
        self.batches = batches
        self.special_ids = batches.special_ids
        self.adds_source_end = batches.adds_source_end
        self.is_packed = batches.is_packed
        self.step = step
        self.begun = False

    def __getitem__(self, index: int) -> Batch:
        # Before an epoch begins, Keras reads batches only for their shapes: the first
        # batches of an epoch serve that.
        epoch = self.step - self.step % len(self.batches)
        return self.batches[(self.step if self.begun else epoch) + index]

    def __iter__(self) -> Iterator[Batch]:
        """The batches from the step on, for a loop of one's own."""
        return map(self.batches.__getitem__, itertools.count(self.step))

    def on_epoch_begin(self) -> None:
        self.begun = True
