"""Bounds on the cost of decoding options that come with a model."""

from keras_transformer.errors import InputError

#: Limit of hypotheses times positions: under a minute for `base` on 2 cores.
_MOST_WORK = 2**14
_USUAL_POSITIONS = 128  # positions where the options set no length


def check_cost(hypotheses: int, positions: int) -> None:
    """Refuses options that may make a short line take minutes.

    Args:
        hypotheses: the number kept at each step, or compared at the end.
        positions: the maximum number of tokens set by the options; 0 without.

    Raises:
        InputError: naming the options to lower.
    """
    positions = max(positions, _USUAL_POSITIONS)
    if hypotheses * positions > _MOST_WORK:
        raise InputError(
            f"the decoding options of the model keep {hypotheses} hypotheses of up "
            f"to {positions} tokens, which may take minutes per line; lower "
            "beam_size, mbr_candidates, min_length or max_length in its folder"
        )
