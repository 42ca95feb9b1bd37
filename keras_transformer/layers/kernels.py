"""Quantization to int8 and low-rank adapters (LoRA) of layers with own matrices.

D input size, F output size, R rank of an adapter.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.initial_values import fresh
from keras_transformer.tensors import Tensor


class Kernels(keras.layers.Layer):
    """Base of layers with matrices (D, F) that can be int8 or have adapters (LoRA).

    A layer names its matrices in `kernel_names` and multiplies by them through
    `multiply`. Weights of a layer that is neither int8 nor
    adapted, their names and their order in files are those of the layer without it.

    `keras.Model.quantize` reaches only layers without layers in them: in a model of
    your own, call `quantize` of the layer. Models of this package reach all of theirs.

    Reference: int8: Jacob et al., 2018, https://arxiv.org/abs/1712.05877; LoRA: Hu et
    al., 2021, https://arxiv.org/abs/2106.09685.
    """

    dtype_policy: Any  # Keras'
    kernel_names: tuple[str, ...] = ()
    kernel_axis = 0  # that of D; each of the F columns has a scale
    lora_kernels: tuple[str, ...] = ()  # the names of those with an adapter
    _is_int8 = False

    def multiply(self, inputs: Tensor, name: str) -> Tensor:
        """`inputs` (..., D) times the matrix of a name: (..., F)."""
        if not self._is_int8:
            return ops.matmul(inputs, self.matrix(name))
        kernel = ops.convert_to_tensor(getattr(self, name))
        scale = ops.convert_to_tensor(getattr(self, f"{name}_scale"))
        return ops.cast(int8_product(inputs, kernel, scale), self.compute_dtype)

    def matrix(self, name: str) -> Tensor:
        """The matrix of a name; with its adapter, the sum of both."""
        if name not in self.lora_kernels:
            return getattr(self, name)
        return ops.cast(self._adapted(name), self.compute_dtype)

    def _adapted(self, name: str) -> Tensor:
        """The sum of a matrix and its adapter, in float32."""
        update = ops.matmul(getattr(self, f"{name}_lora_a"), self._lora_b(name))
        return ops.cast(getattr(self, name), "float32") + self.lora_scale * update

    # === int8 ===

    def quantize(
        self, mode: str | None = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Makes the matrices int8, a scale for each output, as Keras' layers do.

        Inputs of a product are rounded to int8 as it is computed, a scale for each row.

        Args:
            mode: `"int8"`.
            type_check: as in Keras, where it refuses subclasses; not used.
            config: that of Keras for this mode, or None.

        Raises:
            ValueError: another mode, or the layer has adapters or float16.
        """
        self._check_mode(mode, config)
        self._make_int8()
        if self.dtype_policy.quantization_mode is None:
            name = f"int8_from_{self.dtype_policy.name}"
            self.dtype_policy = keras.dtype_policies.get(name)

    def quantized_call(self, *arguments: Any, **options: Any) -> Any:
        """The call of a layer whose dtype policy says int8."""
        return self.call(*arguments, **options)

    def build_quantized(self) -> None:
        """At the end of `build`: the matrices as the dtype policy wants them."""
        if self.quantization_mode is not None:
            self._check_mode(self.quantization_mode, None)
            self._make_int8()

    def _check_mode(self, mode: str | None, config: Any) -> None:
        check_mode(mode, config)
        if self.lora_kernels:
            raise ValueError(
                f"{self.name} has adapters (LoRA); save the model, which merges them, "
                f"load it and quantize that"
            )

    def _make_int8(self) -> None:
        self._is_int8 = self._is_quantized = True
        for name in self.kernel_names:
            kernel = getattr(self, name)
            shape = tuple(kernel.shape)
            values, scale = keras.quantizers.abs_max_quantize(
                kernel, axis=self.kernel_axis, to_numpy=True
            )
            delattr(self, name)
            kernel = self.add_weight(
                name=name,
                shape=shape,
                initializer="zeros",
                dtype="int8",
                trainable=False,
            )
            setattr(self, name, kernel)
            kernel.assign(values)
            scales = self.add_weight(
                name=f"{name}_scale",
                shape=(shape[1 + self.kernel_axis],),
                initializer="ones",
                dtype="float32",
                trainable=False,
                autocast=False,
            )
            setattr(self, f"{name}_scale", scales)
            scales.assign(ops.squeeze(scale, self.kernel_axis))

    # === LoRA ===

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "he_uniform",
        b_initializer: Any = "zeros",
        kernels: Iterable[str] | None = None,
    ) -> None:
        """Freezes the weights and gives matrices adapters A B that are trained instead.

        A file of the layer holds each matrix with its adapter added.

        Args:
            rank: R; A is (D, R), B is (R, F).
            lora_alpha: the adapters are scaled by `lora_alpha` / R; default R.
            a_initializer, b_initializer: of A and B; B begins as zeros, so that nothing
                changes at first.
            kernels: names of the matrices; default: all of the layer.

        Raises:
            ValueError: the layer is not built, is int8, or has adapters; or there is no
                such matrix.
        """
        kernels = self.kernel_names if kernels is None else tuple(kernels)
        self._check_lora(kernels)
        for weight in self.weights:
            weight.trainable = False
        self._tracker.unlock()
        for name in kernels:
            rows, columns = getattr(self, name).shape
            for part, shape, initializer in (
                ("a", (rows, rank), a_initializer),
                ("b", (rank, columns), b_initializer),
            ):
                weight = self.add_weight(
                    name=f"{name}_lora_{part}",
                    shape=shape,
                    initializer=fresh(initializer),
                    dtype="float32",
                    autocast=False,
                )
                setattr(self, f"{name}_lora_{part}", weight)
        self._tracker.lock()
        self.lora_kernels = kernels
        self.lora_scale = (rank if lora_alpha is None else lora_alpha) / rank

    def _check_lora(self, kernels: tuple[str, ...]) -> None:
        if not self.built:
            raise ValueError(f"{self.name} is not built; call it, then enable_lora")
        if self._is_int8 or self.lora_kernels:
            what = "is int8" if self._is_int8 else "has adapters already"
            raise ValueError(f"{self.name} {what}; enable_lora once, of a float layer")
        for name in kernels:
            if name not in self.kernel_names:
                raise ValueError(
                    f"{self.name} has no matrix {name!r}; it has "
                    f"{', '.join(self.kernel_names)}"
                )

    def _lora_b(self, name: str) -> Any:
        return getattr(self, f"{name}_lora_b")

    @property
    def adapter_paths(self) -> set[str]:
        """The paths of the weights of adapters."""
        return {
            getattr(self, f"{name}_lora_{part}").path
            for name in self.lora_kernels
            for part in "ab"
        }

    def merged(self) -> dict[str, Tensor]:
        """`{path: matrix}` of matrices with their adapters added, in float32."""
        return {getattr(self, n).path: self._adapted(n) for n in self.lora_kernels}

    def clear_adapters(self) -> None:
        """Sets adapters to zero, for matrices that already include them."""
        for name in self.lora_kernels:
            self._lora_b(name).assign(ops.zeros(self._lora_b(name).shape))

    def save_own_variables(self, store: Any) -> None:
        variables = self._own_variables()
        merged = self.merged()
        for key, variable in variables.items():
            store[key] = merged.get(variable.path, variable)

    def load_own_variables(self, store: Any) -> None:
        if not self.lora_kernels:
            super().load_own_variables(store)
            return
        for key, variable in self._own_variables().items():
            variable.assign(store[key])
        self.clear_adapters()  # what is loaded holds them

    def _own_variables(self) -> dict[str, Any]:
        """By the keys of a file, without adapters."""
        variables: dict[str, Any] = {}
        super().save_own_variables(variables)
        kept = [v for v in variables.values() if v.path not in self.adapter_paths]
        return {str(index): variable for index, variable in enumerate(kept)}


