"""Conversion of text lines to sentences for a search, without silent truncation."""

import sys
import warnings
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from keras_transformer.arguments import check_lengths
from keras_transformer.arguments import check_texts
from keras_transformer.config import TranslationConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import direction_of
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.translation.long_lines import LinePart
from keras_transformer.translation.long_lines import split_line
from keras_transformer.translation.sentence import Sentence
from keras_transformer.translation.sentence_splitting import split_sentences

#: The code of a language, for all lines or for each; None for the default.
Codes = str | Sequence[str] | None

_ADVICE = 'split it into sentences, or set long_lines to "split" or "truncate"'


class SourceLines:
    """Converter of lines to a model's source ids.

    Args:
        tokenizer: of the source.
        target_tokenizer: the tokenizer of the target, for prefixes.
        config: the config of the model.
        language: the code of the language of sentences whose direction has none.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        config: TranslationConfig,
        language: str | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._target_tokenizer = target_tokenizer
        self._config = config
        self._language = language

    def encode(
        self,
        lines: Sequence[str],
        numbers: Sequence[int] | None = None,
        directions: Sequence[Direction] | None = None,
    ) -> list[list[int]]:
        """The ids of each line, with the end token if the model expects one.

        A line without tokens always gets it: no row may hold only padding.

        Args:
            lines: any text.
            numbers: see `Tokenizer.encode`.
            directions: what stands around each line; the end token alone if left out.
        """
        if directions is None:
            directions = [direction_of(None, self._config)] * len(lines)
        around = list(zip(directions, lines, strict=True))
        texts = [direction.prefix + line for direction, line in around]
        rows = self._tokenizer.encode(texts, numbers=numbers)
        end = [self._config.end_id]
        return [
            direction.source_ids(ids) or end
            for direction, ids in zip(directions, rows, strict=True)
        ]

    def encode_pairs(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        directions: Sequence[Direction],
        first_line: int = 1,
    ) -> tuple[list[list[int]], list[list[int]]]:
        """The ids of each source and of its translation, with what stands around them.

        Args:
            sources: lines.
            targets: a translation of each.
            directions: what stands around each source and translation.
            first_line: the number of the first pair.

        Raises:
            InputError: where the lists differ in length or are not lists of strings, or
                a line is too long.
        """
        check_texts(sources=sources, targets=targets)
        numbers = range(first_line, first_line + len(sources))
        source_ids = self.encode(sources, numbers, directions)
        target_ids = [
            direction.scored_ids(ids)
            for direction, ids in zip(
                directions,
                self._target_tokenizer.encode(targets, numbers=numbers),
                strict=True,
            )
        ]
        longest = self._config.longest_sequence
        for side, rows in (("source", source_ids), ("target", target_ids)):
            advice = "shorten the pair, or leave it out"
            check_lengths(
                map(len, rows),
                longest,
                first_line=first_line,
                where=f" in its {side}",
                advice=advice,
            )
        return source_ids, target_ids

    def sentences(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None,
        first_line: int,
        options: DecodingOptions,
        directions: Sequence[Direction],
        *,
        split: bool = False,
    ) -> tuple[list[list[tuple[LinePart, Sentence]]], list[str]]:
        """The sentences of each line: none for an empty line.

        Also a message for each line that is cut.

        Args:
            lines: any text.
            prefixes: the prefix of each line's translation; for a split line, that of
                its first part.
            first_line: the number of the first line.
            options: uses `long_lines` and `max_source_length`.
            directions: what stands around each line and its translation.
            split: whether a line may have several sentences, see `split_sentences`.

        Raises:
            InputError: where the lists differ in length or are not lists of strings, a
                line is too long with `long_lines="error"`, or a single character is, or
                a prefix cannot be encoded.
        """
        if prefixes is None:
            check_texts(lines=lines)
        else:
            check_texts(lines=lines, prefixes=prefixes)
            prefixes = list(prefixes)
        lines = list(lines)  # a column of a data frame is indexed by labels
        is_empty = self._tokenizer.is_empty
        filled = [row for row, line in enumerate(lines) if not is_empty(line)]
        numbers = [first_line + row for row in filled]
        around = [directions[row] for row in filled]
        encoded = self.encode([lines[row] for row in filled], numbers, around)
        starts: list[list[int]] = [[] for _ in filled]
        if prefixes is not None:
            texts = [prefixes[row] for row in filled]
            starts = self._target_tokenizer.encode(texts, numbers=numbers)
            for number, ids in zip(numbers, starts, strict=True):
                if self._target_tokenizer.unknown_id in ids:
                    raise InputError(
                        f"line {number}: the tokenizer cannot encode its prefix; use "
                        "only characters that it knows"
                    )
        sentences: list[list[tuple[LinePart, Sentence]]] = [[] for _ in lines]
        cuts: list[str] = []
        for row, number, ids, start, direction in zip(
            filled, numbers, encoded, starts, around, strict=True
        ):
            if split:
                parts = self._sentences(lines[row], number, options, direction, cuts)
            else:
                parts = self._parts(lines[row], number, ids, options, direction, cuts)
            for count, (part, part_ids) in enumerate(parts):
                key = (number, count) if count else (number,)
                prefix = [] if count else start
                sentence = Sentence(
                    part_ids,
                    f"line {number}",
                    key,
                    prefix,
                    direction.forced_id,
                    direction,
                )
                sentences[row].append((part, sentence))
        return sentences, cuts

    def _sentences(
        self,
        line: str,
        number: int,
        options: DecodingOptions,
        direction: Direction,
        cuts: list[str],
    ) -> Iterator[tuple[LinePart, list[int]]]:
        """The sentences of a line, each in the parts that `_parts` makes of it."""
        language = direction.source_language or self._language
        for text, separator in split_sentences(line, language):
            if self._tokenizer.is_empty(text):
                continue
            (ids,) = self.encode([text], [number], [direction])
            *first, last = self._parts(text, number, ids, options, direction, cuts)
            yield from first
            part, part_ids = last
            yield part._replace(separator=part.separator + separator), part_ids

    def _parts(
        self,
        line: str,
        number: int,
        ids: list[int],
        options: DecodingOptions,
        direction: Direction,
        cuts: list[str],
    ) -> Iterator[tuple[LinePart, list[int]]]:
        """The parts of a line with their ids: the line itself unless it is too long."""
        longest = self._config.longest_sequence
        longest = min(longest, options.max_source_length or longest)
        if len(ids) <= longest:
            yield LinePart(line, ""), ids
        elif options.long_lines == "error":
            if longest < self._config.longest_sequence:
                raise InputError(
                    f"line {number} has {len(ids)} tokens, but max_source_length is "
                    f"{longest}; give a larger one, or {_ADVICE}"
                )
            check_lengths([len(ids)], longest, first_line=number, advice=_ADVICE)
        elif options.long_lines == "truncate":
            end = len(direction.source_after)
            cuts.append(
                f"line {number} has {len(ids)} tokens: only the first {longest - end} "
                f"are translated"
            )
            yield LinePart(line, ""), [*ids[: longest - end], *ids[len(ids) - end :]]
        else:

            def fits(text: str) -> bool:
                return len(self.encode([text], [number], [direction])[0]) <= longest

            for part in split_line(line, fits):
                if not self._tokenizer.is_empty(part.text):
                    part_ids = self.encode([part.text], [number], [direction])[0]
                    if len(part_ids) > longest:
                        raise InputError(
                            f"line {number}: {part.text!r} alone has {len(part_ids)} "
                            f"tokens, but a line may have {longest}; set a larger "
                            "max_source_length"
                        )
                    yield part, part_ids


def directions_of_lines(
    source_language: Codes,
    target_language: Codes,
    count: int,
    languages: Languages | None,
    config: TranslationConfig,
    forced_start: str | int | None = None,
) -> list[Direction]:
    """The direction of each line.

    Args:
        source_language: of all lines, or of each.
        target_language: in the same way.
        count: how many lines there are; codes are checked for none, too.
        languages: those of the model; None for a model of two.
        config: of the model.
        forced_start: the id of the first token in place of the direction's own.

    Raises:
        InputError: where a code is missing or unknown, or there are not as many codes
            as lines.
    """
    codes = {"source_language": source_language, "target_language": target_language}
    columns = [_codes_of_lines(name, given, count) for name, given in codes.items()]
    pairs = list(zip(*columns, strict=True))
    found = {
        pair: direction_of(languages, config, *pair).forced(forced_start)
        for pair in dict.fromkeys(pairs or [(None, None)])
    }
    return [found[pair] for pair in pairs]


def _codes_of_lines(name: str, codes: Codes, count: int) -> list[str | None]:
    """The code of each line.

    Args:
        name: of the argument that has them, for messages.
        codes: of all lines, or of each.
        count: how many lines there are.

    Raises:
        InputError: where there are not as many codes as lines.
    """
    if codes is None or isinstance(codes, str):
        return [codes] * count
    check_texts(**{name: codes})
    if len(codes) != count:
        raise InputError(
            f"{count} lines do not pair with {len(codes)} codes of {name}; give one "
            f"for each line, or one for all"
        )
    return list(codes)


def warn(messages: Iterable[str]) -> None:
    """Warns at the caller of the calling function, every time."""
    # `warnings.warn` drops repeated warnings of a place, even about other texts.
    caller = sys._getframe(2)
    place = caller.f_code.co_filename, caller.f_lineno, caller.f_globals.get("__name__")
    for message in messages:
        warnings.warn_explicit(message, UserWarning, *place)
