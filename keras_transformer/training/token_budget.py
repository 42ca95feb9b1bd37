"""`batch_tokens: auto`: the paper's batch, or what the memory holds.

T target positions.
"""

import functools
import gc

from keras_transformer import backends
from keras_transformer.errors import InputError

_PAPER = 25_000  # target tokens in a batch (Vaswani et al., 2017, section 5.1)
_TRIALS = (1024, 4096)
_SHARE = 0.8  # of the memory; the rest is for validation, and for what else runs


def find_batch_tokens(make_model, make_batches, part=(0, 1)):
    """The most target tokens that a training step of a model can take, or 25 000.

    Takes steps of two sizes with the longest sentences, and a straight line through the
    memory that they needed.

    Args:
        make_model: gives a compiled model, which is dropped afterwards.
        make_batches: gives the `TokenBatches` of a training of so many tokens.
        part: the share of each batch that this process trains on, as
            `TokenBatches.part` has it.

    Raises:
        InputError: where not even the smallest batch fits.
    """
    model = make_model()
    peaks, tokens = [], []
    for trial in _TRIALS:
        batches = make_batches(trial)
        rows, _, length = batches.shapes[0]
        step = functools.partial(model.train_on_batch, *batches.part(*part)[0])
        step()  # to compile a program takes memory of its own
        peaks.append(backends.peak_memory(step))
        tokens.append(rows * length)
    del model, step
    gc.collect()  # not Keras' `clear_session`, which forgets the devices, too
    limit = _SHARE * backends.memory_limit()
    if peaks[0] > limit:
        raise InputError(
            f"the memory ({limit / _SHARE / 2**30:.1f} GiB) does not hold a training "
            f"step of {tokens[0]} target tokens; choose a smaller model, or lower "
            f"data.max_length"
        )
    slope = peaks[1] / tokens[1]  # where nothing more was needed: too steep, if at all
    if peaks[1] > peaks[0] and tokens[1] > tokens[0]:
        slope = (peaks[1] - peaks[0]) / (tokens[1] - tokens[0])
    found = min(int(tokens[1] + (limit - peaks[1]) / slope), _PAPER)
    return found // 64 * 64 if found > 64 else found
