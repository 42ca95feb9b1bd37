"""Strings to strings: tokenizer, model and search; a model folder, saved and loaded.

B batch, S source positions, W beam width, R hypotheses a line, L most tokens.
"""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer import model_folder
from keras_transformer.data.batching import pad_rows
from keras_transformer.data.static_shapes import batches_by_length
from keras_transformer.data.static_shapes import bucket
from keras_transformer.data.static_shapes import power_of_two
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.hypothesis import Hypothesis
from keras_transformer.hypothesis import TranslationScore
from keras_transformer.models import Transformer
from keras_transformer.models.search import EXTRA_LENGTH
from keras_transformer.models.search import score
from keras_transformer.models.search import search


class Translator:
    """A trained model with its tokenizers: lines in, translations out.

    Args:
        model: a model of this package.
        tokenizer: of the source, and of the target unless that has its own.
        target_tokenizer: of the target, where the vocabularies differ.
        beam_size: W, the default of `translate`; 1 is greedy search.
        length_penalty: alpha, the default of `translate`.

    Raises:
        InputError: where a tokenizer is not the model's.

    Example:

    >>> import keras_transformer as kt
    >>> tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
    >>> translator = kt.Translator(kt.Transformer(config), tokenizer)
    >>> len(translator.translate(["a house", ""]))
    2
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        *,
        beam_size: int = 4,
        length_penalty: float = 0.6,
    ) -> None:
        config = model.config
        ids = {name: getattr(config, name) for name in ("pad_id", "start_id", "end_id")}
        target_tokenizer = target_tokenizer or tokenizer
        for side, its in (("source", tokenizer), ("target", target_tokenizer)):
            size = getattr(config, f"{side}_vocabulary_size")
            its.check(vocabulary_size=size, where=side, **ids)
        self.model = model
        self.tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self._search = backends.compile(functools.partial(search, model), model)
        self._score = backends.compile(functools.partial(score, model), model)

    # === Translation ===

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
        top_beams: int = 1,
        batch_size: int = 64,
        return_details: bool = False,
        return_attention_weights: bool = False,
        first_line: int = 1,
    ) -> list[str] | list[list[Hypothesis]]:
        """The translation of each line, in order.

        Lines are translated in batches of similar length; each is translated as it
        would be alone. A translation has at most as many tokens as its line and 50
        more. An empty line, or one of white space, gives an empty line.

        Args:
            lines: one sentence each.
            beam_size: W; 1 is greedy search; default: the translator's.
            length_penalty: alpha; default: the translator's.
            top_beams: how many hypotheses of each line, with `return_details`.
            batch_size: the most lines translated at once.
            return_details: give hypotheses, best first, instead of strings.
            return_attention_weights: with `return_details`, fill `attention`.
            first_line: the number of the first line, for messages.

        Raises:
            InputError: where a line is longer than the model can take.
        """
        if isinstance(lines, str):
            raise InputError("lines must be a list of strings, not one string")
        beam_size = self.beam_size if beam_size is None else beam_size
        if length_penalty is None:
            length_penalty = self.length_penalty
        if not 1 <= top_beams <= beam_size:
            raise InputError(
                f"top_beams {top_beams} must be between 1 and beam_size {beam_size}"
            )
        filled = [i for i, line in enumerate(lines) if line.strip()]
        numbers = [first_line + i for i in filled]
        sources = self._encode([lines[i] for i in filled], numbers)
        found: list[list[Hypothesis]] = [[_EMPTY] for _ in lines]
        for rows in batches_by_length([len(ids) for ids in sources], batch_size):
            options = {
                "beam_size": beam_size,
                "top_beams": top_beams,
                "length_penalty": float(length_penalty),
            }
            for row, hypotheses in zip(
                rows, self._translate([sources[i] for i in rows], options), strict=True
            ):
                found[filled[row]] = hypotheses
        if not return_details:
            return [hypotheses[0].text for hypotheses in found]
        if return_attention_weights:
            for row, ids in zip(filled, sources, strict=True):
                found[row] = [self._with_attention(ids, h) for h in found[row]]
        return found

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int = 64
    ) -> list[TranslationScore]:
        """The log-probability of each given translation.

        Raises:
            InputError: where the numbers of lines differ, or a line is too long.
        """
        if len(sources) != len(targets):
            raise InputError(
                f"{len(sources)} sources do not pair with {len(targets)} targets; give "
                f"one translation for each line"
            )
        numbers = range(1, len(sources) + 1)
        source_ids = self._encode(sources, numbers)
        end = [self.model.config.end_id]
        target_ids = [ids + end for ids in self.target_tokenizer.encode(targets)]
        self._check_lengths(target_ids, numbers)
        scores: list[TranslationScore | None] = [None] * len(sources)
        lengths = [
            max(len(s), len(t)) for s, t in zip(source_ids, target_ids, strict=True)
        ]
        for rows in batches_by_length(lengths, batch_size):
            sums = self._score(
                self._pad([source_ids[i] for i in rows]),
                self._pad([target_ids[i] for i in rows]),
            )
            sums = ops.convert_to_numpy(sums)[: len(rows)]
            for row, value in zip(rows, sums, strict=True):
                scores[row] = TranslationScore(float(value), len(target_ids[row]))
        return scores

    def count_tokens(
        self, lines: Sequence[str], *, numbers: Sequence[int] | None = None
    ) -> list[int]:
        """Source tokens of each line, the end token included if the model wants one.

        Args:
            lines: one sentence each.
            numbers: of the lines, for messages; default: from 1.

        Raises:
            InputError: where a line is longer than the model can take.
        """
        numbers = range(1, len(lines) + 1) if numbers is None else numbers
        return [len(ids) for ids in self._encode(lines, numbers)]

    def _encode(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """Source ids of each line, with the end token if the model wants one."""
        end = [self.model.config.end_id] * self.model.config.source_end
        encoded = self.tokenizer.encode(lines, numbers=numbers)
        rows = [ids + end for ids in encoded]
        self._check_lengths(rows, numbers)
        return rows

    def _check_lengths(self, rows: list[list[int]], numbers: Sequence[int]) -> None:
        longest = self.model.config.longest_sequence
        for number, ids in zip(numbers, rows, strict=True):
            if len(ids) > longest:
                raise InputError(
                    f"line {number} has {len(ids)} tokens, but the model takes at "
                    f"most {longest} (max_sequence_length); split it into sentences"
                )

    def _pad(self, rows: list[list[int]]) -> Any:
        """Rows of ids as (B, length), B a power of two.

        A row that only fills the batch is one end token: never fully masked.
        """
        config = self.model.config
        filler = [[config.end_id]] * (power_of_two(len(rows)) - len(rows))
        length = min(bucket(max(map(len, rows))), self.model.config.longest_sequence)
        padded = pad_rows(rows + filler, length, config.pad_id)
        return ops.convert_to_tensor(padded)

    def _translate(
        self, sources: list[list[int]], options: dict[str, Any]
    ) -> list[list[Hypothesis]]:
        source = self._pad(sources)
        rows, length = source.shape
        L = min(length + EXTRA_LENGTH, self.model.config.longest_sequence)
        # `len` counts the end token of the source, the limit that of the target.
        end = self.model.config.source_end
        limits = np.zeros(rows, np.int32)
        limits[: len(sources)] = [len(ids) - end + EXTRA_LENGTH for ids in sources]
        limits = ops.convert_to_tensor(np.minimum(limits, L))
        result = self._search(source, limits, length=L, **options)
        result = [ops.convert_to_numpy(part)[: len(sources)] for part in result]
        return [self._hypotheses(*row) for row in zip(*result, strict=True)]

    def _hypotheses(self, tokens, lengths, log_probabilities, scores, finished):
        """The hypotheses of one line: (R, L), (R,), (R,), (R,), (R,)."""
        end_id = self.model.config.end_id
        found = []
        for r in range(len(scores)):
            if scores[r] == -np.inf:
                continue
            ids = [int(i) for i in tokens[r, : lengths[r]]]
            content = ids[:-1] if finished[r] and ids[-1] == end_id else ids
            found.append(
                Hypothesis(
                    # One line, whatever bytes a model may produce.
                    text=self.target_tokenizer.decode([content])[0].replace("\n", " "),
                    tokens=self.target_tokenizer.pieces(content),
                    ids=ids,
                    log_probability=float(log_probabilities[r]),
                    score=float(scores[r]),
                    finished=bool(finished[r]),
                )
            )
        return found

    def _with_attention(self, source: list[int], hypothesis: Hypothesis) -> Hypothesis:
        """Runs the hypothesis once more, under teacher forcing, for its weights."""
        if not hypothesis.ids:
            return hypothesis
        config = self.model.config
        target = [config.start_id, *hypothesis.ids[:-1]]
        memory, mask, encoder = self.model.encode(
            ops.convert_to_tensor(np.array([source], np.int32)),
            return_attention_weights=True,
        )
        _, decoder, cross = self.model.decode(
            ops.convert_to_tensor(np.array([target], np.int32)),
            memory,
            mask,
            return_attention_weights=True,
        )
        weights = {"encoder": encoder, "decoder": decoder, "cross": cross}
        for name, layers in weights.items():
            weights[name] = np.concatenate([ops.convert_to_numpy(w) for w in layers])
        pieces = self.tokenizer.pieces(source)
        return dataclasses.replace(hypothesis, attention=weights, source_tokens=pieces)

    # === The model folder ===

    def info(self) -> dict[str, Any]:
        """What a person would ask about the model."""
        config = self.model.config
        return {
            "weights": config.num_weights,
            "beam size": self.beam_size,
            "length penalty": self.length_penalty,
            **config.model_dump(exclude_none=True),
        }

    def save(self, folder: str | Path, card: str | None = None) -> None:
        """Writes a model folder: config, weights, tokenizers and a card.

        It is whole or not there; an older model folder of the same name is replaced.

        Args:
            folder: its path.
            card: the text of its README.md; default: a list of facts.

        Raises:
            InputError: where the folder holds something else, or cannot be written.
        """
        contents = model_folder.Contents(
            self.model,
            self.tokenizer,
            self.target_tokenizer,
            {"beam_size": self.beam_size, "length_penalty": self.length_penalty},
        )
        model_folder.write(folder, contents, card or self._card())

    @classmethod
    def load(cls, folder: str | Path) -> "Translator":
        """Reads a model folder, of any backend. Runs nothing from it.

        Raises:
            InputError: where a file is missing, cut off or foreign.
        """
        model, source, target, decoding = model_folder.read(folder)
        return cls(model, source, target, **decoding)

    def _card(self) -> str:
        facts = "\n".join(f"* {name}: {value}" for name, value in self.info().items())
        return (
            "# A translation model of keras-transformer\n\n"
            "`keras-transformer translate` with this folder translates standard "
            f"input.\n\n{facts}\n"
        )


_EMPTY = Hypothesis("", [], [], 0.0, 0.0, True)
