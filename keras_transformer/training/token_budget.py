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
from keras_transformer.errors import InputError

_PAPER = 25_000  # target tokens of a batch (Vaswani et al., 2017, section 5.1)
_TRIALS = (1024, 4096)
_SHARE = 0.8  # of the memory; the rest is for validation and other programs


def find_batch_tokens(
    make_model: Callable[..., Any],
    make_batches: Callable[..., Any],
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
    few, many = (make_batches(trial) for trial in _TRIALS)
    model = make_model()
    least = _peak(model, next(few.part(*part).of_each_shape()))
    peaks = [_peak(model, batch) for batch in many.part(*part).of_each_shape()]
    del model
    gc.collect()  # not Keras' `clear_session`, which also resets the devices
    limit = _SHARE * backends.memory_limit()
    base = _without_a_batch(few.shapes[0][0], least, many.shapes[0][0], peaks[0])
    tokens = _PAPER
    for (rows, S, T), peak in zip(many.shapes, peaks, strict=True):
        most = rows + (limit - peak) * rows / max(peak - base, 1.0)
        together = many.rows_multiple_of
        if most < together:
            raise InputError(
                f"the memory ({limit / _SHARE / 2**30:.1f} GiB) does not hold a "
                f"training step of {together * S} source and {together * T} target "
                f"tokens; choose a smaller model, or lower data.max_length"
            )
        if together > 1:
            most = most // together * together
        if source_tokens is None:
            tokens = min(tokens, int(most * max(S, T)))
        elif source_tokens // S > most:  # otherwise the source bounds the rows
            tokens = min(tokens, int(most * T))
    return tokens // 64 * 64 if tokens > 64 else tokens


def _peak(model: Any, batch: Sequence[Any]) -> int:
    step = functools.partial(model.train_on_batch, *batch)
    step()  # compiling a program takes extra memory
    return backends.peak_memory(step)


def _without_a_batch(few: int, least: float, many: int, peak: float) -> float:
    """Memory independent of the rows, from measurements of few and many rows."""
    if peak <= least or many <= few:
        return 0.0  # not known: all of it may grow
    return min(max(least - (peak - least) / (many - few) * few, 0.0), least)
