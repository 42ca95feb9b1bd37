"""Bounds on what a search may cost where its options come with the model."""

from keras_transformer.errors import InputError

#: Hypotheses times positions: `base` takes less than a minute for them on 2 cores.
_MOST_WORK = 2**14
_USUAL_POSITIONS = 128  # where the options set no length


def check_cost(hypotheses: int, positions: int) -> None:
    """Refuses options with which a short line may take minutes.

    Args:
        hypotheses: kept at each step, or compared in the end.
        positions: the most tokens that the options ask for; 0 where they set none.

    Raises:
        InputError: naming the options that matter.
    """
    positions = max(positions, _USUAL_POSITIONS)
    if hypotheses * positions > _MOST_WORK:
        raise InputError(
            f"the model's own decoding options keep {hypotheses} hypotheses of up to "
            f"{positions} tokens, which may take minutes a line; lower beam_size, "
            f"mbr_candidates, min_length or max_length in its folder"
        )
