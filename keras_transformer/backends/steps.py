"""Pieces of a training step that the three backends share."""

import contextlib


@contextlib.contextmanager
def replaced(owner, name, function):
    """Within it, `owner.name` is `function`, for this object alone."""
    vars(owner)[name] = function  # past the attribute hooks of Keras
    try:
        yield
    finally:
        # The replicas of TensorFlow are threads that take turns: another one may
        # have been here.
        vars(owner).pop(name, None)


@contextlib.contextmanager
def caught_gradients(optimizer):
    """Within it, `optimizer.apply` applies nothing: its gradients go to the list."""
    caught = []

    def catch(gradients, trainable_variables=None):
        caught.extend(gradients)

    with replaced(optimizer, "apply", catch):
        yield caught


def added(total, gradients):
    """The sums of two lists in which None stands for nothing."""
    if total is None:
        return gradients
    return [
        old if new is None else new if old is None else old + new
        for old, new in zip(total, gradients, strict=True)
    ]


def divided(gradients, count):
    """Each by `count`, None stays None."""
    if count == 1:
        return gradients
    return [None if gradient is None else gradient / count for gradient in gradients]
