"""Attention maps: the weights of a sentence and its translation, with their tokens.

T target positions, S source positions, N layers, H heads.
"""

import dataclasses
from typing import Any
from typing import Literal

import numpy as np
from keras import ops

from keras_transformer.arguments import check_lengths
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.scoring import attention
from keras_transformer.models.word_attention import require_attention
from keras_transformer.models.word_attention import word_layer
from keras_transformer.translation.rereading import check_attention
from keras_transformer.translation.source_lines import SourceLines
from keras_transformer.translator import Translator
from keras_transformer.visualization.tokens import END
from keras_transformer.visualization.tokens import START
from keras_transformer.visualization.tokens import Tokens

#: Kind of attention -> its title.
TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
}
#: Kind -> the meaning of its rows and columns.
AXES = {
    "encoder": ("source", "source"),
    "decoder": ("written next", "written before"),
    "cross": ("translation", "source"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention weights of all heads for one sentence and its translation.

    Layers and heads are counted from 0; negative numbers count from the end.

    Args:
        source: the S tokens that the encoder reads.
        target: the T tokens that the decoder writes, with the end token if the
            translation is complete.
        weights: float32, for the kinds that the model has: `"encoder"` (N, H, S, S),
            `"decoder"` (N, H, T, T) and `"cross"` (N, H, T, S). Row t of T belongs to
            the position that predicts target t.
    """

    source: Tokens
    target: Tokens
    weights: dict[str, np.ndarray]

    def tokens(self, kind: str) -> tuple[Tokens, Tokens]:
        """The tokens of the rows and of the columns.

        A row is a token that is read (encoder) or predicted (decoder, cross); the
        columns of `"decoder"` are its inputs: the start, then the target without its
        last token.

        Raises:
            InputError: where the model has no such attention.
        """
        self._check(kind)
        if kind == "encoder":
            return self.source, self.source
        if kind == "cross":
            return self.target, self.source
        return self.target, Tokens((START, *self.target.pieces[:-1]))

    def heads(
        self,
        kind: str = "cross",
        layer: int = -1,
        head: int | Literal["mean"] | None = None,
    ) -> dict[str, np.ndarray]:
        """The weights of a layer's heads: name -> (rows, columns), rows sum to 1.

        Args:
            kind: `"encoder"`, `"decoder"` or `"cross"`.
            layer: the number of the layer.
            head: the number of the head; `"mean"` for the mean of all; None for all.

        Raises:
            InputError: where there is no such kind, layer or head.
        """
        self._check(kind)
        weights = self.weights[kind]
        weights = weights[_index("layer", layer, len(weights))]
        if head == "mean":
            return {"mean of all heads": weights.mean(axis=0)}
        numbers = range(len(weights))
        if head is not None:
            numbers = [_index("head", head, len(weights))]
        return {f"head {number}": weights[number] for number in numbers}

    def word_weights(
        self, layer: int | None = None, head: int | Literal["mean"] = "mean"
    ) -> tuple[list[str], list[str], np.ndarray]:
        """Cross-attention between words.

        The weights of a source word's pieces are summed, those of a target word's
        pieces averaged. White space belongs to the word that follows it.

        Args:
            layer: the number of the layer; default: the last but one, which follows
                words best.
            head: the number of the head, or `"mean"`.

        Returns:
            Target words and source words, with the ends, and the weights
            (target words, source words), whose rows sum to 1.

        Raises:
            InputError: where there is no such layer or head.

        Reference: Clark et al., 2019, https://arxiv.org/abs/1906.04341, section 4.1;
        Garg et al., 2019, https://arxiv.org/abs/1909.02074, section 3.
        """
        self._check("cross")
        if layer is None:
            layer = word_layer(len(self.weights["cross"]))
        (weights,) = self.heads("cross", layer, head).values()
        target_words, rows = _words(self.target)
        source_words, columns = _words(self.source)
        weights = rows.T @ weights @ columns / rows.sum(axis=0)[:, None]
        return target_words, source_words, weights

    def _check(self, kind: str) -> None:
        if kind not in self.weights:
            raise InputError(
                f"this model has no attention of the kind {str(kind)!r}; choose one of "
                f"{', '.join(self.weights)}"
            )


def attention_maps(
    translator: Translator,
    text: str,
    translation: str | None = None,
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    **options: Any,
) -> AttentionMaps:
    """The attention weights of a model for a sentence and its translation.

    Args:
        translator: the translator of one model with attention to the source.
        text: one sentence.
        translation: its translation; default: the model's.
        source_language: of a multilingual model; default: the translator's.
        target_language: in the same way.
        options: fields of `DecodingOptions` for the search.

    Raises:
        InputError: where a text is empty or too long, or the model has no attention
            or is an ensemble.

    Example:

    >>> import keras_transformer as kt
    >>> tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
    >>> translator = kt.Translator(kt.Transformer(config), tokenizer)
    >>> maps = kt.visualization.attention_maps(translator, "a house", "ein Haus")
    >>> maps.source.labels[-1], maps.target.labels[-1]
    ('⟨end⟩', '⟨end⟩')
    >>> maps.weights["cross"].shape[:2] == (config.num_decoder_layers, config.num_heads)
    True

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, figures 3 to 5.
    """
    model, config = translator.model, translator.model.config
    check_model(model)
    if translator.tokenizer.is_empty(text):
        raise InputError("the text is empty; give a sentence")
    if translation is not None and translator.target_tokenizer.is_empty(translation):
        raise InputError("the translation is empty; give a sentence, or leave it out")
    lines = SourceLines(translator.tokenizer, translator.target_tokenizer, config)
    around = [translator.direction(source_language, target_language)]
    if translation is None:
        (whole,) = lines.encode([text], directions=around)
        check_lengths([len(whole)], config.longest_sequence)
        # What the model reads of it: a line may be cut, or split.
        keys = options.keys() & {"long_lines", "max_source_length"}
        chosen = translator.decoding.updated({key: options[key] for key in keys})
        split = options.get("split_sentences", False)
        pieces, _ = lines.sentences([text], None, 1, chosen, around, split=split)
        check_attention(model, pieces, weights=True)
        ((_, sentence),) = pieces[0]
        source = sentence.ids
        hypothesis: Any = translator.translate(
            [text],
            source_language=source_language,
            target_language=target_language,
            return_details=True,
            **options,
        )
        target = hypothesis[0][0].ids
    else:
        (source,), (target,) = lines.encode_pairs([text], [translation], around)
    if not target:
        raise InputError("the model's translation is empty; give a translation")
    # Not compiled: that would take longer than one sentence.
    rows = [np.array([row], np.int32) for row in (source, target)]
    if around[0].start_id != config.start_id:
        rows.append(np.array([around[0].start_id], np.int32))
    weights = {
        kind: ops.convert_to_numpy(layers)[0]
        for kind, layers in attention(model, *map(ops.convert_to_tensor, rows)).items()
    }
    return AttentionMaps(
        Tokens.of(translator.tokenizer, source, config),
        Tokens.of(translator.target_tokenizer, target, config),
        weights,
    )


def check_model(model: Any) -> None:
    """Refuses a model without attention weights to show.

    Raises:
        InputError: where it does not attend to the source, or is an ensemble.
    """
    if isinstance(model, Ensemble):
        raise InputError(
            "attention weights belong to one model, but this is an ensemble; use "
            "one of its members"
        )
    require_attention(model, "attention maps need")


def _index(name: str, number: int, count: int) -> int:
    if not -count <= number < count:
        raise InputError(
            f"there is no {name} {number}; choose one from 0 to {count - 1}"
        )
    return number % count


def _words(tokens: Tokens) -> tuple[list[str], np.ndarray]:
    """Words with the end tokens, and the membership of tokens: (tokens, words)."""
    keys = [
        label if piece in (START, END) else number
        for piece, label, number in zip(
            tokens.pieces, tokens.labels, tokens.numbers, strict=True
        )
    ]
    for place in reversed(range(len(keys) - 1)):
        if keys[place] is None and isinstance(keys[place + 1], int):
            keys[place] = keys[place + 1]
    for place in range(1, len(keys)):
        if keys[place] is None:
            keys[place] = keys[place - 1]
    words = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    names = [tokens.words[key] if isinstance(key, int) else key or "␣" for key in words]
    members = np.zeros((len(keys), len(names)), np.float32)
    members[np.arange(len(keys)), [words[key] for key in keys]] = 1.0
    return names, members
