"""Names of a server's model and of its languages."""

import re

from keras_transformer.errors import InputError

#: A language such as `de`, with script and region where they matter: `zh-Hans`,
#: `pt-BR`, `eng_Latn`. Small letters tell where the next language begins.
_CODE = "[a-z]{2,8}(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|[0-9]{3}))?|[A-Z]{2,3}"


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
