"""Search defaults of `transformers`, as decoding options of this package."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.control_characters import escaped
from keras_transformer.errors import InputError
from keras_transformer.importing.source import Source

_SHOWN = 60  # characters of a name or a value from a file

#: Keys that change no hypothesis, or that say what a model's own config says.
_WITHOUT_EFFECT = """
    _from_model_config assistant_confidence_threshold assistant_early_exit
    assistant_ensemble_weight assistant_lookbehind bos_token_id cache_config
    cache_implementation compile_config continuous_batching_config
    decoder_start_token_id disable_compile eos_token_id is_assistant low_memory
    max_cache_len max_matching_ngram_size num_assistant_tokens
    num_assistant_tokens_schedule output_attentions output_hidden_states output_logits
    output_scores pad_token_id prefill_chunk_size prompt_lookup_num_tokens
    remove_invalid_values return_dict_in_generate speculation_type target_lookbehind
    transformers_version use_cache use_mtp
"""
#: Those of samples, without effect where none are drawn.
_OF_SAMPLES = (
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p"),
    *("epsilon_cutoff", "eta_cutoff", "penalty_alpha"),
)
#: Rules that a search here does not have, each with the values that turn it off.
_WITHOUT_A_PLACE: dict[str, tuple[Any, ...]] = {
    "begin_suppress_tokens": ([],),
    "constraints": ([],),
    "dola_layers": (),
    "encoder_no_repeat_ngram_size": (0,),
    "encoder_repetition_penalty": (1.0,),
    "exponential_decay_length_penalty": (),
    "force_words_ids": ([],),
    "guidance_scale": (1.0,),
    "max_time": (),
    "num_return_sequences": (1,),
    "sequence_bias": ({}, []),
    "stop_strings": ([],),
    "token_healing": (False,),
    "watermarking_config": (),
}
#: What is taken over, in part with another name or meaning.
_TAKEN = """
    bad_words_ids diversity_penalty do_sample early_stopping forced_bos_token_id
    forced_eos_token_id length_penalty max_length max_new_tokens min_length
    min_new_tokens no_repeat_ngram_size num_beam_groups num_beams renormalize_logits
    repetition_penalty suppress_tokens
