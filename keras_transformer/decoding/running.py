"""When the loop of a search goes on."""

from keras import ops


def running(length):
    """The condition of a loop: it has steps left, and a row that is not done.

    Args:
        length: the most steps taken.

    Returns:
        A function of a state with `position` and `done`; it gives a boolean scalar.
    """

    def condition(state):
        return ops.logical_and(
            state.position < length, ops.logical_not(ops.all(state.done))
        )

    return condition
