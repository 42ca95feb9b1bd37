"""`batch_tokens: auto`: the paper's batch, or what the memory holds.

S source positions, T target positions.
"""

import functools
import gc

from keras_transformer import backends
from keras_transformer.errors import InputError

_PAPER = 25_000  # target tokens in a batch (Vaswani et al., 2017, section 5.1)
_TRIALS = (1024, 4096)
_SHARE = 0.8  # of the memory; the rest is for validation, and for what else runs


def find_batch_tokens(make_model, make_batches, part=(0, 1), source_tokens=None):
    """The most target tokens that a training step of a model can take, or 25 000.

    Takes a step with a batch of each shape, since any of them may need the most, and
    one with fewer of the longest sentences. What the step of these two need tells what
    the model needs without a batch, and so what a row of each shape needs.

    Args:
        make_model: gives a compiled model, which is dropped afterwards.
        make_batches: gives the `TokenBatches` of a training of so many tokens.
        part: the share of each batch that this process trains on, as
            `TokenBatches.part` has it.
        source_tokens: the most source tokens of a batch; None for as many as are found.

    Raises:
        InputError: where not even the smallest batch fits.
    """
    few, many = (make_batches(trial) for trial in _TRIALS)
    model = make_model()
    least = _peak(model, next(few.part(*part).of_each_shape()))
    peaks = [_peak(model, batch) for batch in many.part(*part).of_each_shape()]
    del model
    gc.collect()  # not Keras' `clear_session`, which forgets the devices, too
    limit = _SHARE * backends.memory_limit()
    base = _without_a_batch(few.shapes[0][0], least, many.shapes[0][0], peaks[0])
    found = _PAPER
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
            found = min(found, int(most * max(S, T)))
        elif source_tokens // S > most:  # else the source bounds the rows
            found = min(found, int(most * T))
    return found // 64 * 64 if found > 64 else found


def _peak(model, batch):
    step = functools.partial(model.train_on_batch, *batch)
    step()  # to compile a program takes memory of its own
    return backends.peak_memory(step)


def _without_a_batch(few, least, many, peak):
    """Memory that does not grow with the rows, from that of few and of many of them."""
    if peak <= least or many <= few:
        return 0.0  # nothing is known: all of it may grow
    return min(max(least - (peak - least) / (many - few) * few, 0.0), least)
