"""Lookup baseline: the translation of the most similar training sentence.

The phrasebook must not be solved by memory. This is the baseline that shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence

import numpy as np
import sacrebleu


def words(text: str) -> set[str]:
    """The different words of a sentence."""
    return set(text.split())


def character_fours(text: str) -> set[str]:
    """All different runs of four characters."""
    return {text[start : start + 4] for start in range(len(text) - 3)}


def nearest(
    sources: Sequence[str],
    queries: Sequence[str],
    features: Callable[[str], set[str]],
) -> list[int]:
    """For each query the index of the source with the greatest Dice similarity.

    Args:
        sources: the sentences to search.
        queries: the sentences to find.
        features: what two sentences may share: `words` or `character_fours`.

    Returns:
        One index into `sources` a query; the lowest where several are equally near.

    Example:

    >>> nearest(["one small cat", "two dogs"], ["two small dogs"], words)
    [1]
    """
    holders: dict[str, list[int]] = {}
    sizes = np.zeros(len(sources))
    for index, source in enumerate(sources):
        source_features = features(source)
        sizes[index] = len(source_features)
        for feature in source_features:
            holders.setdefault(feature, []).append(index)
    arrays = {feature: np.array(indices) for feature, indices in holders.items()}
    result = []
    for query in queries:
        query_features = features(query)
        shared = np.zeros(len(sources))
        for feature in query_features & arrays.keys():
            shared[arrays[feature]] += 1
        similarities = 2 * shared / (sizes + len(query_features))
        result.append(int(np.argmax(similarities)))
    return result


def lookup_bleu(
    train: tuple[Sequence[str], Sequence[str]],
    test: tuple[Sequence[str], Sequence[str]],
    features: Callable[[str], set[str]] = character_fours,
) -> float:
    """BLEU of the translations of the nearest training sentences.

    Args:
        train: sources and targets to look up.
        test: sources and targets to score.
        features: what makes two sources similar.

    Returns:
        The BLEU score in percent, of sacreBLEU with its defaults.

    Example:

    >>> seen = (["Room 2, please."], ["Zimmer 2, bitte."])
    >>> round(lookup_bleu(seen, seen))
    100
    """
    indices = nearest(train[0], test[0], features)
    guesses = [train[1][index] for index in indices]
    return sacrebleu.corpus_bleu(guesses, [list(test[1])]).score
