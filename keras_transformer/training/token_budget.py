"""Batch size search for `batch_tokens: auto`: the paper's, or what fits into memory.

S source positions, T target positions.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from keras_transformer import backends
from keras_transformer.data.batching import TokenBatches
from keras_transformer.errors import InputError
from keras_transformer.models.translation_model import TranslationModel

_PAPER = 25_000  # target tokens of a batch (Vaswani et al., 2017, section 5.1)
_TRIALS = (1024, 4096)
_SHARE = 0.8  # of the memory; the rest is for validation and other programs


def find_batch_tokens(
    make_model: Callable[[], TranslationModel],
    make_batches: Callable[[int], TokenBatches],
    part: tuple[int, int] = (0, 1),
    source_tokens: int | None = None,
) -> int:
    """The most target tokens that fit into a training step, at most 25 000.

    Runs a step with a batch of each shape, since any of them may need the most, and one
    with fewer of the longest sentences. These two steps give the memory of the model
    without a batch, and so the memory of a row of each shape.

    Args:
        make_model: a function that returns a compiled model, which is dropped
            afterwards.
        make_batches: a function of a number of tokens that returns `TokenBatches`.
        part: the share of each batch that this process trains on, as
            `TokenBatches.part` has it.
        source_tokens: the maximum number of source tokens of a batch; None for the
            result.

    Raises:
        InputError: where not even the smallest batch fits.
    """
    small, large = (make_batches(trial) for trial in _TRIALS)
    model = make_model()
    small_peak = _peak(model, next(small.part(*part).of_each_shape()))
    peaks = [_peak(model, batch) for batch in large.part(*part).of_each_shape()]
    del model
    gc.collect()  # not Keras' `clear_session`, which also resets the devices
    limit = _SHARE * backends.memory_limit()
    few, many = small.shapes[0][0], large.shapes[0][0]
    base = _without_a_batch(few, small_peak, many, peaks[0])
    tokens = _PAPER
    unit = large.rows_multiple_of
    for (rows, S, T), peak in zip(large.shapes, peaks, strict=True):
        max_rows = rows + (limit - peak) * rows / max(peak - base, 1.0)
        if max_rows < unit:
            raise InputError(
                f"the memory ({limit / _SHARE / 2**30:.1f} GiB) does not hold a "
                f"training step of {unit * S} source and {unit * T} target "
                f"tokens; choose a smaller model, or lower data.max_length"
            )
        if unit > 1:
            max_rows = max_rows // unit * unit
        if source_tokens is None:
            tokens = min(tokens, int(max_rows * max(S, T)))
        elif source_tokens // S > max_rows:  # otherwise the source bounds the rows
            tokens = min(tokens, int(max_rows * T))
    return tokens // 64 * 64 if tokens > 64 else tokens


def _peak(model: TranslationModel, batch: Sequence[Any]) -> int:
    step = functools.partial(model.train_on_batch, *batch)
    step()  # compiling a program takes extra memory
    return backends.peak_memory(step)


def _without_a_batch(few: int, few_peak: float, many: int, many_peak: float) -> float:
    """Memory independent of the rows, from measurements of few and many rows."""
    if many_peak <= few_peak or many <= few:
        return 0.0  # not known: all of it may grow
    of_a_row = (many_peak - few_peak) / (many - few)
    return min(max(few_peak - of_a_row * few, 0.0), few_peak)
