"""Engine of a folder of `export --format ctranslate2`; needs no Keras."""

from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from keras_transformer.arguments import check_lengths
from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.engines import export_folder
from keras_transformer.engines.library import FAULTS
from keras_transformer.engines.library import Library
from keras_transformer.errors import InputError
from keras_transformer.serving.decoding_cost import check_cost
from keras_transformer.serving.engine import Codes
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import NOTHING_LEFT
from keras_transformer.translation.hypothesis import Hypothesis


class CTranslate2Engine:
    """Translates in C++; see `Library`. Lines that are too long are refused.

    It applies those of the model's options that the library supports.

    Args:
        folder: its path.
        limits: the limits of the server.
        beam_size: the largest W; default: the model's.
        length_penalty: the alpha; default: the model's.
        decoding: the other options; default: those that the folder was exported with.

    Raises:
        InputError: where the folder is incomplete or not an export, it cannot
            translate, or `ctranslate2` is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        limits: Limits,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        decoding: DecodingOptions | None = None,
    ) -> None:
        contents = export_folder.read(Path(folder))
        self._source, self._description = contents.source, contents.description
        self.known_words = contents.known_words
        self.about = contents.description.about
        self.languages: Languages | None = None  # an export has one pair of them
        around = contents.description.languages
        end = [contents.description.ids.end]
        after = end if contents.description.source_end else []
        self._around = (around.before, around.after) if around else ([], after)
        before, after = self._around
        self.source_around = len(before), len(after)
        search = contents.description.search
        if decoding is not None:
            first = search.forced_start  # that of its target language
            search = decoding.with_ids(contents.target.ids_of)
            if first is not None:
                search = search.updated({"forced_start": first})
        if length_penalty is None:
            length_penalty = search.length_penalty
        bounds = contents.description.limits
        most = max(bounds.extra_length, search.min_length, search.max_length or 0)
        check_cost(1 if beam_size else search.beam_size, most)
        self.beam_size = search.beam_size if beam_size is None else beam_size
        self._search = search.updated(
            {
                **(GREEDY if self.beam_size == 1 else {}),
                "beam_size": self.beam_size,
                "length_penalty": length_penalty,
            }
        )
        self._limits = limits
        self._library = Library(folder, contents)
        try:
            self.translate(["a"], Options(self.beam_size))
        except FAULTS as error:
            why = " ".join(str(error).split())
            raise InputError(f"{folder} cannot be used: {why}") from None

    def is_empty(self, text: str) -> bool:
        """See `Engine.is_empty`."""
        return self._source.is_empty(text)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, its prefix included."""
        around = self._description.languages
        prefix = around.prefix if around else ""
        return self._source.encode([prefix + text for text in texts])

    def count_tokens(
        self, texts: Sequence[str], codes: Codes = (None, None)
    ) -> list[int]:
        """Source tokens of each sentence, the end token included."""
        more = sum(map(len, self._around))
        counts = [len(ids) + more for ids in self._encode(texts)]
        longest = self._description.limits.longest_sequence
        longest = min(longest, self._search.max_source_length or longest)
        check_lengths(counts, longest)
        return counts

    def translate(
        self,
        texts: Sequence[str],
        options: Options,
        codes: Sequence[Codes] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.translate`."""
        bounds = self._description.limits
        before, after = self._around
        encoded = self._encode(texts)
        rows = self._library.search(
            [[*before, *ids, *after] for ids in encoded],
            [self._limit(len(ids), bounds) for ids in encoded],
            self._search.updated(
                {
                    **(GREEDY if options.beam_size == 1 else {}),
                    "beam_size": options.beam_size,
                }
            ),
            starts=[cast(int | None, self._search.forced_start)] * len(texts),
            count=options.n_best,
            attention=options.attention,
            batch_size=self._limits.batch_size,
        )
        if not all(rows):
            raise InputError(NOTHING_LEFT)
        return rows

    def _limit(self, count: int, bounds: export_folder.Bounds) -> int:
        """The maximum number of tokens of a translation of `count` source tokens."""
        most = self._search.max_length or count + bounds.extra_length
        return min(max(most, self._search.min_length), bounds.longest_sequence)

    def warm_up(self, longest: int) -> Iterator[str]:
        """One translation: nothing is compiled."""
        self.translate(["a"], Options(self.beam_size))
        yield "1 sentence"

    def info(self) -> dict[str, str | int | float]:
        """The engine, its precision and the sizes of the search."""
        return {
            "engine": self._library.name,
            "attention": True,
            "beam_size": self.beam_size,
            "length_penalty": self._search.length_penalty,
        }
