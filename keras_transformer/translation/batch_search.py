"""Batched search and scoring of sentences as ids, with few compiled programs.

B batch, S source positions, T target positions, R hypotheses a sentence, L most tokens,
P tokens of a prefix.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.backends.programs import kept
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.data.batching import pad_rows
from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.decoding.numbers import as_inputs
from keras_transformer.decoding.sampling import sample_keys
from keras_transformer.decoding.search_loop import MANY_ROWS
from keras_transformer.decoding.search_loop import one_loop
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.scoring import attention
from keras_transformer.models.scoring import reread
from keras_transformer.models.scoring import token_scores
from keras_transformer.models.search import EXTRA_LENGTH
from keras_transformer.models.search import search
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import require_attention
from keras_transformer.tensors import Tensors
from keras_transformer.translation.finite_numbers import require_numbers
from keras_transformer.translation.sentence import Sentence
from keras_transformer.translation.shape_plan import Shape
from keras_transformer.translation.shape_plan import ShapePlan
from keras_transformer.translation.static_shapes import batches_by_length
from keras_transformer.translation.static_shapes import batches_by_tokens
from keras_transformer.translation.static_shapes import bucket
from keras_transformer.translation.static_shapes import power_of_two

#: A model of up to this many weights stays in processor caches. Larger models wait for
#: memory, more so if several programs run at once.
_CACHED_WEIGHTS = 5_000_000
_FEW_ROWS = 48  # hypotheses of a batch that are few to a product with a large matrix
_MOST_PROGRAMS = 4  # each holds a batch in memory
#: A program takes as long to compile as so many products of a weight and a number take,
#: on two cores, and on a GPU: five seconds of a twentieth of an H100's peak.
_PROGRAM_PRODUCTS, _GPU_PROGRAM_PRODUCTS = 3e11, 1e14

#: Options that do not change the compiled program.
_NOT_COMPILED = {name for name, option in OPTIONS.items() if not option.compiled}


class IdHypothesis(NamedTuple):
    """A hypothesis as ids."""

    ids: list[int]
    log_probability: float
    score: float
    finished: bool
    prefix_log_probability: float | None = None


class BatchSearch:
    """Searches and scores of one model, with sentences of similar length batched.

    Args:
        model: a model of this package, or an ensemble.
    """

    def __init__(self, model: TranslationModel | Ensemble) -> None:
        self.model = model
        #: Receives the sentences that a search has finished, and all of the call.
        self.progress: Callable[[int, int], None] | None = None
        #: By whether the rows are few, and whether it is one loop.
        self._searches = {
            (few_rows, in_one_loop): backends.compile(
                functools.partial(_whole_search if in_one_loop else search, model),
                model,
                few_rows=few_rows,
            )
            for few_rows in (False, True)
            for in_one_loop in (False, True)
        }
        self._scores = backends.compile(functools.partial(token_scores, model), model)
        self._reread = backends.compile(functools.partial(reread, model), model)
        self._attention = backends.compile(functools.partial(attention, model), model)
        num_weights = sum(math.prod(variable.shape) for variable in model.variables)
        self._is_small = num_weights <= _CACHED_WEIGHTS
        on_gpu = backends.on_gpu()
        products = _GPU_PROGRAM_PRODUCTS if on_gpu else _PROGRAM_PRODUCTS
        program_positions = products / num_weights
        self._plan = kept(lambda *key: ShapePlan(program_positions))

    def translate(
        self,
        sentences: Sequence[Sentence],
        options: DecodingOptions,
        batch_size: int,
        batch_tokens: int | None = None,
        fill_batches: bool = False,
    ) -> list[list[IdHypothesis]]:
        """The hypotheses of each sentence, independent of the other sentences.

        Args: see `Translator.translate`.

        Raises:
            InputError: where a prefix or a length exceeds the model's maximum, a
                coverage penalty lacks attention, or `fill_batches` is combined with
                `batch_tokens`.
        """
        self._check(sentences, options)
        if fill_batches and batch_tokens is not None:
            raise InputError(
                "fill_batches needs batches of batch_size rows; leave batch_tokens out"
            )
        results: list[list[IdHypothesis]] = [[] for _ in sentences]
        lengths = [len(sentence.ids) for sentence in sentences]
        batches = self._batches(lengths, batch_size, batch_tokens)
        least = -(-batch_size // self._num_programs()) if fill_batches else 1
        shapes = [
            self._shape(max(least, len(rows)), int(max(lengths[i] for i in rows)))
            for rows in batches
        ]
        plan = self._plan(_program(options), options.most_tokens)
        if len(batches) > 1 and not fill_batches:
            shapes = plan.shared(shapes)
        else:  # few lines, whose user waits for them, or a server's set of shapes
            shapes = plan.own(shapes)
        dropping = {
            shape: fill_batches or plan.drops_rows(shape) for shape in set(shapes)
        }

        def translate(job: tuple[np.ndarray, Shape]) -> list[list[IdHypothesis]]:
            rows, shape = job
            steps = shapes.count(shape) * (options.most_tokens or shape[1])
            with backends.expecting(steps):
                lines = [sentences[i] for i in rows]
                return list(self._translate(lines, options, shape, dropping[shape]))

        jobs = list(zip(batches, shapes, strict=True))
        done = 0
        for rows, batch in zip(batches, self._map(translate, jobs), strict=True):
            for row, hypotheses in zip(rows, batch, strict=True):
                results[row] = hypotheses
            done += len(rows)
            if self.progress is not None:
                self.progress(done, len(sentences))
        return results

    def compile(
        self,
        sentence: Sentence,
        options: DecodingOptions,
        batch_size: int,
        longest: int,
    ) -> Iterator[Shape]:
        """Compiles searches, of full batches and of single sentences.

        Args:
            sentence: a short one, to be searched with each program.
            options: of the search.
            batch_size: the rows of a full batch.
            longest: the most source positions.

        Yields:
            The shape of each, once it is compiled.
        """
        backends.note_work()
        longest = min(longest, self.model.config.longest_sequence)
        lengths = {self._shape(1, length)[1] for length in range(1, longest + 1)}
        plan = self._plan(_program(options), options.most_tokens)
        for rows in dict.fromkeys([power_of_two(batch_size), 1]):
            kinds = (False, True) if self._may_drop(rows) else (False,)
            for length in sorted(lengths):
                (shape,) = plan.own([(rows, length)])
                for drops_rows in kinds:
                    list(self._translate([sentence], options, shape, drops_rows))
                    yield shape

    def score(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        batch_size: int,
        batch_tokens: int | None = None,
        starts: Sequence[int | None] | None = None,
    ) -> list[np.ndarray]:
        """The log-probability (T,) of each target id, given the ids before it.

        Args:
            sources: the ids of each source.
            targets: the ids of the translation of each source.
            batch_size: the maximum number of pairs of a batch.
            batch_tokens: the maximum number of tokens of either side of a batch,
                padding included; a longer pair is read alone. Default: no limit.
            starts: the first input of the decoder for each pair; that of the model's
                config where it is left out.
        """
        arguments = sources, targets, batch_size, batch_tokens, starts
        results = self._read(self._scores, *arguments)
        return [
            scores[: len(target)]
            for target, scores in zip(targets, results, strict=True)
        ]

    def reread(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        batch_size: int,
        batch_tokens: int | None = None,
        starts: Sequence[int | None] | None = None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """The result of `score`, and the attention (T, S) of each target position."""
        arguments = sources, targets, batch_size, batch_tokens, starts
        results = self._read(self._reread, *arguments)
        return [
            (scores[: len(target)], weights[: len(target), : len(source)])
            for source, target, (scores, weights) in zip(
                sources, targets, results, strict=True
            )
        ]

    def attention(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        batch_size: int,
        batch_tokens: int | None = None,
        starts: Sequence[int | None] | None = None,
    ) -> list[dict[str, np.ndarray]]:
        """The attention weights of all layers and heads, see `Hypothesis.attention`."""
        arguments = sources, targets, batch_size, batch_tokens, starts
        results = self._read(self._attention, *arguments)
        rows = []
        for source, target, weights in zip(sources, targets, results, strict=True):
            S, T = len(source), len(target)
            sizes = {"encoder": (S, S), "decoder": (T, T), "cross": (T, S)}
            rows.append(
                {
                    kind: values[..., : sizes[kind][0], : sizes[kind][1]].copy()
                    for kind, values in weights.items()
                }
            )
        return rows

    # === Batches ===

    def _num_programs(self) -> int:
        """The number of batches that run at once.

        The operations of a small model are too short to be split over processors.
        """
        return min(backends.num_programs(), _MOST_PROGRAMS) if self._is_small else 1

    def _batches(
        self, lengths: Sequence[int], batch_size: int, batch_tokens: int | None
    ) -> list[np.ndarray]:
        """Row numbers in batches, enough for each concurrent program."""
        share = max(-(-len(lengths) // self._num_programs()), 1)
        batch_size = min(batch_size, share)
        if batch_tokens is None:
            return batches_by_length(lengths, batch_size)
        return batches_by_tokens(lengths, batch_tokens, batch_size)

    def _map(
        self, function: Callable[[Any], Any], batches: Sequence[Any]
    ) -> Iterator[Any]:
        """`function` applied to each batch, in order."""
        backends.note_work()
        count = min(self._num_programs(), len(batches))
        if count < 2:
            yield from map(function, batches)
            return
        with ThreadPoolExecutor(count) as pool:
            yield from pool.map(function, batches)

    # === One batch ===

    def _may_drop(self, rows: int) -> bool:
        """Whether a search of so many rows is another program if it drops rows."""
        return rows >= MANY_ROWS and backends.compiles_loops

    def _program_for(
        self, rows: int, width: int, drops_rows: bool
    ) -> Callable[..., Any]:
        """The search of so many rows, with so many hypotheses of each."""
        most = _FEW_ROWS if _is_float32(self.model) else 1  # it may be quantized later
        few_rows = rows * width <= most and not self._is_small
        in_one_loop = self._may_drop(rows) and not drops_rows
        return self._searches[few_rows and backends.compiles_few_rows, in_one_loop]

    def _translate(
        self,
        sentences: Sequence[Sentence],
        options: DecodingOptions,
        shape: Shape,
        drops_rows: bool,
    ) -> Iterator[list[IdHypothesis]]:
        config = self.model.config
        rows, length = shape
        source = self._pad([sentence.ids for sentence in sentences], shape)
        limits = self._limits(sentences, options)
        if options.most_tokens is not None:
            L = bucket(options.most_tokens)
        else:
            L = length + EXTRA_LENGTH
            if limits.max() > L:  # a long prefix, or min_length
                L = bucket(int(limits.max()))
        L = min(L, config.longest_sequence)
        limits = np.pad(limits, (0, rows - len(sentences)))
        limits = ops.convert_to_tensor(np.minimum(limits, L).astype("int32"))
        program, numbers = as_inputs(_program(options))
        inputs = self._inputs(sentences, rows, options)
        if numbers:
            inputs["numbers"] = tree.map_structure(ops.convert_to_tensor, numbers)
        arguments = (source, limits, *([inputs] if inputs else []))
        width = options.num_candidates if options.sampling else options.beam_size
        run = self._program_for(rows, width, drops_rows)
        result = run(*arguments, length=L, options=program)
        parts = [ops.convert_to_numpy(part)[: len(sentences)] for part in result[:-1]]
        prefixes = ops.convert_to_numpy(result.prefix_log_probabilities)
        for number, row in enumerate(zip(*parts, strict=True)):
            require_numbers(row[3], sentences[number].name, self.model)
            forced = float(prefixes[number]) if sentences[number].prefix else None
            tokens, lengths, log_probabilities, scores, finished = row
            yield _hypotheses(
                tokens, lengths, log_probabilities, scores, finished, forced
            )

    def _limits(
        self, sentences: Sequence[Sentence], options: DecodingOptions
    ) -> np.ndarray:
        """The maximum number of tokens of each translation."""
        # `len` counts the end token of the source, the limit that of the target.
        end = self.model.config.source_end
        limits = [
            max(
                options.most_tokens
                or len(sentence.ids) - sentence.num_around(end) + EXTRA_LENGTH,
                options.min_length,
                sentence.num_forced + 1,
            )
            for sentence in sentences
        ]
        return np.array(limits)

    def _inputs(
        self, sentences: Sequence[Sentence], rows: int, options: DecodingOptions
    ) -> dict[str, Any]:
        inputs = {}
        starts = [sentence.forced_start for sentence in sentences]
        if any(start is not None for start in starts):
            first = np.full((rows,), FREE, np.int32)
            for row, start in enumerate(starts):
                first[row] = FREE if start is None else start
            inputs["forced_start"] = ops.convert_to_tensor(first)
        first_inputs = self._starts([s.start_id for s in sentences], rows)
        if first_inputs is not None:
            inputs["start"] = first_inputs
        if any(sentence.prefix for sentence in sentences):
            longest = max(sentence.num_forced for sentence in sentences)
            prefixes = np.full((rows, bucket(longest)), FREE, np.int32)
            for row, sentence in enumerate(sentences):
                after = sentence.num_forced - len(sentence.prefix)
                prefixes[row, after : sentence.num_forced] = sentence.prefix
            inputs["prefix"] = ops.convert_to_tensor(prefixes)
        if options.sampling:
            keys = np.zeros((rows, options.num_candidates, 2), np.int32)
            for row, sentence in enumerate(sentences):
                keys[row] = sample_keys(options.seed, sentence.key, keys.shape[1])
            inputs["keys"] = ops.convert_to_tensor(keys)
        return inputs

    def _read(
        self,
        program: Callable[..., Tensors],
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],
        batch_size: int,
        batch_tokens: int | None,
        starts: Sequence[int | None] | None,
    ) -> list[Any]:
        """The results of a program for each pair, as padded NumPy arrays."""
        results = [None] * len(sources)
        lengths = list(map(max, zip(map(len, sources), map(len, targets), strict=True)))
        batches = self._batches(lengths, batch_size, batch_tokens)

        def read(rows: np.ndarray) -> Tensors:
            inputs = [self._pad([side[i] for i in rows]) for side in (sources, targets)]
            count = len(inputs[0])
            if starts is not None:
                first = self._starts([starts[i] for i in rows], count)
                inputs += [] if first is None else [first]
            parts = program(*inputs)
            return tree.map_structure(ops.convert_to_numpy, parts)

        for rows, parts in zip(batches, self._map(read, batches), strict=True):
            for place, row in enumerate(rows):
                results[row] = tree.map_structure(operator.itemgetter(place), parts)
                require_numbers(results[row], f"pair {row + 1}", self.model)
        return results

    def _starts(self, ids: Sequence[int | None], rows: int) -> Any:
        """First inputs of the decoder (B,) int32; None where all are the model's."""
        usual = self.model.config.start_id
        if all(start in (None, usual) for start in ids):
            return None
        filled = [usual if start is None else start for start in ids]
        filled += [usual] * (rows - len(filled))
        return ops.convert_to_tensor(np.array(filled, np.int32))

    def _shape(self, rows: int, length: int) -> Shape:
        """The smallest shape of a program for a batch."""
        return power_of_two(rows), min(
            bucket(length), self.model.config.longest_sequence
        )

    def _pad(self, rows: list[list[int]], shape: Shape | None = None) -> Any:
        """Rows of ids as an array of a shape; default: the smallest of a program.

        A row that only fills the batch holds one end token, so it is not fully masked.
        """
        config = self.model.config
        count, length = shape or self._shape(len(rows), max(map(len, rows)))
        filler = [[config.end_id]] * (count - len(rows))
        padded = pad_rows(rows + filler, length, config.pad_id)
        return ops.convert_to_tensor(padded)

    def _check(self, sentences: Sequence[Sentence], options: DecodingOptions) -> None:
        if options.coverage_penalty:
            require_attention(self.model, "coverage_penalty needs")
        longest = self.model.config.longest_sequence
        if options.min_length > longest:
            raise InputError(
                f"min_length {options.min_length} is more than the {longest} tokens "
                "that the model can write; use a smaller one"
            )
        longest = min(longest, options.most_tokens or longest)
        for sentence in sentences:
            if sentence.num_forced >= longest:
                raise InputError(
                    f"{sentence.name}: its prefix has {sentence.num_forced} tokens, "
                    f"but a translation may have only {longest}; shorten the prefix"
                )


