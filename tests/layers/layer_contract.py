"""What every Keras layer of this package must keep: one harness for all of them.

The rules of KerasHub's `run_layer_test` and `run_precision_test` are among it. It knows
no layer by name: what it needs to know stands in a layer's signature, in its config and
in the arguments of `check`.
"""

import inspect
import json
import warnings

import keras
import numpy as np
from keras import ops

from reference.weights import numpy

POLICIES = ("float32", "mixed_bfloat16", "mixed_float16", "bfloat16")
BASE_KEYS = {"name", "trainable", "dtype"}


class Case:
    """A layer class, its arguments and inputs, and what is expected of it.

    Args:
        layer_class: the class.
        arguments: of its `__init__`.
        inputs: {call argument: array}, the first is given by position.
        weights: {path below the layer: shape}, in order.
        options: further keywords of the call that are no tensors.
        output_dtype: where it is not the compute dtype.
        no_gradient: paths of the weights whose gradient is exactly zero.
    """

    def __init__(
        self,
        layer_class,
        arguments,
        inputs,
        *,
        weights=None,
        options=None,
        output_dtype=None,
        no_gradient=(),
    ):
        self.layer_class = layer_class
        self.arguments = arguments
        self.inputs = inputs
        self.weights = weights or {}
        self.options = options or {}
        self.output_dtype = output_dtype
        self.no_gradient = no_gradient

    def layer(self, **arguments):
        return self.layer_class(**{"name": "layer", **self.arguments, **arguments})

    def call(self, layer, inputs=None, **options):
        first, *others = (inputs or self.tensors()).items()
        return layer(first[1], **dict(others), **self.options, **options)

    def tensors(self):
        return {
            name: ops.convert_to_tensor(array) for name, array in self.inputs.items()
        }

    def symbols(self, known=True):
        return {
            name: keras.KerasTensor(_shape(array, known), str(array.dtype))
            for name, array in self.inputs.items()
        }

    def model(self, layer):
        """Input layers -> the layer -> its output, as a functional model."""
        inputs = {
            name: keras.Input(array.shape[1:], dtype=str(array.dtype), name=name)
            for name, array in self.inputs.items()
        }
        return keras.Model(inputs, self.call(layer, inputs))


def check(layer_class, arguments, inputs, *, folder, **expected):
    """Checks all that a layer promises; `expected` as in `Case`.

    Args:
        folder: where a `.keras` file may be written.
    """
    case = Case(layer_class, arguments, inputs, **expected)
    _check_inputs(case)
    _check_config(case)
    _check_shapes(case)
    _check_weights(case)
    _check_dtypes(case)
    _check_dropout(case)
    _check_saving(case, folder)
    _check_fit(case)


def _check_inputs(case):
    """The test itself: a batch of at least 2 and no size that stands for two axes."""
    batches = {array.shape[0] for array in case.inputs.values()}
    assert len(batches) == 1 and batches.pop() >= 2
    for array in case.inputs.values():
        assert len(set(array.shape)) == array.ndim or array.dtype == bool


def _without_identity(config):
    """A config without the number by which layers in it are one object."""
    if isinstance(config, dict):
        names = config.keys() - {"shared_object_id"}
        return {name: _without_identity(config[name]) for name in names}
    return [*map(_without_identity, config)] if isinstance(config, list) else config


def _check_config(case):
    signature = inspect.signature(case.layer_class.__init__)
    names = set(signature.parameters) - {"self", "kwargs"}
    layer = case.layer()
    config = layer.get_config()
    assert set(config) - BASE_KEYS == names, "config keys differ from the signature"
    for name in names:
        assert hasattr(layer, name), f"{name} is no attribute"
    case.call(layer)
    assert layer.get_config() == config, "building changes the config"
    serialized = keras.saving.serialize_keras_object(layer)
    name = f"keras_transformer>{case.layer_class.__name__}"
    assert serialized["registered_name"] == name
    text = json.dumps(serialized)  # plain JSON makes the same layer again
    loaded = keras.saving.deserialize_keras_object(json.loads(text))
    for again in (case.layer_class.from_config(config), loaded):
        assert _without_identity(again.get_config()) == _without_identity(config)
        case.call(again)
        assert set(dir(again)) == set(dir(layer))


