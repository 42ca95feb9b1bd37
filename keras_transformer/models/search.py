"""Search of a batch's translations, the one definition for `Translator` and exports.

B batch, S source positions, T target positions, W beam width, L most tokens, R
hypotheses a row, P tokens of a prefix, N layers, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_transformer.config import TranslationConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.decoding import beam_search
from keras_transformer.decoding import greedy_search
from keras_transformer.decoding import sample
from keras_transformer.decoding.beam_groups import gather
from keras_transformer.decoding.logits_processors import chain
from keras_transformer.decoding.numbers import number
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.layers import masks
from keras_transformer.models.contract import Decodable
from keras_transformer.models.word_attention import word_attention
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: A translation may be this many tokens longer than its source (Vaswani et al., 2017).
EXTRA_LENGTH = 50


def search(
    model: Decodable,
    source: Tensor,
    limits: Tensor,
    inputs: Any = (),
    *,
    length: int | Tensor,
    options: DecodingOptions,
    table_length: int | None = None,
) -> SearchResult:
    """The best translations of source ids.

    Args:
        model: a model of this package.
        source: (B, S) int32.
        limits: (B,) int32, the maximum number of tokens of each translation, end token
            included; 0 for a row that only fills the batch.
        inputs: optional `{"prefix": (B, P) int32, "forced_start": (B,) int32, "keys":
            (B, R, 2) int32, "numbers": {...}}`: the first tokens of each translation,
            padded with `logits_processors.FREE`; its forced first token in place of
            that of the options, `FREE` where there is none (a prefix has `FREE` at this
            place); "start" (B,) int32, the first input of the decoder in place of the
            config's; the keys of its samples, see `sampling.sample_keys`; and numbers
            that replace those in the options, see `decoding.numbers.as_inputs`.
        length: L, at least the largest limit; a scalar int32 where the framework
            supports a dynamic length.
        options: `DecodingOptions` with `suppressed_tokens` and `forced_start` as ids;
            `top_beams` is R.
            `max_length`, `seed`, `mbr` and options of long lines are ignored.
        table_length: the largest S, where S is dynamic and positions come from a table
            in the program instead of being computed.

    Returns:
        `decoding.SearchResult`.
    """
    config = model.config
    encoded = model.encode(source, length=table_length)
    source_mask = encoded.source_mask
    width = options.top_beams if options.sampling else options.beam_size
    beams = None if width == 1 else width
    constants, cache = model.start_search(encoded.memory, source_mask, beams, length)
    constants["mask"] = ops.expand_dims(source_mask, (1, 2))  # (B, 1, 1, S)
    del constants["bias"]
    step: Step = Step(model)
    coverage = None
    if options.coverage_penalty:
        step = CoverageStep(model, options.coverage_penalty)
        cache = step.start(cache, source_mask, width)
        coverage = step.penalty
    prefix = "prefix" in inputs
    if prefix:
        constants["prefix"] = inputs["prefix"]
    first = "forced_start" in inputs or options.forced_start is not None
    if first:
        constants["forced_start"] = _first_tokens(limits, inputs, options)
    if "start" in inputs:
        constants["start"] = ops.expand_dims(inputs["start"], 1)
    if options.forced_end:
        constants["limits"] = limits
    if "numbers" in inputs:
        constants["numbers"] = inputs["numbers"]

    arguments = (step, constants, cache, limits)
    shared: dict[str, Any] = {
        "length": length,
        "normalization": options.normalization,
        "length_penalty": options.length_penalty,
        "start_id": config.start_id,
        "end_id": config.end_id,
        "pad_id": config.pad_id,
        "process": _process(config, options, prefix, first),
        "prefix": prefix,
    }
    if options.sampling:
        return sample(
            *arguments,
            inputs["keys"],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            first=first,
            forced_end=options.forced_end,
            **shared,
        )
    if width == 1:
        return greedy_search(*arguments, **shared)
    return beam_search(
        *arguments,
        beam_size=width,
        top_beams=options.top_beams,
        patience=options.patience,
        rules=options.rules,
        num_beam_groups=options.num_beam_groups,
        diversity_penalty=options.diversity_penalty,
        coverage=coverage,
        reorder=step.reorder,
        **shared,
    )


def _first_tokens(limits: Tensor, inputs: Any, options: DecodingOptions) -> Tensor:
    """The forced first token of each row: (B,) int32."""
    if "forced_start" in inputs:
        return inputs["forced_start"]
    return ops.zeros_like(limits) + int(options.forced_start or 0)


def _process(
    config: TranslationConfig, options: DecodingOptions, prefix: bool, first: bool
) -> Callable[..., Tensor]:
    """The logits processors of the options."""
    suppressed = {*config.suppressed_ids, *map(int, options.suppressed_tokens)}
    return chain(
        suppressed=tuple(sorted(suppressed)),
        min_length=options.min_length,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        repetition_penalty=options.repetition_penalty,
        prefix=prefix,
        first=first,
        forced_end=options.forced_end,
        end_id=config.end_id,
    )


class Step:
    """The step of a search.

    Constants hold the source's `mask` (B, 1, 1, S) in place of `start`'s `bias`, and
    may hold the first input of the decoder, `start` (B, 1).

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    def __init__(self, model: Decodable) -> None:
        self.model = model

    def __call__(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
    ) -> tuple[Tensor, Tensors]:
        tokens = self.inputs(tokens, position, constants)
        constants = self.with_bias(constants)
        output = self.model.decode_step(tokens, position, constants, cache)
        return output.logits, output.cache

    def reorder(self, cache: Tensors, beams: Tensor) -> Tensors:
        """The cache after which hypothesis w continues `beams[:, w]`: (B, W) int32."""
        return self.model.reorder(cache, beams)

    def inputs(self, tokens: Tensor, position: Tensor, constants: Any) -> Tensor:
        """The newest tokens (B, W), at the beginning those of `start`."""
        if "start" not in constants:
            return tokens
        return ops.where(position == 0, constants["start"], tokens)

    def with_bias(self, constants: dict[str, Any]) -> dict[str, Any]:
        """The constants of `decode_step`."""
        # Built at each step: where a loop adds a tensor from outside to attention
        # scores, TensorFlow 2.21's graph optimizer (the remapper, with oneDNN) fuses
        # the sum with a wrong input, and the loop silently gives nothing.
        bias = masks.attention_bias(constants["mask"])
        return {**constants, "bias": bias}


