"""Names of a server's model and of its languages."""

import re
from pathlib import Path

from keras_transformer.config.about import About
from keras_transformer.errors import InputError

#: A language such as `de`, with script and region where they matter: `zh-Hans`,
#: `pt-BR`, `eng_Latn`. Small letters tell where the next language begins.
_CODE = "[a-z]{2,8}(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?|[A-Z]{2,3}"

_OF_RUNS = ("averaged", "best")  # folders of models in that of a run


def check_name(name: str) -> str:
    """The name of a model, checked to fit into a path.

    Raises:
        InputError: where it is not made of letters, digits, `.`, `_` and `-`.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(
            f"the name {name!r} does not fit into /v1/models/NAME; use only letters, "
            f"digits, '.', '_' and '-', such as en-de"
        )
    return name


def model_name(about: About, folder: Path) -> str:
    """The name of a model in paths: its own, or that of its folder, as far as it fits.

    A model of a run has the name of the run's folder.

    Args:
        about: what the folder tells.
        folder: its path.

    Example:

    >>> from pathlib import Path
    >>> from keras_transformer.config.about import About
    >>> from keras_transformer.serving.naming import model_name
    >>> model_name(About(), Path("runs/my model/averaged"))
    'my-model'
    """
    path = folder.absolute()
    is_of_run = path.name in _OF_RUNS and path.parent.name
    names = about.name or "", path.parent.name if is_of_run else path.name
    fitting = (re.sub(r"[^\w.-]+", "-", name).strip(".-") for name in names)
    return next(filter(None, fitting), "model")


def parse_languages(codes: str) -> tuple[str | None, str | None]:
    """Source and target of `"en-de"`; None for both of an empty text.

    Raises:
        InputError: where it does not name two languages.
    """
    if not codes:
        return None, None
    match = re.fullmatch(f"({_CODE})-({_CODE})", codes)
    if match is None:
        raise InputError(
            f"the languages {codes!r} are not two codes; give source and target, such "
            f"as en-de, or zh-Hans-pt-BR with a script and a region"
        )
    return match[1], match[2]
