"""Report of attention heads: measures of each head over a corpus.

T positions that attend, S positions attended to, N layers, H heads, M measures.
"""

import collections
import dataclasses
import unicodedata
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.config.languages import Direction
from keras_transformer.errors import InputError
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.source_lines import SourceLines
from keras_transformer.translator import Translator
from keras_transformer.visualization.maps import TITLES
from keras_transformer.visualization.maps import check_model
from keras_transformer.visualization.tokens import START
from keras_transformer.visualization.tokens import Tokens

#: Shares of attention, then other measures.
SHARES = ("previous", "next", "itself", "same word", "delimiters", "rare words")
MEASURES = (*SHARES, "entropy", "distance")
_ABSENT = {
    "encoder": (),
    "decoder": ("next",),
    "cross": ("previous", "next", "itself"),
}
_RARE = 0.1  # of the running words
_PAIRS_AT_ONCE = 256


@dataclasses.dataclass(frozen=True, eq=False)
class HeadReport:
    """Measures of each attention head, as means over all positions of a corpus.

    The measures of a position, in the order of `MEASURES`:

    * `previous`, `next`, `itself`: the weight of the previous, next and same token,
      within one text; the decoder's tokens are its inputs.
    * `same word`: the weight of other tokens in words of the same spelling, the same
      word included; in cross-attention, of source words spelled like the predicted
      word. Case and surrounding punctuation are ignored.
    * `delimiters`: the weight of punctuation, white space, start and end.
    * `rare words`: the weight of the rarest words of that side of the corpus, which
      together make at most a tenth of its words, or otherwise occur once.
    * `entropy`: in bits; log2(n) for n tokens with equal weights.
    * `distance`: the mean of |t - s| in tokens.

    Args:
        num_pairs: the number of sentence pairs that were read.
        heads: kind of attention -> (N, H, M) float64; NaN where a kind has no such
            measure.
        even: kind -> (M,), the measures of a head with uniform attention.

    Reference: Voita et al., 2019, https://arxiv.org/abs/1905.09418, section 5; Clark
    et al., 2019, https://arxiv.org/abs/1906.04341, section 3.
    """

    num_pairs: int
    heads: dict[str, np.ndarray]
    even: dict[str, np.ndarray]

    def role(self, kind: str, layer: int, head: int) -> str | None:
        """The role of a head, if it has a clear one.

        The role is the share that is more than half of its attention, and at least
        twice that of uniform attention.
        """
        values = self.heads[kind][layer, head, : len(SHARES)]
        best = int(np.nanargmax(values))
        is_clear = values[best] > max(0.5, 2 * self.even[kind][best])
        return SHARES[best] if is_clear else None

    def to_dict(self) -> dict[str, Any]:
        """A list of heads with their measures, for JSON; None for missing measures."""
        return {
            "pairs": self.num_pairs,
            "heads": [
                {
                    "kind": kind,
                    "layer": layer,
                    "head": head,
                    **_measures(values[layer, head]),
                    "role": self.role(kind, layer, head),
                }
                for kind, values in self.heads.items()
                for layer, head in np.ndindex(values.shape[:2])
            ],
            "even": {kind: _measures(values) for kind, values in self.even.items()},
        }

    def __str__(self) -> str:
        """One table per kind: shares in percent, and the roles of heads."""
        lines = [f"{self.num_pairs} sentences"]
        for kind, values in self.heads.items():
            lines += ["", _line(TITLES[kind], MEASURES)]
            for layer, head in np.ndindex(values.shape[:2]):
                name = f"layer {layer}, head {head}"
                role = self.role(kind, layer, head)
                role = f"  {role}" if role else ""
                lines.append(_line(name, _spelled(values[layer, head])) + role)
            lines.append(_line("even attention", _spelled(self.even[kind])))
        return "\n".join(lines)