"""


def decoding_of(
    source: Source,
    config: TransformerConfig,
    languages: Languages | None = None,
    *,
    longest: int | None = None,
) -> tuple[DecodingOptions, tuple[str, ...]]:
    """The search that a folder of `transformers` asks for, and what is lost of it.

    The end that is forced where a translation reaches its limit is left out: a
    translation that is cut off shall be seen. So is a forced first token that stands
    for a language, which whoever translates gives.

    Args:
        source: the folder.
        config: of its model.
        languages: of its model.
        longest: the most tokens that the model takes. A `max_length` that says no more
            than this is left out: a search makes room for all of it, however short its
            line.

    Returns:
        The options, and sentences for the report of the import.

    Raises:
        InputError: where an option is not of the kind that it should be.
    """
    try:
        options, notes = options_of_generation_config(
            source.generation_config,
            source.config,
            pad_id=config.pad_id,
            end_id=config.end_id,
            longest=None if longest is None else longest - 1,
        )
    except InputError as error:
        raise InputError(f"{source.folder}: {error}") from None
    options.pop("forced_end", None)
    codes = {} if languages is None else languages.codes
    if "forced_start" in options and options["forced_start"] in codes.values():
        del options["forced_start"]
    size = config.target_vocabulary_size
    for key in ("suppressed_tokens", "forced_start"):
        ids = options.get(key, ())
        if any(i >= size for i in (ids if isinstance(ids, tuple) else [ids])):
            raise InputError(
                f"{source.folder}: generation config: an id of {key} is not one of "
                f"the {size} of the model; use the files that belong together"
            )
    return DecodingOptions.of(options), tuple(notes)


def options_of_generation_config(
    generation: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    *,
    pad_id: int | None = None,
    end_id: int | None = None,
    longest: int | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """The decoding options that a folder of `transformers` asks for, and what is lost.

    Args:
        generation: the content of `generation_config.json`; `{}` without one.
        config: the content of `config.json`, which holds the same keys in folders of
            before 2023. Where there is a `generation`, `transformers` takes the end id
            alone from it.
        pad_id: of the padding, which no search here writes anyway.
        end_id: of the model's end; default: `eos_token_id`.
        longest: the most tokens that the model can write. A `max_length` as large as
            that is no limit, and is left out: a translation has then at most 50 tokens
            more than its source.

    Returns:
        Fields of `DecodingOptions`, pieces as ids, and a sentence about each key that
        means something else here, or nothing.

    Raises:
        InputError: where a value is not of the kind that it should be.

    Example:

    >>> from keras_transformer.importing.generation_config import (
    ...     options_of_generation_config
    ... )
    >>> options, notes = options_of_generation_config(
    ...     {"num_beams": 5, "length_penalty": 1.1, "top_k": 50, "max_length": 200}
    ... )
    >>> options["beam_size"], options["normalization"], options["max_length"]
    (5, 'power', 199)
    >>> notes
    []
    """
    older = () if generation else (*_TAKEN.split(), *_WITHOUT_A_PLACE)
    given = {key: (config or {}).get(key) for key in (*older, "eos_token_id")}
    given |= {key: value for key, value in generation.items() if value is not None}
    given = {key: value for key, value in given.items() if value is not None}
    values = _Values(given)
    notes: list[str] = []
    beams = values.whole("num_beams", 1)
    options: dict[str, Any] = {"beam_size": beams, **_normalization(values, notes)}
    if beams > 1:
        options |= _of_beams(values, given, notes)
    options |= _lengths(values, longest, notes)
    if size := values.whole("no_repeat_ngram_size", 0):
        options["no_repeat_ngram_size"] = size
    if (factor := values.number("repetition_penalty", 1.0)) != 1.0:
        options["repetition_penalty"] = factor
        if beams > 1:
            notes.append(
                "repetition_penalty: a beam search there changes log-probabilities, "
                "here logits"
            )
        start = (config or {}).get("decoder_start_token_id")
        start = given.get("decoder_start_token_id", start)
        if start == (given.get("eos_token_id") if end_id is None else end_id):
            notes.append(
                "repetition_penalty: there it counts the start token, which is the end "
                "token, as one that has come; here translations may end sooner"
            )
    options |= _forbidden(values, given, pad_id, notes)
    options |= _forced(values, given, end_id, notes)
    notes += _lost(given)
    _check(options)
    return options, notes


class _Values:
    """The values of a config, each of its kind."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def whole(self, key: str, default: Any = None) -> Any:
        """A whole number, or the default where there is none."""
        return self._of(key, default, "a whole number", lambda v: isinstance(v, int))

    def number(self, key: str, default: float) -> float:
        """A number."""
        value = self._of(key, default, "a number", lambda v: isinstance(v, int | float))
        try:
            return float(value)
        except OverflowError:
            raise _wrong(key, value, "a number") from None

    def ids(self, key: str) -> list[int]:
        """A list of ids; one by itself is such a list."""
        value = self._given.get(key, [])
        value = value if isinstance(value, list) else [value]
        if not all(_is_id(token) for token in value):
            raise _wrong(key, value, "an id, or a list of ids")
        return value

    def _of(
        self, key: str, default: Any, kind: str, is_right: Callable[[Any], bool]
    ) -> Any:
        value = self._given.get(key, default)
        if value is not default and (isinstance(value, bool) or not is_right(value)):
            raise _wrong(key, value, kind)
        return value


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _wrong(key: str, value: Any, kind: str) -> InputError:
    return InputError(
        f"generation config: {key} is {value!r:.{_SHOWN}}, not {kind}; correct it, or "
        f"leave it out"
    )


def _check(options: Mapping[str, Any]) -> None:
    """Refuses values out of bounds."""
    try:
        DecodingOptions.of(options)
    except InputError as error:
        raise InputError(f"generation config: {error}") from None


def _normalization(values: _Values, notes: list[str]) -> dict[str, Any]:
    alpha = values.number("length_penalty", 1.0)
    if alpha == 1.0:
        return {"normalization": "average"}
    if alpha <= 0.0:
        if alpha < 0.0:
            notes.append(f"length_penalty {alpha:g}: 0 is the least here, and is taken")
        return {"normalization": "none"}
    return {"normalization": "power", "length_penalty": alpha}


