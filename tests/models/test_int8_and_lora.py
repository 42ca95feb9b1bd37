"""Quantization to int8 and low-rank adapters (LoRA): of a model, of single layers."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer import layers
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models.kinds import refuse_int8
from keras_transformer.models.search import search
from keras_transformer.models.weights import weight_values
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import Sentence
from reference import configs
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources
from reference.weights import targets

INPUTS = {"source": sources(), "target": targets()}


def small(**fields):
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return randomize(kt.Transformer(configs.config("paper", **sizes, **fields)))


@pytest.fixture(scope="module")
def int8_pair():
    """A float model, and the same made int8."""
    model, quantized = small(), small()
    quantized.quantize("int8")
    return model, quantized


def deviation(found, expected):
    """The root mean square of the difference, relative to the spread of the logits."""
    found, expected = numpy(found), numpy(expected)
    return np.sqrt(np.mean((found - expected) ** 2)) / expected.std()


def test_logits_of_int8_are_those_of_floats_within_three_percent(int8_pair):
    model, quantized = int8_pair
    assert 0 < deviation(quantized(INPUTS), model(INPUTS)) < 0.03


@pytest.mark.one_backend
def test_every_matrix_is_int8_and_nothing_else_is(int8_pair):
    model, quantized = int8_pair
    dtypes = {weight.path: weight.dtype for weight in quantized.weights}
    for weight in model.weights:
        expected = "int8" if len(weight.shape) == 2 else "float32"
        assert dtypes.pop(weight.path) == expected, weight.path
    assert set(dtypes.values()) == {"float32"}
    assert all(path.endswith("_scale") for path in dtypes)


@pytest.mark.one_backend
def test_an_int8_model_searches_as_it_scores(int8_pair, tmp_path):
    """Cached decoding equals teacher forcing; the file gives the same bits again."""
    _, quantized = int8_pair
    expected = numpy(quantized(INPUTS))
    encoded = quantized.encode(ops.convert_to_tensor(INPUTS["source"]))
    length = INPUTS["target"].shape[1]
    constants, cache = quantized.start(encoded.memory, encoded.source_mask, 1, length)
    for position in range(length):
        tokens = ops.convert_to_tensor(INPUTS["target"][:, position : position + 1])
        step = quantized.decode_step(tokens, position, constants, cache)
        cache = step.cache
        # A rounding in a sum may round an input to the next of 255 numbers.
        assert deviation(step.logits[:, 0], expected[:, position]) < 0.02
    quantized.save(tmp_path / "int8.keras")
    loaded = keras.saving.load_model(tmp_path / "int8.keras")
    assert loaded.is_int8
    np.testing.assert_array_equal(numpy(loaded(INPUTS)), expected)


def test_beam_search_over_int8_says_what_teacher_forcing_says(int8_pair):
    _, quantized = int8_pair
    source = ops.convert_to_tensor(INPUTS["source"])
    limits = ops.convert_to_tensor(np.full(len(source), 6, "int32"))
    options = DecodingOptions(beam_size=3)
    result = search(quantized, source, limits, length=6, options=options)
    tokens, lengths = numpy(result.tokens)[:, 0], numpy(result.lengths)[:, 0]
    target = np.concatenate([np.ones_like(tokens[:, :1]), tokens[:, :-1]], axis=1)
    logits = quantized({"source": INPUTS["source"], "target": target})
    scores = np.take_along_axis(
        numpy(ops.log_softmax(logits)), tokens[..., None], axis=2
    )[..., 0]
    expected = [row[:length].sum() for row, length in zip(scores, lengths, strict=True)]
    found = numpy(result.log_probabilities)[:, 0]
    # A rounding in a sum may round an input to the next of 255 numbers.
    np.testing.assert_allclose(found, expected, atol=0.1)


def test_a_model_is_quantized_before_its_first_translation(int8_pair):
    """Few rows of floats are another program on JAX, to which int8 would be slow."""
    _, quantized = int8_pair
    model = small()
    searcher = BatchSearch(model)  # as `Translator.load` makes it
    searcher._is_small = False
    few = backends.compiles_few_rows
    assert searcher._program_for(4, 4, False) is searcher._searches[few, False]
    assert searcher._program_for(16, 4, False) is searcher._searches[False, False]
    model.quantize("int8")
    assert searcher._program_for(4, 4, False) is searcher._searches[False, False]
    assert searcher._program_for(1, 1, False) is searcher._searches[few, False]
    sentences = [Sentence([5, 6, 7]), Sentence([8, 9])]
    options = DecodingOptions(beam_size=2, max_length=4)
    found = searcher.translate(sentences, options, 2)
    expected = BatchSearch(quantized).translate(sentences, options, 2)
    assert [row[0].ids for row in found] == [row[0].ids for row in expected]


@pytest.mark.one_backend
def test_what_int8_cannot_do_is_refused_in_one_line(int8_pair):
    _, quantized = int8_pair
    quantized.compile(optimizer="sgd", loss=LabelSmoothedCrossEntropy(0.1))
    assert np.isfinite(quantized.evaluate(INPUTS, targets(), verbose=0))
    with pytest.raises(InputError, match="an int8 model does not learn"):
        quantized.fit(INPUTS, targets(), verbose=0)
    with pytest.raises(InputError, match="float models alone, not int8"):
        refuse_int8(quantized, "a model folder holds")
    with pytest.raises(ValueError, match="the model is int8"):
        quantized.enable_lora(2)
    with pytest.raises(ValueError, match="only quantize"):
        small().quantize("float8")
    convolutional = kt.ConvolutionalModel(configs.config("convolutional"))
    with pytest.raises(ValueError, match="no int8 convolution"):
        convolutional.quantize("int8")
    half = kt.Transformer(small().config, dtype="mixed_float16")
    with pytest.raises(ValueError, match="float16"):
        half.quantize("int8")


LAYERS = {
    "attention": lambda: layers.MultiHeadAttention(2, 8, use_bias=True),
    "feed forward": lambda: layers.FeedForward(24, gated=True),
    "encoder block": lambda: layers.EncoderBlock(24, 2),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_int8_in_a_model_of_ones_own(name, tmp_path):
    inputs = keras.Input((None, 16))
    layer = LAYERS[name]()
    model = keras.Model(inputs, layer(inputs))
    states = ops.convert_to_tensor(normal(3, 5, 16))
    expected = model(states)
    layer.quantize("int8")
    found = model(states)
    assert 0 < deviation(found, expected) < 0.03
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(numpy(loaded(states)), numpy(found))


@pytest.mark.one_backend("torch", "jax")
def test_only_adapters_learn_and_files_hold_them_merged(tmp_path):
    model = small()
    before = {weight.path: numpy(weight) for weight in model.weights}
    expected = numpy(model(INPUTS))
    model.enable_lora(2, lora_alpha=4)
    np.testing.assert_array_equal(numpy(model(INPUTS)), expected)
    adapters = [path for path in (w.path for w in model.weights) if path not in before]
    assert [w.path for w in model.trainable_weights] == adapters
    assert len(adapters) == 2 * 2 * 3  # A and B of queries and values of 3 attentions
    model.compile(
        optimizer=keras.optimizers.Adam(0.1), loss=LabelSmoothedCrossEntropy()
    )
    model.fit(INPUTS, targets(), verbose=0, epochs=2)
    for weight in model.weights:
        if weight.path in before:
            np.testing.assert_array_equal(numpy(weight), before[weight.path])
    found = numpy(model(INPUTS))
    assert np.abs(found - expected).max() > 1e-3

    plain = small()
    values = weight_values(model)
    assert values.keys() == before.keys()
    for weight in plain.weights:
        weight.assign(values[weight.path])
    np.testing.assert_allclose(numpy(plain(INPUTS)), found, atol=1e-5)
    model.save_weights(tmp_path / "merged.weights.h5")
    again = small()
    again.load_weights(tmp_path / "merged.weights.h5")
    np.testing.assert_array_equal(numpy(again(INPUTS)), numpy(plain(INPUTS)))
    model.load_weights(tmp_path / "merged.weights.h5")  # the adapters are in it
    np.testing.assert_allclose(numpy(model(INPUTS)), found, atol=1e-5)


@pytest.mark.one_backend
def test_layers_have_adapters_each():
    ids, states = (
        ops.convert_to_tensor(targets()),
        ops.convert_to_tensor(normal(3, 5, 16)),
    )
    for layer, inputs in (
        (layers.FeedForward(24, gated=True), states),
        (layers.MultiHeadAttention(2, 8), states),
        (layers.TokenEmbedding(53, 16), ids),
    ):
        expected = numpy(layer(inputs))
        layer.enable_lora(2)
        np.testing.assert_array_equal(numpy(layer(inputs)), expected)
        assert len(layer.trainable_weights) == 2 * len(layer.kernel_names)
        for name in layer.kernel_names:
            getattr(layer, f"{name}_lora_b").assign(
                normal(2, getattr(layer, name).shape[1])
            )
        assert np.abs(numpy(layer(inputs)) - expected).max() > 1e-3
        with pytest.raises(ValueError, match="has adapters already"):
            layer.enable_lora(2)
        with pytest.raises(ValueError, match="has adapters"):
            layer.quantize("int8")
    layer = LAYERS["attention"]()
    with pytest.raises(ValueError, match="is not built"):
        layer.enable_lora(2)
    layer.build((3, 5, 16))
    with pytest.raises(ValueError, match="no matrix 'kernel'"):
        layer.enable_lora(2, kernels=("kernel",))
