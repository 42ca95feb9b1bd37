"""Tags of target languages: the pieces that tell a multilingual model what to write.

A model that is trained from nothing has one in front of every source, as in Johnson et
al., 2017, https://arxiv.org/abs/1611.04558, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence

from keras_transformer.config.languages import Languages
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError


def tag(code: str) -> str:
    """The piece that stands for a target language.

    Example:

    >>> from keras_transformer.data.language_tags import tag
    >>> tag("de")
    '<2de>'
    """
    return f"<2{code}>"


def tagged_languages(
    pairs: Iterable[Sequence[str]], tokenizer: Tokenizer, source_end: bool = True
) -> Languages:
    """The languages of a model with tags in front of its sources.

    Args:
        pairs: the source and the target language of each pair that it learns.
        tokenizer: of the source, with the tags of all target languages.
        source_end: whether a source ends with the end token.

    Raises:
        InputError: where a tag is no piece of the tokenizer.
    """
    pairs = list(pairs)
    sources = tuple(dict.fromkeys(source for source, _ in pairs))
    targets = tuple(dict.fromkeys(target for _, target in pairs))
    ids = {code: _id_of(code, tokenizer) for code in targets}
    return Languages(
        codes={code: ids.get(code) for code in dict.fromkeys((*sources, *targets))},
        sources=sources,
        targets=targets,
        source_layout=("target", "text", "end") if source_end else ("target", "text"),
    )


def _id_of(code: str, tokenizer: Tokenizer) -> int:
    try:
        (number,) = tokenizer.ids_of([tag(code)])
    except InputError:
        raise InputError(
            f"the tokenizer has no piece {tag(code)!r}, the tag of the target language "
            f"{code!r}; train a tokenizer with it (tokenizer.vocabulary_size does), or "
            f"with user_defined_symbols"
        ) from None
    return number
