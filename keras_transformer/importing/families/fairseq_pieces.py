"""Vocabulary of models that fairseq trained: SentencePiece behind four ids of its own.

The first four ids are `<s>`, `<pad>`, `</s>` and `<unk>`; then come the pieces, the
languages, and rows of the matrix that no text uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence

from keras_transformer.data.foreign_pieces import with_pieces
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.source import Source

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAD_ID, END_ID = 1, 2
#: The names of the SentencePiece model in a folder.
MODELS = ("sentencepiece.bpe.model", "spm.128k.model")


def model_of(source: Source) -> bytes:
    """The SentencePiece model of a folder.

    Raises:
        InputError: where there is none.
    """
    return source.bytes(source.first(*MODELS) or MODELS[0])


def tokenizer_of(
    source: Source, pieces: Sequence[str], languages: Sequence[str], size: int
) -> Tokenizer:
    """The tokenizer of pieces, languages and a mask, filled up to the matrix.

    Args:
        source: the folder.
        pieces: with the four special ones at the front.
        languages: and whatever else comes behind the pieces and is no text.
        size: rows of the matrix.

    Raises:
        InputError: where there are more than rows, or the model is damaged.
    """
    used = [*pieces, *languages]
    if len(used) > size:
        raise InputError(
            f"{source.folder} has {len(pieces)} pieces and {len(languages)} languages "
            f"and symbols, but the matrix of config.json has {size} rows; use the "
            f"files that belong together"
        )
    fillers = [f"<unused {number}>" for number in range(len(used), size)]
    try:
        return Tokenizer(
            with_pieces(
                model_of(source),
                [*used, *fillers],
                start="</s>",
                control=["<s>", *languages, *fillers],
            )
        )
    except InputError as error:
        raise InputError(f"{source.folder}: {error}") from None


def check_listed(source: Source, languages: Sequence[str], first: int) -> None:
    """Refuses ids of languages that are not those that the folder itself lists.

    Args:
        source: the folder.
        languages: as pieces, in the order of their ids.
        first: the id of the first.

    Raises:
        InputError: with the first that differs.
    """
    listed = source.tokenizer_config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return
    ids = {
        entry.get("content"): number
        for number, entry in listed.items()
        if isinstance(entry, dict)
    }
    for number, piece in enumerate(languages, first):
        if piece in ids and ids[piece] != str(number):
            raise InputError(
                f"{source.folder}: the language {piece!r} has the id {number} by the "
                f"size of the vocabulary, but {str(ids[piece])[:20]} in "
                f"tokenizer_config.json; use the files that belong together"
            )


def defaults(source: Source, codes: Mapping[str, int]) -> dict[str, str]:
    """The languages of a folder that was trained for one pair, for `Languages`.

    Its target is the first token that a search is forced to write, or starts with;
    without one, anybody has to say which languages are meant.
    """
    given = source.search_config
    ids = [given.get(f"{n}_token_id") for n in ("forced_bos", "decoder_start")]
    targets = [code for code, number in codes.items() if number in ids]
    if not targets:
        return {}
    language = source.tokenizer_config.get("src_lang")
    found = {"target": targets[0]}
    if isinstance(language, str) and language in codes:
        found["source"] = language
    return found