def _is_float32(model: TranslationModel | Ensemble) -> bool:
    """Whether all its products are of float32."""
    models = model.models if isinstance(model, Ensemble) else [model]
    return not any(m.is_int8 or m.compute_dtype != "float32" for m in models)


def _whole_search(
    model: TranslationModel | Ensemble, *arguments: Any, **options: Any
) -> SearchResult:
    """`search` without further loops for the rows that are left."""
    with one_loop():
        return search(model, *arguments, **options)


def _program(options: DecodingOptions) -> DecodingOptions:
    """The compiled function, with the arguments of `models.search.search`."""
    fields = options.model_dump(exclude=_NOT_COMPILED)
    fields["top_beams"] = options.num_candidates
    if options.sampling:
        fields["beam_size"] = 1
    return DecodingOptions(**fields)


def _hypotheses(
    tokens: np.ndarray,
    lengths: np.ndarray,
    log_probabilities: np.ndarray,
    scores: np.ndarray,
    finished: np.ndarray,
    prefix_log_probability: float | None,
) -> list[IdHypothesis]:
    """The hypotheses of one sentence, from (R, L) and (R,) arrays."""
    return [
        IdHypothesis(
            [int(token) for token in tokens[r, : lengths[r]]],
            float(log_probabilities[r]),
            float(scores[r]),
            bool(finished[r]),
            prefix_log_probability,
        )
        for r in range(len(scores))
        if scores[r] > -np.inf
    ]