def head_report(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    *,
    batch_size: int = 32,
    source_language: str | None = None,
    target_language: str | None = None,
) -> HeadReport:
    """Measures what each head of a model attends to over a corpus.

    Pairs with an empty line are skipped. Padding is never counted.

    Args:
        translator: the translator of one model with attention to the source.
        sources: the source sentences.
        targets: a translation of each; default: the model's translations.
        batch_size: the maximum number of pairs read at once.
        source_language: of a multilingual model; default: the translator's.
        target_language: in the same way.

    Raises:
        InputError: where the numbers of lines differ, there is no pair with text, a
            line is too long, or the model has no attention or is an ensemble.

    Example:

    >>> import keras_transformer as kt
    >>> tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
    >>> translator = kt.Translator(kt.Transformer(config), tokenizer)
    >>> report = kt.visualization.head_report(translator, ["a house"], ["ein Haus"])
    >>> report.heads["encoder"].shape == (
    ...     config.num_encoder_layers, config.num_heads, 8
    ... )
    True

    Reference: Voita et al., 2019, https://arxiv.org/abs/1905.09418, section 5.
    """
    check_model(translator.model)
    if targets is None:
        targets = translator.translate(
            sources,
            source_language=source_language,
            target_language=target_language,
            batch_size=batch_size,
        )
    direction = translator.direction(source_language, target_language)
    pairs = _encoded(translator, sources, targets, direction)
    corpus = _Corpus(translator, pairs)
    searcher = BatchSearch(translator.model)
    totals: dict[str, np.ndarray] = {}
    even: dict[str, np.ndarray] = {}
    positions: collections.Counter[str] = collections.Counter()
    for start in range(0, len(pairs), _PAIRS_AT_ONCE):
        block = pairs[start : start + _PAIRS_AT_ONCE]
        source_ids, target_ids = [ids for ids, _ in block], [ids for _, ids in block]
        starts = [direction.start_id] * len(block)
        attentions = searcher.attention(
            source_ids, target_ids, batch_size, starts=starts
        )
        for place, maps in enumerate(attentions, start):
            for kind, weights in maps.items():
                relations = corpus.relations(kind, place)
                allowed = (weights > 0).any(axis=(0, 1)).astype("float32")
                alike = allowed / allowed.sum(axis=-1, keepdims=True)
                totals[kind] = totals.get(kind, 0.0) + _sums(weights, relations)
                even[kind] = even.get(kind, 0.0) + _sums(alike, relations)
                positions[kind] += weights.shape[-2]
    means = (
        {kind: _without(kind, total / positions[kind]) for kind, total in sums.items()}
        for sums in (totals, even)
    )
    return HeadReport(len(pairs), *means)


# === Sentences ===


def _encoded(
    translator: Translator, sources: Sequence[str], targets: Any, direction: Direction
) -> list[tuple[list[int], list[int]]]:
    """The ids of pairs with text, with the end tokens of both sides."""
    lines = SourceLines(
        translator.tokenizer, translator.target_tokenizer, translator.model.config
    )
    columns = lines.encode_pairs(sources, targets, [direction] * len(sources))
    encoded = zip(*columns, strict=True)
    pairs = [
        ids
        for ids, source, target in zip(encoded, sources, targets, strict=True)
        if not translator.tokenizer.is_empty(source)
        and not translator.target_tokenizer.is_empty(target)
    ]
    if not pairs:
        raise InputError(
            "there is no sentence with a translation; give at least one pair"
        )
    return pairs


@dataclasses.dataclass(frozen=True, eq=False)
class _Side:
    """Word number (-1 for none) and marks of each of S tokens of one side."""

    words: np.ndarray
    delimiters: np.ndarray
    rare: np.ndarray