def _of_beams(
    values: _Values, given: Mapping[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Options of a search with several hypotheses."""
    options: dict[str, Any] = {}
    early_stopping = given.get("early_stopping", False)
    if early_stopping not in (True, False, "never"):
        raise _wrong("early_stopping", early_stopping, 'true, false or "never"')
    if early_stopping is True:
        options["patience"] = 1.0
    if given.get("early_stopping") is False:
        notes.append(
            "early_stopping false: a heuristic there; here a search goes on until "
            "nothing better can come"
        )
    groups = values.whole("num_beam_groups", 1)
    penalty = values.number("diversity_penalty", 0.0)
    if groups > 1 and penalty > 0:
        options |= {"num_beam_groups": groups, "diversity_penalty": penalty}
    elif groups > 1 or penalty > 0:
        notes.append(
            "num_beam_groups without diversity_penalty, or the reverse: unused"
        )
    return options


def _lengths(values: _Values, longest: int | None, notes: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    most = values.whole("max_new_tokens")
    if most is None and (with_start := values.whole("max_length")) is not None:
        most = with_start - 1  # it counts the start token
    if most is not None and (longest is None or most < longest):
        options["max_length"] = most
    # The end included, as here: it is allowed as the n-th token.
    least = values.whole("min_length", 0)
    if (free := values.whole("min_new_tokens")) is not None:
        least = max(least, free + 1)
    bound = options.get("max_length", longest)
    if bound is not None and least > bound:
        notes.append(f"min_length {least}: more than the longest translation; unused")
    elif least > 1:
        options["min_length"] = least
    return options


def _forbidden(
    values: _Values, given: Mapping[str, Any], pad_id: int | None, notes: list[str]
) -> dict[str, Any]:
    words = given.get("bad_words_ids", [])
    if not isinstance(words, list) or not all(isinstance(w, list) for w in words):
        raise _wrong("bad_words_ids", words, "a list of lists of ids")
    single = [word[0] for word in words if len(word) == 1]
    if not all(map(_is_id, single)):
        raise _wrong("bad_words_ids", words, "a list of lists of ids")
    if several := sum(len(word) > 1 for word in words):
        notes.append(
            f"bad_words_ids: {several} of several pieces; single ones are kept"
        )
    ids = {*single, *values.ids("suppress_tokens")} - {pad_id}
    if not ids:
        return {}
    if given.get("renormalize_logits") is True:
        notes.append(
            "renormalize_logits: what is forbidden keeps its share of probability "
            "here, which lowers scores by the same for all that may come at a step"
        )
    return {"suppressed_tokens": tuple(sorted(ids))}


def _forced(
    values: _Values, given: Mapping[str, Any], end_id: int | None, notes: list[str]
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    starts = values.ids("forced_bos_token_id")
    if len(starts) > 1:
        raise _wrong("forced_bos_token_id", starts, "one id")
    if starts:
        options["forced_start"] = starts[0]
    ends = values.ids("forced_eos_token_id")
    named = values.ids("eos_token_id")
    known = named if end_id is None else [end_id]
    if len(named) > 1 or (named and named != known):
        notes.append(
            f"eos_token_id: of the ends {named!s:.{_SHOWN}} only the model's own ends "
            f"a translation here"
        )
    if ends and (not known or ends[0] in known):
        options["forced_end"] = True
    elif ends:
        notes.append(f"forced_eos_token_id {ends[0]}: not the end token; unused")
    return options


def _lost(given: Mapping[str, Any]) -> Iterator[str]:
    """A sentence about each key that has no place here."""
    if given.get("do_sample") is True:
        drawn = [
            f"{key} {given[key]!r:.{_SHOWN}}" for key in _OF_SAMPLES if key in given
        ]
        yield (
            f"do_sample{', '.join(['', *drawn])}: nothing is drawn here unless the "
            f"options sampling, temperature, top_k and top_p say so"
        )
    known = {*_TAKEN.split(), *_WITHOUT_EFFECT.split(), *_OF_SAMPLES}
    for key, value in given.items():
        if key in known or value in _WITHOUT_A_PLACE.get(key, ()):
            continue
        if key in _WITHOUT_A_PLACE:
            yield f"{key}: searches here have no such rule; unused"
        else:
            yield f"{escaped(key)[:_SHOWN]}: unknown; unused"