def check_mode(mode: str | None, config: Any = None) -> None:
    """Refuses what is not `quantize("int8")`, for which Keras makes a config.

    Raises:
        ValueError: another mode, or other quantizers.
    """
    if mode != "int8" or (config is not None and not _is_default(config)):
        raise ValueError(
            f'only quantize("int8") with the quantizers of Keras is supported, got the '
            f"mode {mode!r} and the config {config}"
        )


def _is_default(config: Any) -> bool:
    default = keras.quantizers.Int8QuantizationConfig().activation_quantizer
    given = config.activation_quantizer
    return bool(
        config.weight_quantizer is None
        and type(given) is type(default)
        and given.get_config() == default.get_config()
    )


def int8_product(inputs: Tensor, kernel: Tensor, scale: Tensor) -> Tensor:
    """Inputs (..., D) times an int8 kernel (D, F) of scales (F,): float32 (..., F)."""
    inputs, input_scale = keras.quantizers.abs_max_quantize(
        ops.cast(inputs, "float32"), axis=-1
    )
    product = ops.cast(ops.matmul(inputs, kernel), "float32")
    return product / (input_scale * ops.cast(scale, "float32"))


def float_policy(policy: Any) -> Any:
    """A dtype policy without its quantization, for the parts that stay floating."""
    mode = policy.quantization_mode
    if mode is None:
        return policy
    return keras.dtype_policies.get(policy.name.removeprefix(f"{mode}_from_"))
