"""Several models that translate together, behind the contract of one.

B batch, S source positions, T target positions, D hidden_dim, W beam width, V target
vocabulary, H heads.
"""

from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.models.word_attention import word_attention

COMBINATIONS = ("probabilities", "log_probabilities")
_SHARED = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "source_end",
    "pad_id",
    "start_id",
    "end_id",
)


class Ensemble:
    """The mean of what several models say of the next token.

    It has what a search, a score and a `Translator` ask of a model: `config`, of the
    member that takes the shortest sentences, `encode`, `start` and `decode_step`, and a
    call that gives logits (B, T, V). It does not learn.

    Args:
        models: of this package; they may differ in all but vocabularies and special
            ids. That the tokenizers are the same, their caller knows.
        combination: `"probabilities"`: the mean of the members' probabilities, so that
            one member suffices to make a token possible; `"log_probabilities"`: the
            mean of their logarithms, made probabilities again, so that one suffices to
            make it impossible.

    Raises:
        InputError: without models, or where they do not share a vocabulary.

    Example:

    >>> import numpy as np
    >>> import keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=100)
    >>> members = [kt.Transformer(config), kt.Transformer(config)]
    >>> ensemble = kt.models.Ensemble(members)
    >>> ids = np.array([[5, 6, 2]])
    >>> tuple(ensemble({"source": ids, "target": ids}).shape)
    (1, 3, 100)

    Reference: Sutskever et al., 2014, https://arxiv.org/abs/1409.3215, section 3.6.
    """

    def __init__(self, models, combination="probabilities"):
        self.models = list(models)
        if not self.models:
            raise InputError("an ensemble needs models; give at least one")
        if combination not in COMBINATIONS:
            raise InputError(
                f"combination must be one of {', '.join(COMBINATIONS)}, got "
                f"{combination!r}"
            )
        self.combination = combination
        configs = [model.config for model in self.models]
        for name in _SHARED:
            values = [getattr(config, name) for config in configs]
            if len(set(values)) > 1:
                values = ", ".join(map(str, values))
                raise InputError(
                    f"the models of an ensemble have {name} {values}; give models that "
                    f"share one vocabulary"
                )
        self.config = min(configs, key=lambda config: config.longest_sequence)

    @property
    def variables(self):
        """Those of all members."""
        return [variable for model in self.models for variable in model.variables]

    def __call__(self, inputs, training=None):
        """Logits (B, T, V) of `{"source": (B, S), "target": (B, T)}`."""
        return self._mean([model(inputs, training=training) for model in self.models])

    def encode(self, source, length=None):
        """Of each member the memory (B, S, D); the source mask (B, S)."""
        found = [model.encode(source, length=length) for model in self.models]
        memories, (mask, *_) = zip(*found, strict=True)
        return list(memories), mask

    def decode(self, target, memory, source_mask, return_attention_weights=False):
        """Of each member the hidden states (B, T, D), which `logits` takes.

        With `return_attention_weights`, also None, and in a list the mean of the
        members' attention (B, 1, T, S), each the mean of the heads of its last layer
        but one.
        """
        members = list(zip(self.models, memory, strict=True))
        if not return_attention_weights:
            return [model.decode(target, each, source_mask) for model, each in members]
        found = [
            model.decode(target, each, source_mask, return_attention_weights=True)
            for model, each in members
        ]
        hidden, _, weights = zip(*found, strict=True)
        return list(hidden), None, _mean_attention(weights)

    def logits(self, hidden):
        """(B, T, V) of what `decode` gives."""
        pairs = zip(self.models, hidden, strict=True)
        return self._mean([model.logits(each) for model, each in pairs])

    def start(self, memory, source_mask, beam_size, length):
        """Constants and cache of all members; their bias is one."""
        return self._start("start", memory, source_mask, beam_size, length)

    def start_search(self, memory, source_mask, beam_size, length):
        """As `start`, see `TranslationModel.start_search`."""
        return self._start("start_search", memory, source_mask, beam_size, length)

    def reorder(self, cache, beams):
        """The caches of all members, see `TranslationModel.reorder`."""
        pairs = zip(self.models, cache, strict=True)
        return [model.reorder(each, beams) for model, each in pairs]

    def _start(self, method, memory, *arguments):
        started = [
            getattr(model, method)(each, *arguments)
            for model, each in zip(self.models, memory, strict=True)
        ]
        constants, cache = zip(*started, strict=True)
        bias = constants[0]["bias"]
        own = [{name: c[name] for name in c if name != "bias"} for c in constants]
        return {"members": own, "bias": bias}, list(cache)

    def decode_step(
        self, tokens, position, constants, cache, return_attention_weights=False
    ):
        """Logits (B, W, V) and cache; attention (B, 1, W, S) as `decode` gives it."""
        options = {"return_attention_weights": True} if return_attention_weights else {}
        found = []
        for model, own, its in zip(
            self.models, constants["members"], cache, strict=True
        ):
            own = {**own, "bias": constants["bias"]}
            found.append(model.decode_step(tokens, position, own, its, **options))
        logits, caches, *weights = zip(*found, strict=True)
        attention = [_mean_attention(layers) for layers in weights]
        return self._mean(logits), list(caches), *attention

    def _mean(self, logits):
        logs = ops.stack([ops.log_softmax(each, axis=-1) for each in logits])
        if self.combination == "probabilities":
            return ops.logsumexp(logs, axis=0) - ops.log(float(len(logits)))
        return ops.log_softmax(ops.mean(logs, axis=0), axis=-1)


def _mean_attention(weights):
    maps = ops.stack([word_attention(layers) for layers in weights])
    return [ops.expand_dims(ops.mean(maps, axis=0), 1)]
