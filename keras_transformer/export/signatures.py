"""Text in, text out as one TensorFlow graph: tokenizer, model, search, detokenizer.

B batch, S source positions, T target positions, D hidden_dim, W beam width, R
hypotheses a row, L most tokens.

Every input and output has B as its first axis, so that a server may put requests
together and take the answers apart. For the same reason what is too long is cut and
marked, and what is no id replaced and marked, not refused: an error would hit the other
requests of the batch.
"""

import functools
import hashlib
import sys
from collections.abc import Callable
from typing import Any
from typing import TypeAlias

import tensorflow as tf
import tensorflow_text

from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.export.description import longest_source
from keras_transformer.export.description import n_best_options
from keras_transformer.models.scoring import token_scores
from keras_transformer.models.search import EXTRA_LENGTH
from keras_transformer.models.search import search
from keras_transformer.models.weights import named_weights
from keras_transformer.tensors import Tensor
from keras_transformer.translator import Translator

_Function: TypeAlias = Callable[..., dict[str, Tensor]]

#: The score where there is no hypothesis: JSON has no infinity.
NO_SCORE = tf.float32.min
_NOTHING = r"\x00\x{200c}\x{200d}"  # NUL and joiners: nothing, where they are alone
_TEXT = tf.TensorSpec((None,), tf.string)
_IDS = tf.TensorSpec((None, None), tf.int32)
_LENGTHS = tf.TensorSpec((None,), tf.int32)
_BLANK = tf.TensorSpec((None,), tf.bool)