class CoverageStep(Step):
    """A step that sums the attention to each source token, (B, W, S).

    Reference: Wu et al., 2016, https://arxiv.org/abs/1609.08144, equation 14.
    """

    def __init__(self, model: Decodable, beta: float) -> None:
        super().__init__(model)
        self.beta = beta

    def start(
        self, cache: Tensors, source_mask: Tensor, width: int
    ) -> dict[str, Tensors]:
        """The cache with sums of 0."""
        sums = ops.zeros((ops.shape(source_mask)[0], width, ops.shape(source_mask)[1]))
        return {"model": cache, "coverage": sums}

    def __call__(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
    ) -> tuple[Tensor, Tensors]:
        tokens = self.inputs(tokens, position, constants)
        constants = self.with_bias(constants)
        output = self.model.decode_step(
            tokens, position, constants, cache["model"], return_attention_weights=True
        )
        sums = cache["coverage"] + word_attention(output.cross_attention_weights)
        return output.logits, {"model": output.cache, "coverage": sums}

    def reorder(self, cache: Tensors, beams: Tensor) -> dict[str, Tensors]:
        return {
            "model": self.model.reorder(cache["model"], beams),
            "coverage": gather(cache["coverage"], beams),
        }

    def penalty(self, cache: Tensors, constants: dict[str, Any]) -> Tensor:
        """Beta * sum over the source of log(min(attention, 1)): (B, W), at most 0."""
        # A token without attention must not cost minus infinity.
        covered = ops.clip(cache["coverage"], 1e-9, 1.0)
        mask = constants["mask"][:, 0]  # (B, 1, S)
        logs = ops.where(mask, ops.log(covered), 0.0)
        beta = number("coverage_penalty", self.beta, constants)
        return beta * ops.sum(logs, axis=-1)
