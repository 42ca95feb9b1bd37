"""`batch_tokens: auto`: the paper's batch, or what the memory holds.

T target positions.
"""

import functools

import keras

from keras_transformer import backends
from keras_transformer.data.batching import TokenBatches
from keras_transformer.errors import InputError

_PAPER = 25_000  # target tokens in a batch (Vaswani et al., 2017, section 5.1)
_TRIALS = (1024, 4096)
_SHARE = 0.8  # of the memory; the rest is for validation, and for what else runs


def find_batch_tokens(model, pairs, rows_multiple_of=1, part=(0, 1)):
    """The most target tokens that a training step of this model can take, or 25 000.

    Takes steps of two sizes with the longest sentences, and a straight line through the
    memory that they needed. The model is of no use afterwards.

    Args:
        model: compiled.
        pairs: `EncodedPairs` of the training.
        rows_multiple_of: of the batches.
        part: the share of each batch that this process trains on, as
            `TokenBatches.part` has it.

    Raises:
        InputError: where not even the smallest batch fits.
    """
    peaks, tokens = [], []
    for trial in _TRIALS:
        batches = TokenBatches(
            pairs, trial, shuffle=False, rows_multiple_of=rows_multiple_of
        )
        rows, _, length = batches.shapes[0]
        step = functools.partial(model.train_on_batch, *batches.part(*part)[0])
        step()  # to compile a program takes memory of its own
        peaks.append(backends.peak_memory(step))
        tokens.append(rows * length)
    keras.utils.clear_session(free_memory=True)
    limit = _SHARE * backends.memory_limit()
    slope = (peaks[1] - peaks[0]) / max(tokens[1] - tokens[0], 1)
    room = (limit - peaks[1]) / max(slope, 1.0)
    found = min(int(tokens[1] + room), _PAPER)
    if found < tokens[0]:
        raise InputError(
            f"the memory ({limit / _SHARE / 2**30:.1f} GiB) does not hold a training "
            f"step of {tokens[0]} target tokens; choose a smaller model, or lower "
            f"data.max_length"
        )
    return found // 64 * 64 if found > 64 else found