class Signatures:
    """What a SavedModel of a translator can be asked.

    `module` holds the variables and tokenizers and must be saved with the functions.

    Args:
        translator: on TensorFlow.
        options: of the search, with ids in place of pieces. Of `beam_size` 1 it is
            greedy search; `translate_greedy` is without what needs more.
    """

    def __init__(self, translator: Translator, options: DecodingOptions) -> None:
        source, target = translator.tokenizer, translator.target_tokenizer
        tokenizer = _tokenizer(source)
        shared = source.model == target.model
        self.module = tf.Module(name="translator")
        self.module.weights = [
            variable.value for variable in named_weights(translator.model).values()
        ]
        self.module.source_tokenizer = tokenizer
        self.module.target_tokenizer = tokenizer if shared else _tokenizer(target)
        self._model = translator.model
        self._unknown_id = source.unknown_id
        self._options = options
        self._longest = longest_source(translator.model.config, options)
        self._num_forced = 0 if options.forced_start is None else 1
        direction = translator.direction()
        self._prefix = direction.prefix
        self._start_id = direction.start_id
        #: Ids before and after those of a text, of either side.
        self._around = {
            "source": (direction.source_before, direction.source_after),
            "target": ((), (translator.model.config.end_id,)),
        }
        self._searches: dict[Any, Any] = {}

    def functions(self) -> dict[str, Any]:
        """`{name of a signature: concrete function}`."""
        text, ids, lengths = _TEXT, _IDS, _LENGTHS
        greedy = self._options.updated(GREEDY)
        functions: dict[str, tuple[_Function, dict[str, tf.TensorSpec]]] = {
            "serving_default": (self._translate(self._options), {"text": text}),
            "translate_greedy": (self._translate(greedy), {"text": text}),
            "translate_n_best": (self._translate_n_best, {"text": text}),
            "translate_ids": (self._translate_ids, {"ids": ids, "lengths": lengths}),
            "encode": (self._encode, {"text": text}),
            "score": (self._score, {"source": text, "target": text}),
        }
        return {
            name: tf.function(_filled(function), autograph=False).get_concrete_function(
                **{key: _named(spec, key) for key, spec in inputs.items()}
            )
            for name, (function, inputs) in functions.items()
        }

    # === Signatures ===

    def _translate(self, options: DecodingOptions) -> _Function:
        def translate(text: Tensor) -> dict[str, Tensor]:
            source, lengths, truncated, blank = self._read(text, self._longest)
            result = self._search(source, lengths, blank, options)
            return {
                "translation": self._text(result)[:, 0],
                "score": result.scores[:, 0],
                "finished": result.finished[:, 0],
                "truncated": truncated,
            }

        return translate

    def _translate_n_best(self, text: Tensor) -> dict[str, Tensor]:
        source, lengths, truncated, blank = self._read(text, self._longest)
        options = n_best_options(self._options)
        result = self._search(source, lengths, blank, options)
        return {
            "translations": self._text(result),  # (B, R), as all but the last
            "scores": result.scores,
            "log_probabilities": result.log_probabilities,
            "num_tokens": result.lengths,
            "finished": result.finished,
            "truncated": truncated,
        }

    def _translate_ids(self, ids: Tensor, lengths: Tensor) -> dict[str, Tensor]:
        ids, replaced = self._known(ids, lengths)
        source, lengths, truncated = self._close(ids, lengths, "source", self._longest)
        blank = lengths == 0
        result = self._search(source, lengths, blank, self._options)
        longest = tf.reduce_max(tf.concat([[0], result.lengths[:, 0]], 0))
        return {
            "ids": result.tokens[:, 0, :longest],
            "num_tokens": result.lengths[:, 0],
            "score": result.scores[:, 0],
            "finished": result.finished[:, 0],
            "truncated": truncated,
            "replaced": replaced,
        }

    def _encode(self, text: Tensor) -> dict[str, Tensor]:
        longest = self._model.config.longest_sequence
        source, _, truncated, _ = self._read(text, longest)
        encoded = self._model.encode(source)
        return {
            "memory": encoded.memory,
            "mask": encoded.source_mask,
            "truncated": truncated,
        }

    def _score(self, source: Tensor, target: Tensor) -> dict[str, Tensor]:
        ids, _, source_truncated = self._tokenize(source, "source")
        labels, lengths, target_truncated = self._tokenize(target, "target")
        if self._num_forced:
            start = tf.fill((tf.shape(labels)[0], 1), self._options.forced_start)
            labels = tf.concat([start, labels], 1)
        first = self._first(tf.shape(labels)[0]).values()
        scores = token_scores(self._model, ids, labels, *first)
        return {
            "log_probability": tf.reduce_sum(scores[:, self._num_forced :], 1),
            "num_tokens": lengths + 1,
            "truncated": tf.logical_or(source_truncated, target_truncated),
        }

    def _first(self, rows: Tensor) -> dict[str, Tensor]:
        """The first inputs of the decoder, where they are not the model's."""
        if self._start_id == self._model.config.start_id:
            return {}
        return {"start": tf.fill((rows,), self._start_id)}

    # === Text to ids ===

    def _known(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Ids (B, S), unknown where they were no piece of text, and where so (B,)."""
        config = self._model.config
        known = tf.logical_and(ids >= 0, ids < config.source_vocabulary_size)
        for special in (config.pad_id, config.start_id, config.end_id):
            known = tf.logical_and(known, ids != special)
        counts = tf.sequence_mask(lengths, tf.shape(ids)[1])
        foreign = tf.logical_and(counts, tf.logical_not(known))
        return tf.where(foreign, self._unknown_id, ids), tf.reduce_any(foreign, 1)

    def _read(
        self, text: Tensor, longest: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Ids (B, S), tokens (B,) without the end, cut (B,), blank (B,) of sources."""
        tokenizer = self.module.source_tokenizer
        ids = tokenizer.tokenize(text)
        # What the tokenizer's own normalization leaves, as `Tokenizer.is_empty` has it.
        kept = tokenizer.detokenize(ids)
        form = f"[{_white_space()}{_NOTHING}]*"
        blank = tf.strings.regex_full_match(kept, form)
        # A letter that the tokenizer does not know comes back as another one.
        blank = tf.logical_or(blank, tf.strings.regex_full_match(text, form))
        if self._prefix:
            ids = tokenizer.tokenize(tf.strings.join([self._prefix, text]))
        lengths = tf.where(blank, 0, tf.cast(ids.row_lengths(), tf.int32))
        arguments = ids.to_tensor(), lengths, "source", longest
        source, lengths, truncated = self._close(*arguments)
        return source, lengths, truncated, blank

    def _tokenize(self, text: Tensor, side: str) -> tuple[Tensor, Tensor, Tensor]:
        """Ids (B, S), tokens (B,) without the end, cut (B,)."""
        tokenizer = getattr(self.module, f"{side}_tokenizer")
        if self._prefix and side == "source":
            text = tf.strings.join([self._prefix, text])
        ids = tokenizer.tokenize(text)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        longest = self._model.config.longest_sequence
        longest -= self._num_forced if side == "target" else 0
        return self._close(ids.to_tensor(), lengths, side, longest)

    def _close(
        self, ids: Tensor, lengths: Tensor, side: str, longest: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cuts ids (B, S) to at most `longest`, and writes what stands around them."""
        config = self._model.config
        before, after = self._around[side]
        ids = ids[:, : longest - len(before) - len(after)]
        whole = lengths
        lengths = tf.clip_by_value(lengths, 0, tf.shape(ids)[1])
        truncated = whole != lengths  # a client's may be above the width, or below 0
        ids = tf.pad(ids, [[0, 0], [len(before), max(len(after), 1)]])[:, :longest]
        positions = tf.range(tf.shape(ids)[1])[tf.newaxis]  # (1, S)
        ends = len(before) + lengths[:, tf.newaxis]
        ids = tf.where(positions < ends, ids, config.pad_id)
        for place, token in enumerate(before):
            ids = tf.where(positions == place, token, ids)
        for place, token in enumerate(after):
            ids = tf.where(positions == ends + place, token, ids)
        if not (before or after):
            # A row without any token would be fully masked: it gets an end instead.
            is_bare = tf.logical_and(positions == 0, ends == 0)
            ids = tf.where(is_bare, config.end_id, ids)
        return ids, lengths, truncated

    # === Search ===

    def _search(
        self, source: Tensor, lengths: Tensor, blank: Tensor, options: DecodingOptions
    ) -> SearchResult:
        """`SearchResult`; an empty translation for each blank row."""
        if options not in self._searches:  # signatures share one: a smaller file
            self._searches[options] = tf.function(
                lambda ids, lengths, blank: self._searched(
                    ids, lengths, blank, options
                ),
                autograph=False,
                input_signature=(_IDS, _LENGTHS, _BLANK),
            )
        return self._searches[options](source, lengths, blank)

    def _searched(
        self, source: Tensor, lengths: Tensor, blank: Tensor, options: DecodingOptions
    ) -> SearchResult:
        limits = lengths + EXTRA_LENGTH
        if options.max_length is not None:
            limits = tf.ones_like(lengths) * options.max_length
        limits = tf.maximum(limits, options.min_length)
        limits = tf.minimum(limits, self._model.config.longest_sequence)
        limits = tf.where(blank, 0, limits)
        length = tf.reduce_max(tf.concat([[1], limits], 0))
        first = self._first(tf.shape(limits)[0])
        arguments = self._model, source, limits, first
        result = search(*arguments, length=length, options=options)
        is_nan = tf.math.is_nan(result.scores)
        is_filled = tf.logical_and(result.lengths > 0, tf.logical_not(is_nan))
        is_best = tf.range(options.top_beams) == 0
        empty = tf.logical_and(blank[:, tf.newaxis], is_best)  # (B, R)
        missing = tf.where(empty, 0.0, NO_SCORE)
        missing = tf.where(is_nan, result.scores, missing)
        return result._replace(
            lengths=tf.where(is_nan, 0, result.lengths),
            log_probabilities=tf.where(is_filled, result.log_probabilities, missing),
            scores=tf.where(is_filled, result.scores, missing),
            finished=tf.logical_or(
                tf.logical_and(result.finished, tf.logical_not(is_nan)), empty
            ),
        )

    def _text(self, result: SearchResult) -> Tensor:
        """The hypotheses (B, R) as text of one line each."""
        shape, length = tf.shape(result.lengths), tf.shape(result.tokens)[2]
        tokens = tf.reshape(result.tokens, (shape[0] * shape[1], length))
        lengths = tf.reshape(result.lengths, (-1,))
        lengths -= tf.reshape(tf.cast(result.finished, tf.int32), (-1,))
        mask = tf.sequence_mask(tf.maximum(lengths, 0), length)
        mask = tf.logical_and(mask, tf.range(length) >= self._num_forced)
        text = self.module.target_tokenizer.detokenize(
            tf.ragged.boolean_mask(tokens, mask)
        )
        return tf.reshape(tf.strings.regex_replace(text, "\n", " "), shape)


def _filled(
    function: Callable[..., dict[str, Tensor]],
) -> _Function:
    """The function, with one row in place of none: which its outputs lose again.

    TensorFlow's convolution with oneDNN gives no rows a wrong shape.
    """

    def run(**inputs: Tensor) -> dict[str, Tensor]:
        rows = tf.shape(next(iter(inputs.values())))[0]
        missing = tf.cast(rows == 0, tf.int32)
        for name, value in inputs.items():
            shape = tf.concat([[missing], tf.shape(value)[1:]], 0)
            inputs[name] = tf.concat([value, tf.zeros(shape, value.dtype)], 0)
        return {name: value[:rows] for name, value in function(**inputs).items()}

    return run


def _tokenizer(tokenizer: Tokenizer) -> tensorflow_text.SentencepieceTokenizer:
    # Tokenizers of one name share their pieces where a graph is loaded.
    name = f"tokenizer_{hashlib.sha256(tokenizer.model).hexdigest()[:16]}"
    return tensorflow_text.SentencepieceTokenizer(
        tokenizer.model, out_type=tf.int32, name=name
    )


def _named(spec: tf.TensorSpec, name: str) -> tf.TensorSpec:
    return tf.TensorSpec(spec.shape, spec.dtype, name=name)


@functools.cache
def _white_space() -> str:
    """What `str.isspace` holds for white space, for the brackets of a pattern."""
    return "".join(c for c in map(chr, range(sys.maxunicode + 1)) if c.isspace())
