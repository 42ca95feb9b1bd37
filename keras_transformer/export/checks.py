"""What an export refuses before it writes anything."""

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble


def check_translator(translator: Any) -> None:
    """Warns of options of its search that no export has; refuses an ensemble.

    Raises:
        InputError: for an ensemble.
    """
    if isinstance(translator.model, Ensemble):
        raise InputError(
            "an ensemble cannot be exported; export its members, each by itself"
        )
    left_out = translator.decoding.changed().keys() - {"beam_size", "length_penalty"}
    if left_out:
        warnings.warn(
            f"the export searches without the translator's "
            f"{', '.join(sorted(left_out))}",
            stacklevel=3,
        )


def require_transformer(what: str, model: Any) -> None:
    """Refuses a model of another kind: the format describes a Transformer's parts.

    Args:
        what: is refused, such as "the export to ONNX".
        model: what is to be exported.

    Raises:
        InputError: with the kind of the model.
    """
    kind = model.config.kind
    if kind != "transformer":
        raise InputError(
            f"{what} takes models of kind transformer, and this one is {kind}; use "
            f"saved_model, which takes every kind"
        )


def check_quantization(
    what: str, quantization: str | None, known: Sequence[str]
) -> None:
    """Refuses a quantization that the format does not have.

    Args:
        what: see `require_transformer`.
        quantization: as it was given; None for none.
        known: those of the format.

    Raises:
        InputError: with those that it has.
    """
    if quantization not in (None, *known):
        raise InputError(
            f"quantization {quantization!r} is unknown to {what}; use "
            f"{', '.join(known)}, or leave it out"
        )


def require_packages(what: str, *packages: str, extras: str) -> None:
    """Refuses to go on where one of the packages is not installed.

    Args:
        what: see `require_transformer`.
        packages: as they are imported.
        extras: of this package, that bring them.

    Raises:
        InputError: with the name of the first that is missing.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"{what} needs the package {package}, which is not installed; run pip "
                f"install 'keras-transformer[{extras}]'"
            )