class _Corpus:
    """Properties of the tokens of pairs that attention is measured by."""

    def __init__(
        self, translator: Translator, pairs: list[tuple[list[int], list[int]]]
    ) -> None:
        config = translator.model.config
        self._numbers: dict[str, int] = {}
        self._tokens = [
            (
                Tokens.of(translator.tokenizer, source, config),
                Tokens.of(translator.target_tokenizer, target, config),
            )
            for source, target in pairs
        ]
        self._rare = [
            _rarest(_spelling(word) for tokens in side for word in tokens.words)
            for side in zip(*self._tokens, strict=True)
        ]

    def relations(self, kind: str, place: int) -> np.ndarray:
        """The relations of S tokens to T tokens: (measures, T, S), all but entropy."""
        source, target = self._tokens[place]
        if kind == "encoder":
            rows = columns = self._side(source, 0)
        elif kind == "decoder":
            read = Tokens((START, *target.pieces[:-1]))
            rows = columns = self._side(read, 1)
        else:
            rows, columns = self._side(target, 1), self._side(source, 0)
        steps = np.arange(len(columns.words)) - np.arange(len(rows.words))[:, None]
        same = (rows.words[:, None] == columns.words) & (columns.words >= 0)
        if kind != "cross":
            same &= steps != 0
        measures = [steps == -1, steps == 1, steps == 0, same]
        measures += [np.broadcast_to(columns.delimiters, steps.shape)]
        measures += [np.broadcast_to(columns.rare, steps.shape), np.abs(steps)]
        return np.array(measures, np.float32)

    def _side(self, tokens: Tokens, side: int) -> _Side:
        delimiters = [
            number is None or _is_punctuation(label)
            for number, label in zip(tokens.numbers, tokens.labels, strict=True)
        ]
        spellings = [
            None if delimiter or number is None else _spelling(tokens.words[number])
            for delimiter, number in zip(delimiters, tokens.numbers, strict=True)
        ]
        numbers = [
            -1 if word is None else self._numbers.setdefault(word, len(self._numbers))
            for word in spellings
        ]
        rare = [word in self._rare[side] for word in spellings]
        return _Side(np.array(numbers), np.array(delimiters), np.array(rare))


def _spelling(word: str) -> str:
    """A word without case and surrounding punctuation, unless nothing is left."""
    start, end = 0, len(word)
    while start < end and _is_punctuation(word[start]):
        start += 1
    while start < end and _is_punctuation(word[end - 1]):
        end -= 1
    return (word[start:end] or word).casefold()


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(character)[0] == "P" for character in text)


def _rarest(words: Iterable[str]) -> set[str]:
    """The rarest words: at most the share `_RARE`, or those that occur once."""
    counts = collections.Counter(words)
    allowed, limit = _RARE * counts.total(), 1
    for count, words_with_it in sorted(collections.Counter(counts.values()).items()):
        allowed -= count * words_with_it
        if allowed < 0:
            break
        limit = count
    return {word for word, count in counts.items() if count <= limit}


# === Sums ===


def _sums(weights: np.ndarray, relations: np.ndarray) -> np.ndarray:
    """Measures of weights (..., T, S), summed over T: (..., M) float64."""
    *shares, distance = np.einsum(
        "...ts,mts->m...", weights, relations, dtype="float64"
    )
    logs = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    entropy = -np.sum(weights * logs, axis=(-2, -1), dtype="float64")
    return np.stack([*shares, entropy, distance], axis=-1)


def _without(kind: str, values: np.ndarray) -> np.ndarray:
    """Measures with NaN for those that a kind does not have."""
    absent = [measure in _ABSENT[kind] for measure in MEASURES]
    return np.where(absent, np.nan, values)


# === Tables ===


def _measures(values: np.ndarray) -> dict[str, float | None]:
    names = (name.replace(" ", "_") for name in MEASURES)
    return {
        name: None if np.isnan(value) else float(value)
        for name, value in zip(names, values, strict=True)
    }


def _spelled(values: np.ndarray) -> Iterator[str]:
    for name, value in zip(MEASURES, values, strict=True):
        if np.isnan(value):
            yield "–"
        else:
            yield f"{value:.0%}" if name in SHARES else f"{value:.1f}"


def _line(name: str, cells: Iterable[str]) -> str:
    return f"{name:<24}" + "".join(f"{cell:>11}" for cell in cells)
