"""That new numbers of a search need no new program."""

import importlib

import keras
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding.numbers import as_inputs
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.sentence import Sentence

SENTENCES = [Sentence([5, 9, 7, 2]), Sentence([4, 8, 2])]
VALUES = {
    "length_penalty": [0.0, 0.4, 1.2],
    "temperature": [0.3, 0.8, 2.5],
    "max_length": [9, 11, 13],
    "repetition_penalty": [1.1, 1.5, 4.0],
    "min_length": [3, 5, 7],
    "top_p": [0.2, 0.5, 0.9],
}
OTHERS = {"temperature": {"sampling": True}, "top_p": {"sampling": True}}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=20, num_encoder_layers=1, num_decoder_layers=1
    )
    return kt.Transformer(config)


@pytest.fixture
def count_programs(model, monkeypatch):
    """A function that says how many programs have been made."""
    if backends.name == "torch":
        backend = importlib.import_module("keras_transformer.backends.torch")
        monkeypatch.setattr(backend, "EAGER_STEPS", 1)
        owner, name = backend, "trace"
    else:
        owner, name = model, "encode"
    calls, original = [], getattr(owner, name)

    def counted(*arguments, **options):
        calls.append(name)
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, counted)
    return lambda: len(calls)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("length_penalty", marks=pytest.mark.one_backend),
        "max_length",
        pytest.param("temperature", marks=pytest.mark.one_backend),
    ],
)
def test_new_values_of_a_number_need_no_new_program(model, count_programs, name):
    search, counts = BatchSearch(model), []
    for value in VALUES[name]:
        options = DecodingOptions(**OTHERS.get(name, {}), **{name: value})
        search.translate(SENTENCES, options, batch_size=2)
        counts.append(count_programs())
    assert counts[0] > 0
    assert counts == [counts[0]] * len(counts)


def test_first_tokens_of_several_languages_need_no_new_program(
    model, count_programs, monkeypatch
):
    monkeypatch.setattr(backends, "num_programs", lambda: 1)  # both lines in one batch
    search, counts = BatchSearch(model), []
    for first in ([5, 9], [9, 12], [None, 7]):
        sentences = [
            sentence._replace(forced_start=start)
            for sentence, start in zip(SENTENCES, first, strict=True)
        ]
        found = search.translate(sentences, DecodingOptions(), batch_size=2)
        for (best,), start in zip(found, first, strict=True):
            assert start is None or best.ids[0] == start
        counts.append(count_programs())
    assert counts[0] > 0
    assert counts == [counts[0]] * len(counts)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", VALUES)
def test_programs_are_of_equal_options_whatever_the_numbers(name):
    options = [
        as_inputs(DecodingOptions(**OTHERS.get(name, {}), **{name: value}))
        for value in VALUES[name]
        if name != "max_length"  # of which a search knows nothing
    ]
    assert len({program for program, _ in options}) <= 1
    assert len({float(numbers[name]) for _, numbers in options}) == len(options)


SEARCH = {"length_penalty": 0.1, "repetition_penalty": 1.01, "min_length": 2}
DRAWS = {"sampling": True, "temperature": 0.01, "top_p": 0.1}


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "first, second",
    [
        (SEARCH, {"length_penalty": 3.0, "repetition_penalty": 30.0, "min_length": 6}),
        (DRAWS, {"sampling": True, "temperature": 9.0, "top_p": 0.999}),
    ],
)
def test_a_program_heeds_the_numbers_of_each_call(model, first, second):
    shared, found = BatchSearch(model), []
    for fields in (first, second):
        options = DecodingOptions(**fields, max_length=8)
        found.append(shared.translate(SENTENCES, options, batch_size=2))
    alone = BatchSearch(model).translate(SENTENCES, options, batch_size=2)
    assert found[1] == alone
    assert found[0] != alone


@pytest.mark.one_backend
def test_a_gpu_compiles_fewer_programs_and_pads_more(model, monkeypatch):
    """Its seconds of compiling are worth more positions."""
    needs = [(64, 128), *[(64, 16)] * 200]  # rows and source positions of each batch

    def shapes(on_gpu):
        monkeypatch.setattr(backends, "on_gpu", lambda: on_gpu)
        return set(BatchSearch(model)._plan().shared(needs))

    small = sum(weight.value.numel() for weight in model.weights)
    saved = 200 * 64 * (128 - 16)
    assert 3e11 / small < saved < 1e14 / small
    assert shapes(on_gpu=False) == {(64, 128), (64, 16)}
    assert shapes(on_gpu=True) == {(64, 128)}