def _check_shapes(case):
    """Symbolic shape and dtype are those of the eager output."""
    eager = case.call(case.layer())
    for known in (True, False):
        symbolic = case.call(case.layer(), case.symbols(known))
        assert len(symbolic.shape) == len(eager.shape)
        for expected, got in zip(eager.shape, symbolic.shape, strict=True):
            assert got in ((expected,) if known else (expected, None))
        assert symbolic.dtype == keras.backend.standardize_dtype(eager.dtype)

    shapes = {f"{name}_shape": array.shape for name, array in case.inputs.items()}
    layer, called = case.layer(), case.layer()
    parameters = inspect.signature(layer.build).parameters
    layer.build(**{name: shapes[name] for name in shapes if name in parameters})
    case.call(called)
    assert layer.built and called.built
    for kind in ("trainable_weights", "non_trainable_variables"):
        assert len(getattr(layer, kind)) == len(getattr(called, kind)), kind

    function = case.layer().compute_output_shape
    parameters = inspect.signature(function).parameters
    shapes = {name: shape for name, shape in shapes.items() if name in parameters}
    options = {n: value for n, value in case.options.items() if n in parameters}
    assert tuple(function(**shapes, **options)) == tuple(eager.shape)


def _shape(array, known):
    """The shape; unless known, None for the batch and for lengths of more than 1."""
    lengths = (0, 2, 3) if array.dtype == bool else (0, 1)
    return tuple(
        size if known or size == 1 or axis not in lengths else None
        for axis, size in enumerate(array.shape)
    )


def _check_weights(case):
    layer = case.layer()
    case.call(layer)
    found = {variable.path: tuple(variable.shape) for variable in layer.weights}
    assert found == {f"layer/{path}": shape for path, shape in case.weights.items()}
    count = sum(int(np.prod(shape)) for shape in case.weights.values())
    assert layer.count_params() == count
    assert len(layer.trainable_weights) == len(case.weights)


def _check_dtypes(case):
    for name in POLICIES:
        policy = keras.DTypePolicy(name)
        layer = case.layer(dtype=name)
        output = case.call(layer)
        expected = case.output_dtype or policy.compute_dtype
        assert keras.backend.standardize_dtype(output.dtype) == expected, name
        assert case.call(case.layer(dtype=name), case.symbols()).dtype == expected, name
        assert np.isfinite(numpy(output)).all(), name
        given = getattr(layer, "positional_encoding", None)  # has a dtype of its own
        apart = [] if given is None else [weight.path for weight in given.weights]
        for variable in layer.weights:
            own = variable.path in apart
            assert own or variable.dtype == policy.variable_dtype, (name, variable.path)
        for sublayer in layer._flatten_layers():
            if sublayer is given:
                continue
            assert sublayer.compute_dtype == policy.compute_dtype, (name, sublayer)
            assert sublayer.variable_dtype == policy.variable_dtype, (name, sublayer)


def _check_dropout(case):
    """Each dropout argument acts in training, and then alone."""
    names = inspect.signature(case.layer_class.__init__).parameters
    rates = [name for name in names if name == "dropout" or name.endswith("_dropout")]
    plain = case.layer(**dict.fromkeys(rates, 0.0))
    expected = numpy(case.call(plain))
    np.testing.assert_array_equal(numpy(case.call(plain)), expected)
    if "training" in inspect.signature(plain.call).parameters:
        np.testing.assert_array_equal(numpy(case.call(plain, training=True)), expected)
    for rate in rates:
        layer = case.layer(**{**dict.fromkeys(rates, 0.0), rate: 0.5})
        case.call(layer)
        layer.set_weights(plain.get_weights())
        for options in ({}, {"training": False}):
            output = numpy(case.call(layer, **options))
            np.testing.assert_array_equal(output, expected, err_msg=rate)
        dropped = [numpy(case.call(layer, training=True)) for _ in range(2)]
        assert np.abs(dropped[0] - expected).max() > 1e-3, rate
        assert np.abs(dropped[0] - dropped[1]).max() > 1e-3, rate


def _check_saving(case, folder):
    model = case.model(case.layer())
    path = folder / "layer.keras"
    model.save(path)
    loaded = keras.saving.load_model(path)
    expected, got = (m.get_layer("layer").weights for m in (model, loaded))
    assert [v.path for v in got] == [v.path for v in expected]
    tensors = case.tensors()
    np.testing.assert_array_equal(numpy(loaded(tensors)), numpy(model(tensors)))


def _check_fit(case):
    """One step of `fit` without a warning, which reaches every weight."""
    layer = case.layer()
    features = case.model(layer)
    # A layer of its own: fit warns about models without weights.
    model = keras.Model(features.inputs, keras.layers.Dense(3)(features.output))
    shape = case.call(layer).shape
    batch = len(next(iter(case.inputs.values())))
    labels = np.random.default_rng(0).normal(size=(batch, *shape[1:-1], 3))
    before = layer.get_weights()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
        model.fit(case.inputs, labels, batch_size=batch, verbose=0)
    for variable, old in zip(layer.weights, before, strict=True):
        values = numpy(variable)
        assert np.isfinite(values).all(), variable.path
        if variable.path.removeprefix("layer/") not in case.no_gradient:
            assert np.abs(values - old).max() > 0, f"{variable.path} is not reached"
