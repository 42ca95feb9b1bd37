"""Base of models that check the ids given to `fit`, `evaluate` and `predict`.

B batch, S source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import keras

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models.checked_data import CheckedData

_PACKAGE = __name__.partition(".")[0] + "."


class CheckedModel(keras.Model):
    """A `keras.Model` that checks its ids (B, S) and (B, T) before a step.

    Arrays, `PyDataset`, generators and `tf.data.Dataset` are checked on the host. Other
    sources, such as a PyTorch `DataLoader`, and calls in a user's compiled program are
    not: there the backend decides what an id outside of the vocabulary gives.

    A subclass has a `config`.

    Attributes:
        is_int8: whether `quantize` has made its matrices int8.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.4.
    """

    is_int8 = False
    #: The padding by which each compiled metric counts tokens, `{name: pad_id}`.
    counted_padding: Mapping[str, int] = {}

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *arguments: Any,
        validation_data: Any = None,
        **options: Any,
    ) -> Any:
        """`keras.Model.fit`.

        Raises:
            InputError: where `TokenBatches` have other special ids than the model, or
                data on the host hold ids outside of its vocabulary, are no dictionary,
                lack labels, or have other shapes than they must, or `class_weight` is
                given.
        """
        backends.note_work()
        self._refuse_int8()
        if options.get("class_weight") is not None:
            raise InputError(
                "class_weight is for one label a row, and a row has one for each "
                "position here; give sample_weight, (batch, positions)"
            )
        checked = self._checked_data(supervised=True)
        x = checked.of(x, y, options.get("sample_weight"))
        if isinstance(validation_data, (tuple, list)) and len(validation_data) > 1:
            checked.of(*validation_data[:3])
        elif validation_data is not None:
            validation_data = checked.of(validation_data)
        if validation_data is not None:  # else it may be among the arguments
            options["validation_data"] = validation_data
        with backends.feeding(), checked.told():
            return super().fit(x, y, *arguments, **options)

    def evaluate(
        self, x: Any = None, y: Any = None, *arguments: Any, **options: Any
    ) -> Any:
        """`keras.Model.evaluate`; see `fit`."""
        backends.note_work()
        checked = self._checked_data(supervised=True)
        x = checked.of(x, y, options.get("sample_weight"))
        with backends.feeding(), checked.told():
            return super().evaluate(x, y, *arguments, **options)

    def predict(self, x: Any, *arguments: Any, **options: Any) -> Any:
        """`keras.Model.predict`; see `fit`."""
        checked = self._checked_data()
        x = checked.of(x)
        with checked.told():
            return super().predict(x, *arguments, **options)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        """`keras.Model.train_on_batch`; see `fit`."""
        self._refuse_int8()
        self._checked_data(supervised=True).of(x, y, sample_weight)
        return super().train_on_batch(x, y, sample_weight, *arguments, **options)

    def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *arguments: Any,
        **options: Any,
    ) -> Any:
        """`keras.Model.test_on_batch`; see `fit`."""
        self._checked_data(supervised=True).of(x, y, sample_weight)
        return super().test_on_batch(x, y, sample_weight, *arguments, **options)

    def predict_on_batch(self, x: Any) -> Any:
        """`keras.Model.predict_on_batch`; see `fit`."""
        return super().predict_on_batch(self._checked_data().of(x))

    def data_check(self) -> Callable[[Any], Any]:
        """The check that `fit` makes of each batch: a function that returns it.

        For data sets that check their batches earlier; they have `is_checked = True`.
        """
        return self._checked_data(supervised=True).batch

    def _refuse_int8(self) -> None:
        if self.is_int8:
            raise InputError(
                "an int8 model does not learn; train the float model, then quantize it"
            )

    def _checked_data(self, supervised: bool = False) -> CheckedData:
        own_loss = type(self).compute_loss.__module__.startswith(_PACKAGE)
        config = self.config
        loss: Any = self.loss if self.compiled else None
        is_ours = isinstance(loss, LabelSmoothedCrossEntropy)
        paddings = [loss.pad_id] if is_ours else [*self.counted_padding.values()]
        learned = getattr(config, "position", None) == "learned"
        sizes = {
            side: getattr(config, f"{side}_vocabulary_size")
            for side in ("source", "target")
        }
        return CheckedData(
            sizes,
            longest=config.longest_sequence if learned else None,
            labels=bool(paddings),
            pad_id=paddings[0] if paddings else None,
            special_ids=config.special_ids,
            source_end=getattr(config, "source_end", True),
            supervised=supervised and loss is not None and (is_ours or own_loss),
            counted=self.counted_padding,
            packs_rows=getattr(self, "packs_rows", False),
        )
