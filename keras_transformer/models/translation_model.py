"""Base of every translation model: building, decoding with a KV cache, config.

How it trains is in `fused_training.py`.

B batch, T target positions, S source positions, D hidden_dim, V target vocabulary, W
beam width.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Iterable
from typing import Any
from typing import ClassVar
from typing import Self

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.config import TranslationConfig
from keras_transformer.decoding.beam_groups import gather_all
from keras_transformer.errors import InputError
from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.kernels import check_mode
from keras_transformer.layers.kernels import float_policy
from keras_transformer.layers.token_ids import whole_ids
from keras_transformer.models.checked_data import check_ids
from keras_transformer.models.checked_data import check_inputs
from keras_transformer.models.contract import Decoded
from keras_transformer.models.contract import Encoded
from keras_transformer.models.contract import SearchState
from keras_transformer.models.contract import StepOutput
from keras_transformer.models.fused_training import FusedTraining
from keras_transformer.tensors import DType
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

_PACKAGE = __name__.partition(".")[0] + "."


def _check_precision(policy: Any) -> None:
    """Refuses dtypes that parts of the model cannot compute in."""
    floatx = keras.config.floatx()
    if floatx != "float32":
        raise ValueError(
            f'scores are computed in float32, but set_floatx("{floatx}") is set; reset '
            f'it to "float32" and give the model a dtype such as "mixed_bfloat16"'
        )
    if "float64" in (policy.compute_dtype, policy.variable_dtype):
        raise ValueError(
            f'the dtype "{policy.name}" is not supported: softmax, positions and '
            'losses are computed in float32; use the dtype "float32"'
        )


def _check_methods(model_class: type[Any]) -> None:
    """Refuses a class without one of the abstract methods of `TranslationModel`.

    `abc.ABCMeta` would refuse it too, but Keras creates an empty object of each base.
    """
    missing = [
        name
        for name in vars(TranslationModel)
        if getattr(
            inspect.getattr_static(model_class, name), "__isabstractmethod__", False
        )
    ]
    if missing:
        raise TypeError(
            f"{model_class.__name__} lacks {', '.join(missing)}; define what "
            f"every TranslationModel has"
        )


class TranslationModel(FusedTraining):
    """A functional `keras.Model` that gives logits, and trains without storing them.

    A subclass has a `config_class` and the abstract methods. It is a
    `contract.Decodable` that maps ids (B, S) and (B, T) to logits (B, T, V).

    A subclass of a kind of this package is saved by `model.save` and `get_config` under
    its own class, and by a model folder as `module.Class`; there it comes back once the
    module is imported.

    Args:
        config: an object of `config_class`, or the dictionary of its fields.
        dtype: a dtype policy; default Keras' global one.

    Raises:
        ValueError: for float64, or where `keras.config.set_floatx` names anything but
            float32.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762.
    """

    config_class: ClassVar[type[TranslationConfig]]

    @staticmethod
    @abc.abstractmethod
    def make_layers(config: Any, policy: Any) -> dict[str, Any]:
        """All layers, by the names of attributes.

        `output_embedding` is among them, a `TokenEmbedding`.
        """

    @property
    @abc.abstractmethod
    def layer_groups(self) -> dict[str, list[Any]]:
        """The layers (or None) of `"embeddings"`, `"encoder"` and `"decoder"`.

        `training.freeze` names such groups.
        """

    @abc.abstractmethod
    def encode(
        self,
        source: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
        length: int | Tensor | None = None,
    ) -> Encoded:
        """The encoder output of source ids (B, S); see `Decodable`."""

    @abc.abstractmethod
    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor,
        training: bool | None = None,
        return_attention_weights: bool = False,
    ) -> Decoded:
        """The decoder output of target ids (B, T), causally; see `Decodable`."""

    @abc.abstractmethod
    def start(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """The initial state of a search; see `Decodable`."""

    @abc.abstractmethod
    def decode_step(
        self,
        tokens: Tensor,
        position: Tensor,
        constants: dict[str, Any],
        cache: Tensors,
        return_attention_weights: bool = False,
    ) -> StepOutput:
        """One more token (B, W) of each hypothesis; see `Decodable`."""

    def __init__(
        self,
        config: TranslationConfig | dict[str, Any],
        dtype: DType | None = None,
        **kwargs: Any,
    ) -> None:
        backends.note_work(builds=True)
        _check_methods(type(self))
        if not isinstance(config, self.config_class):
            fields: Any = config
            if not isinstance(fields, dict):
                raise InputError(
                    f"config must be a {self.config_class.__name__} or a dictionary, "
                    f"got {config!r}; make one with "
                    f"{self.config_class.__name__}.from_preset('tiny', ...)"
                )
            config = self.config_class.from_dict(fields)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        _check_precision(policy)
        mode, policy = policy.quantization_mode, float_policy(policy)
        # Keras' own __setattr__ requires `super().__init__` to have run; weights are
        # tracked through the functional graph.
        self.__dict__.update(config=config, **self.make_layers(config, policy))
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        hidden = self.hidden_states({"source": source, "target": target})
        super().__init__(
            inputs={"source": source, "target": target},
            outputs=self.logits(hidden),
            **kwargs,
        )
        self.dtype_policy = policy
        if mode is not None:
            self.quantize(mode)

    #: What of this kind has no int8; None where all matrices have it.
    int8_hindrance: ClassVar[str | None] = None

    def quantize(
        self,
        mode: str | None = None,
        config: Any = None,
        filters: Any = None,
        type_check: bool = True,
    ) -> None:
        """Makes the matrices of attention, feed-forward networks and embeddings int8.

        Weights take a quarter of the memory; positions, normalizations and biases stay
        as they are. The model translates and evaluates, but does not learn any more;
        `compile` it anew, and call this before its first translation. `model.save`
        (.keras) keeps it; model folders and exports take float models alone.

        Args:
            mode: `"int8"`.
            config: that of Keras for this mode, or None.

        Raises:
            ValueError: another mode or option, a kind of model without int8, adapters
                (LoRA), or float16.

        Reference: Jacob et al., 2018, https://arxiv.org/abs/1712.05877.
        """
        check_mode(mode, config)
        if filters is not None:
            raise ValueError("filters are not supported; quantize layers one by one")
        if self.int8_hindrance is not None:
            raise ValueError(
                f"{type(self).__name__} cannot be int8: {self.int8_hindrance}; "
                f"quantize a Transformer, or use the dtype bfloat16"
            )
        layers = self._kernel_layers()
        if any(layer.lora_kernels for layer in layers):
            raise ValueError(
                "the model has adapters (LoRA); save it, which merges them, load it "
                "and quantize that"
            )
        for layer in layers:
            layer.quantize(mode)
        self.is_int8, self.compiled = True, False

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        kernels: Iterable[str] = ("query_kernel", "value_kernel"),
    ) -> None:
        """Freezes the model and gives its projections low-rank adapters, to be trained.

        `compile` the model after this. What is saved, as .keras file or model folder,
        is a plain model, each matrix with its adapter added. Layers that are frozen
        already, by `trainable = False`, get no adapters.

        Args:
            rank: R; matrices (D, F) get A (D, R) and B (R, F).
            lora_alpha: the adapters are scaled by `lora_alpha` / R; default R.
            kernels: which matrices: of each attention, of `"query_kernel"`,
                `"key_kernel"`, `"value_kernel"` and `"output_kernel"`; of each
                feed-forward layer, of `"inner_kernel"`, `"gate_kernel"` and
                `"outer_kernel"`; of each SSRU, of `"input_kernel"` and
                `"forget_kernel"`.

        Raises:
            ValueError: the model is int8, or has adapters already; or no layer that may
                learn has such a matrix.

        Reference: Hu et al., 2021, https://arxiv.org/abs/2106.09685.
        """
        if self.is_int8 or any(layer.lora_kernels for layer in self._kernel_layers()):
            what = "is int8" if self.is_int8 else "has adapters already"
            raise ValueError(f"the model {what}; enable_lora once, of a float model")
        kernels = tuple(kernels)
        projections = [
            layer
            for layer in self._kernel_layers()
            if layer.trainable and not isinstance(layer, TokenEmbedding)
        ]
        known = dict.fromkeys(name for p in projections for name in p.kernel_names)
        if unknown := [name for name in kernels if name not in known]:
            raise ValueError(
                f"no layer that may learn has a matrix {unknown[0]!r}; those that may "
                f"have {', '.join(known) or 'none'}"
            )
        for weight in self.weights:
            weight.trainable = False
        for layer in projections:
            if chosen := [name for name in kernels if name in layer.kernel_names]:
                layer.enable_lora(rank, lora_alpha, kernels=chosen)
        self.compiled = False

    @property
    def projection_kernels(self) -> tuple[str, ...]:
        """The names of all matrices that `enable_lora` takes."""
        layers = self._kernel_layers()
        names = [
            name
            for layer in layers
            if not isinstance(layer, TokenEmbedding)
            for name in layer.kernel_names
        ]
        return tuple(dict.fromkeys(names))

    def merged_weights(self) -> dict[str, Any]:
        """`{path: tensor}` of all weights, the matrices with their adapters added."""
        merged: dict[str, Any] = {}
        for layer in self._kernel_layers():
            merged |= layer.merged()
        adapters = self.adapter_paths
        return {
            weight.path: merged.get(weight.path, weight)
            for weight in self.weights
            if weight.path not in adapters
        }

    @property
    def adapter_paths(self) -> set[str]:
        """The paths of the weights of adapters (LoRA)."""
        return set().union(*(layer.adapter_paths for layer in self._kernel_layers()))

    def clear_adapters(self) -> None:
        """Makes adapters add nothing: for weights that have come with them added."""
        for layer in self._kernel_layers():
            layer.clear_adapters()

    def _kernel_layers(self) -> list[Kernels]:
        layers = self._flatten_layers(include_self=False)
        return [layer for layer in layers if isinstance(layer, Kernels)]

    def call(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> Tensor:
        check_inputs(inputs)
        for side in ("source", "target"):
            size = getattr(self.config, f"{side}_vocabulary_size")
            check_ids(side, inputs[side], size)  # not every backend would
        inputs = {
            side: ops.cast(whole_ids(inputs[side], side), "int32")
            for side in ("source", "target")
        }
        return super().call(inputs, training=training)

    def hidden_states(self, inputs: Any, training: bool | None = None) -> Tensor:
        """The decoder's output (B, T, D), which `logits` turns into scores."""
        encoded = self.encode(inputs["source"], training=training)
        decoded = self.decode(
            inputs["target"], encoded.memory, encoded.source_mask, training=training
        )
        return decoded.hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., V) in float32."""
        return self.output_embedding(hidden, reverse=True)

    def start_search(
        self,
        memory: Tensor,
        source_mask: Tensor,
        beam_size: int | None,
        length: int | Tensor,
    ) -> SearchState:
        """`start` in the fastest layout for a search; its cache needs `reorder`.

        `decode_step` takes this layout as well.
        """
        return self.start(memory, source_mask, beam_size, length)

    def reorder(self, cache: Tensors, beams: Tensor) -> Tensors:
        """The cache after which hypothesis w continues `beams[:, w]`: (B, W) int32."""
        return gather_all(cache, beams)

    def get_config(self) -> dict[str, Any]:
        self._check_arguments()
        policy = self.dtype_policy
        if self.is_int8:
            policy = keras.dtype_policies.get(f"int8_from_{policy.name}")
        return {
            "config": self.config.model_dump(),
            "dtype": keras.dtype_policies.serialize(policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    def _check_arguments(self) -> None:
        """Refuses arguments of a subclass that its `get_config` does not return."""
        if type(self).get_config is not TranslationModel.get_config:
            return
        parameters = inspect.signature(type(self).__init__).parameters.values()
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names = {p.name for p in parameters if p.kind not in variadic}
        lost = sorted(names - {"self", "config", "dtype", "name", "trainable"})
        if lost:
            raise NotImplementedError(
                f"{type(self).__name__} takes {', '.join(lost)}, which its config "
                "lacks; define a get_config that adds them to super().get_config()"
            )

    def _run_through_graph(self, inputs: Any, *arguments: Any, **options: Any) -> Any:
        # `keras.models.clone_model`, the only caller with a `call_fn` once the model is
        # built, would build a plain functional model: overridden methods would be lost.
        is_ours = type(self).__module__.startswith(_PACKAGE)
        if not is_ours and self.built and "call_fn" in options:
            raise TypeError(
                f"keras.models.clone_model would make a plain model of "
                f"{type(self).__name__}; use "
                f"{type(self).__name__}.from_config(model.get_config())"
            )
        return super()._run_through_graph(inputs, *arguments, **options)

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        return cls(**config)
