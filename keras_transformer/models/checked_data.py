"""Checks of the data of `fit`, `evaluate` and `predict` before each step.

In a compiled step an id outside of the vocabulary raises no error: JAX gives NaN or the
last row, XLA another row, TensorFlow on a GPU zeros. So ids are checked on the host,
where they are arrays, in a few microseconds per batch.

B batch, S source positions, T target positions, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras

from keras_transformer import backends
from keras_transformer.backends import watched_dataset
from keras_transformer.errors import InputError
from keras_transformer.losses.labels import check_labels
from keras_transformer.losses.labels import check_weights

_CONTENTS = {"b": "truth values", "O": "objects", "S": "bytes", "U": "text"}


def check_inputs(inputs: Any) -> None:
    """Refuses inputs that do not say which is the source and which the target.

    Raises:
        InputError: they are an array, or a list or tuple of arrays.
    """
    if isinstance(inputs, (list, tuple)) or hasattr(inputs, "shape"):
        kind = type(inputs).__name__
        raise InputError(
            f"the inputs are of the type {kind}, which does not say which is the "
            f'source; give a dictionary {{"source": ids, "target": ids}} of arrays '
            f"(batch, positions)"
        )


def check_ids(name: str, ids: Any, size: int, besides: int | None = None) -> None:
    """Refuses ids outside of the vocabulary, where they are arrays on the host.

    Args:
        name: what the ids are, for the message.
        ids: (B, T), or any other shape.
        size: V.
        besides: an id that is allowed outside of the vocabulary, such as padding.

    Raises:
        InputError: naming the id, or what it is instead.
    """
    ids = backends.concrete(ids)
    if ids is None or not ids.size:
        return
    if ids.dtype.kind in "bOSU":
        raise InputError(
            f"{name} holds {_CONTENTS[ids.dtype.kind]}, not ids; encode text with the "
            f"model's own tokenizer, and give whole numbers"
        )
    if ids.dtype.kind not in "iuf":
        return
    if ids.dtype.kind == "f" and (ids % 1 != 0).any():
        wrong = ids[ids % 1 != 0][0]
        raise InputError(f"{name} holds {wrong}, but an id is a whole number")
    if 0 <= ids.min() <= ids.max() < size:
        return
    wrong = ids[((ids < 0) | (ids >= size)) & (ids != besides)]
    if wrong.size:
        raise InputError(
            f"{name} holds the id {wrong[0]}, outside of the vocabulary of {size} "
            "entries; encode it with the model's tokenizer"
        )


class CheckedData:
    """Data for `fit`, checked batch by batch: ids (B, S), (B, T) and labels (B, T).

    Arrays are checked at once; a `PyDataset`, a generator or a `tf.data.Dataset` batch
    by batch. Other sources of data are passed on unchecked, and so is a data set whose
    `is_checked` says that its batches have been.

    Args:
        sizes: V by side, `source` and `target`.
        longest: the maximum number of positions of a side; None for no limit.
        labels: whether the labels are ids.
        supervised: whether there must be labels.
        pad_id: the label that may lie outside of the vocabulary.
        special_ids: those of the model's config, which `TokenBatches` must share.
        source_end: in the same way.
        packs_rows: whether the model reads packed rows.
        counted: `{name: pad_id}` of the metrics of tokens, which `TokenBatches` must
            share, too.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.4.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        longest: int | None,
        labels: bool,
        pad_id: int | None,
        special_ids: dict[str, int],
        source_end: bool = True,
        supervised: bool = False,
        counted: Mapping[str, int] | None = None,
        packs_rows: bool = False,
    ) -> None:
        self.sizes = sizes
        self.longest = longest
        self.labels = labels
        self.supervised = supervised
        self.pad_id = pad_id
        self.special_ids = special_ids
        self.source_end = source_end
        self.counted = counted or {}
        self.packs_rows = packs_rows
        # On TensorFlow, Keras raises another one in its place.
        self.error: ValueError | None = None

    def of(self, inputs: Any, labels: Any = None, sample_weight: Any = None) -> Any:
        """The inputs for Keras; arrays are checked here."""
        self._check_special_ids(inputs)
        self._check_packing(inputs)
        if getattr(inputs, "is_checked", False):
            return inputs
        if isinstance(inputs, keras.utils.PyDataset):
            return _CheckedDataset(inputs, self)
        if isinstance(inputs, Generator):
            return (self.batch(batch) for batch in inputs)
        if watched_dataset.is_dataset(inputs):
            return watched_dataset.watched(inputs, self.batch)
        self._check(inputs, labels, sample_weight)
        return inputs

    def batch(self, batch: Any) -> Any:
        """Checks a batch (inputs, labels, weights), or a part of it, and returns it."""
        try:
            self._check(*keras.utils.unpack_x_y_sample_weight(batch))
        except ValueError as error:
            self.error = error
            raise
        return batch

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Raises the error of a check instead of what Keras replaces it with."""
        try:
            yield
        except Exception:
            if self.error is None:
                raise
            raise self.error from None

    def _check(
        self, inputs: Any, labels: Any = None, sample_weight: Any = None
    ) -> None:
        check_inputs(inputs)
        if not isinstance(inputs, Mapping):
            return  # another source of Keras', such as a PyTorch DataLoader
        for side, size in self.sizes.items():
            if side in inputs:
                check_ids(side, inputs[side], size)
                _check_axes(side, inputs[side])
                self._check_length(side, inputs[side])
        self._check_rows(inputs)
        if labels is None and self.supervised:
            raise InputError(
                "there are no labels; give the target without its start_id as y, or "
                "batches of (inputs, labels)"
            )
        if self.labels:
            self._check_labels(inputs, labels, sample_weight)

    def _check_labels(self, inputs: Any, labels: Any, sample_weight: Any) -> None:
        if isinstance(labels, (list, tuple, Mapping)):
            raise InputError(
                f"the labels are of the type {type(labels).__name__}; give one array "
                f"(batch, positions) of ids"
            )
        if not hasattr(labels, "shape"):
            return
        if hasattr(inputs.get("target"), "shape"):
            check_labels(labels, inputs["target"].shape)
        check_ids("labels", labels, self.sizes["target"], self.pad_id)
        if hasattr(sample_weight, "shape"):
            check_weights(sample_weight, labels)

    def _check_rows(self, inputs: Any) -> None:
        """Refuses sources and targets of different sentences."""
        rows = {
            side: inputs[side].shape[0]
            for side in self.sizes
            if hasattr(inputs.get(side), "shape")
        }
        if len(set(rows.values()) - {None}) > 1:
            raise InputError(
                f"source has {rows['source']} sentences and target {rows['target']}; "
                f"give a target for each source"
            )

    def _check_length(self, side: str, ids: Any) -> None:
        length = getattr(ids, "shape", (0,))[-1]
        if self.longest is not None and length > self.longest:
            raise InputError(
                f"{side} has {length} positions, but the model has {self.longest} "
                "learned positions; shorten it, or train with a larger "
                "max_sequence_length"
            )

    def _check_packing(self, batches: Any) -> None:
        """Refuses packed batches for a model that would read a row as one sentence."""
        if getattr(batches, "is_packed", False) and not self.packs_rows:
            raise InputError(
                "the batches are packed, several sentences in a row, which the model "
                "would read as one; set model.packs_rows = True"
            )

    def _check_special_ids(self, batches: Any) -> None:
        """Refuses batches whose special ids are not those of the model."""
        theirs = getattr(batches, "special_ids", None)
        if theirs is None:
            return
        if theirs != self.special_ids:
            raise InputError(
                f"the batches have {theirs}, but the model's config has "
                f"{self.special_ids}; create TokenBatches with "
                "**model.config.special_ids"
            )
        ends = getattr(batches, "adds_source_end", None)
        if ends is not None and ends != self.source_end:
            raise InputError(
                f"the batches have source_end {ends}, but the model's config has "
                f"{self.source_end}; create TokenBatches with "
                f"source_end=model.config.source_end"
            )
        for name, pad_id in self.counted.items():
            if pad_id != theirs["pad_id"]:
                raise InputError(
                    f"the metric {name} takes labels of {pad_id} for padding, but "
                    f"the batches are padded with {theirs['pad_id']}; leave out the "
                    f"pad_id of loss and metrics, which is then the model's"
                )


def _check_axes(side: str, ids: Any) -> None:
    """Refuses what is no array (B, T)."""
    if isinstance(ids, (list, tuple)):
        raise InputError(
            f"{side} is of the type {type(ids).__name__}; give an array (batch, "
            f"positions) of ids, shorter rows padded with the pad_id"
        )
    shape = tuple(getattr(ids, "shape", (0, 0)))
    if len(shape) != 2:
        raise InputError(
            f"{side} has the shape {shape}; give an array (batch, positions) of ids"
        )


class _CheckedDataset(keras.utils.PyDataset):
    """A data set whose batches are checked."""

    def __init__(self, dataset: Any, checked: CheckedData) -> None:
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self._dataset = dataset
        self._checked = checked

    def __getitem__(self, index: int) -> Any:
        return self._checked.batch(self._dataset[index])

    @property
    def num_batches(self) -> int | None:
        return self._dataset.num_batches

    def on_epoch_begin(self) -> None:
        self._dataset.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._dataset.on_epoch_end()
