"""Tags of corpora: a reserved symbol in front of every source of a corpus.

It tells a model where a pair comes from. Tagged back-translation marks a machine's
translations so; a text without the tag is then translated as real text is.

Reference: Caswell et al., 2019, https://arxiv.org/abs/1906.06442.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from keras_transformer.config.languages import Direction
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_training import check_symbols
from keras_transformer.errors import InputError

_TAG = re.compile(r"<[^<>\s]+>")


def check_tag(tag: str) -> None:
    """Refuses a tag that is not a symbol in angle brackets.

    Raises:
        InputError: where it has another form, or is the name of a special piece.

    Example:

    >>> from keras_transformer.data.corpus_tags import check_tag
    >>> check_tag("<bt>")
    """
    if not _TAG.fullmatch(tag):
        raise InputError(
            f"the tag {tag!r} is no symbol; give one word in angle brackets, such as "
            f"<bt>"
        )
    check_symbols([tag])


def untagged(special_ids: Mapping[str, int], source_end: bool = True) -> Direction:
    """What stands around the texts of a model without languages.

    Args:
        special_ids: `start_id` and `end_id` of the model.
        source_end: whether a source ends with the end token.
    """
    end = special_ids["end_id"]
    return Direction(
        source_after=(end,) if source_end else (),
        target_after=(end,),
        start_id=special_ids["start_id"],
    )


def tagged(direction: Direction, tag: str, tokenizer: Tokenizer) -> Direction:
    """The same with a tag in front of the source.

    Args:
        direction: what stands around the texts of the corpus.
        tag: of the corpus.
        tokenizer: of the source.

    Raises:
        InputError: where the tag is no piece of the tokenizer.

    Example:

    >>> from keras_transformer.config.languages import Direction
    >>> from keras_transformer.data.corpus_tags import tagged
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train(["a b"], 265, reserved_symbols=["<bt>"])
    >>> direction = tagged(Direction(source_after=(2,)), "<bt>", tokenizer)
    >>> tokenizer.pieces(direction.source_ids(tokenizer.encode(["a b"])[0]))
    ['<bt>', 'a', '▁b', '</s>']
    """
    try:
        (number,) = tokenizer.ids_of([tag])
    except InputError:
        raise InputError(
            f"the tokenizer has no piece {tag!r}, the tag of the corpus; train a "
            f"tokenizer with it (tokenizer.vocabulary_size does; with model.folder, "
            f"model.new_vocabulary too), or remove the tag"
        ) from None
    before = (number, *direction.source_before)
    return dataclasses.replace(direction, source_before=before)
