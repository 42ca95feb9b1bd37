"""The Neural GPU, plain and with an output tape."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.layers import ConvolutionalGatedRecurrentUnit
from keras_transformer.layers.convolutional_gru import sigmoid_with_cutoff
from keras_transformer.models import NeuralGPU
from reference import numpy_neural_gpu
from reference.marks import on_one_backend
from reference.numpy_layers import below
from reference.weights import ids
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read

LENGTHS = (5, 2, 4)
SIZES = {"vocabulary_size": 11, "width": 3, "hidden_dim": 6}
SOURCE, TARGET = (ids(LENGTHS, seed, vocabulary_size=11) for seed in (1, 2))


def built(**options):
    model = NeuralGPU(**SIZES, **options)
    model.build()
    randomize(model)
    for weight in model.weights:
        if len(weight.shape) == 4:  # of many cells: large ones would amplify rounding
            weight.assign(weight / 3.0)
    return model


def inputs_of(model, source, target):
    source, target = map(ops.convert_to_tensor, (source, target))
    return {"source": source, "target": target} if model.output_tape else source


@pytest.mark.parametrize("output_tape", [False, True])
def test_it_is_the_reference_whatever_padding_follows_a_row(output_tape):
    model = built(output_tape=output_tape)
    logits = numpy(model(inputs_of(model, SOURCE, TARGET)))
    assert logits.dtype == "float32"
    weights = below(read(model), model.name)
    for found, source, target, n in zip(logits, SOURCE, TARGET, LENGTHS, strict=True):
        expected = numpy_neural_gpu.neural_gpu(
            weights, source[:n], target[:n] if output_tape else None, width=3
        )
        np.testing.assert_allclose(found[:n], expected, rtol=1e-5, atol=1e-5)
        assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("output_tape", [False, on_one_backend(True)])
def test_fit_learns_by_heart(output_tape):
    """Gradients come through all steps, to every weight."""
    keras.utils.set_random_seed(1)
    model = NeuralGPU(**SIZES, num_layers=1, output_tape=output_tape)
    model.build()
    before = model.get_weights()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss)
    inputs = {"source": SOURCE, "target": TARGET} if output_tape else SOURCE
    losses = model.fit(inputs, TARGET, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    for weight, old in zip(model.weights, before, strict=True):
        assert np.abs(numpy(weight) - old).max() > 0, weight.path


@pytest.mark.one_backend
@pytest.mark.parametrize("output_tape", [False, True])
def test_greedy_says_what_is_likeliest_after_what_it_said(output_tape):
    model = built(output_tape=output_tape)
    said = numpy(model.greedy(SOURCE))
    assert ((said != 0) <= (SOURCE != 0)).all() and len(np.unique(said)) > 2
    before = np.pad(said[:, :-1], ((0, 0), (1, 0)), constant_values=model.start_id)
    likeliest = numpy(model(inputs_of(model, SOURCE, before))).argmax(axis=-1)
    np.testing.assert_array_equal(np.where(SOURCE != 0, likeliest, 0), said)


@pytest.mark.one_backend
def test_a_symbol_of_the_target_changes_no_output_before_it():
    model = built(output_tape=True)
    changed = TARGET.copy()
    changed[:, 1] = TARGET[:, 1] % 7 + 4
    first, second = (
        numpy(model(inputs_of(model, SOURCE, target))) for target in (TARGET, changed)
    )
    np.testing.assert_array_equal(first[:, 0], second[:, 0])
    assert np.abs(first - second)[:, 1].max() > 1e-3


@pytest.mark.one_backend
def test_a_keras_file_brings_it_back(tmp_path):
    model = built(output_tape=True, num_layers=1, kernel_size=5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    expected, found = (numpy(m.greedy(SOURCE)) for m in (model, loaded))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("output_tape", "inputs", "message"),
    [
        (True, SOURCE, r"output_tape=True takes \{\"source\": ids"),
        (False, {"source": SOURCE, "target": TARGET}, "output_tape=False takes ids"),
        (True, {"source": SOURCE, "target": TARGET[:, 1:]}, "5 positions .* 4, but"),
        (True, {"source": SOURCE, "target": TARGET + 7}, "the target holds the id"),
        (False, SOURCE - 5, "the source holds the id .*, outside of the vocab"),
    ],
    ids=["no target", "a target", "lengths", "target", "source"],
)
def test_other_inputs_are_refused(output_tape, inputs, message):
    with pytest.raises(InputError, match=message):
        NeuralGPU(**SIZES, output_tape=output_tape)(inputs)


# === The unit alone ===


@pytest.mark.one_backend
@pytest.mark.parametrize("width", [1, 4])
def test_a_unit_is_the_formula(width):
    """Also on a tape of one column, which has no neighbours to its sides."""
    unit = ConvolutionalGatedRecurrentUnit(kernel_size=5)
    states, tapes = (normal(2, 7, width, 6, seed=seed) for seed in (1, 2))
    tensors = [ops.convert_to_tensor(array) for array in (states, tapes)]
    unit(*tensors)
    assert unit.gates_kernel.shape[1] == (1 if width == 1 else 5)
    found = numpy(randomize(unit)(*tensors))
    for row, state, tape in zip(found, states, tapes, strict=True):
        expected = numpy_neural_gpu.unit(read(unit), state, tape)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
def test_gates_are_exactly_closed_and_open():
    found = numpy(sigmoid_with_cutoff(ops.convert_to_tensor([-4.0, 0.0, 4.0])))
    np.testing.assert_allclose(found, [0.0, 0.5, 1.0], rtol=0, atol=1e-7)
    assert found[0] == 0.0 and found[2] == 1.0


@pytest.mark.one_backend
def test_an_even_kernel_and_a_mask_of_floats_are_refused():
    with pytest.raises(ValueError, match=r"kernel_size 4 is even, .* use an odd one"):
        ConvolutionalGatedRecurrentUnit(4)
    unit = ConvolutionalGatedRecurrentUnit(name="unit")
    with pytest.raises(ValueError, match="unit: mask is float32"):
        unit(ops.zeros((1, 2, 3, 4)), mask=ops.ones((1, 2)))
