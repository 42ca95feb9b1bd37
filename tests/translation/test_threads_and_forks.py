"""One translator for many threads, and in a process that is forked."""

import threading

import keras
import pytest

import keras_transformer as kt
from reference.weights import scatter

NUM_THREADS, NUM_CALLS = 16, 6
LINES = ("a house", "the dog", "dog", "house a")
OPTIONS = ({}, {"beam_size": 2})
SIZES = {
    "hidden_dim": 8,
    "num_heads": 2,
    "intermediate_dim": 8,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}


@pytest.fixture
def translator():
    tokenizer = kt.data.Tokenizer.train(["ein Haus a house, der Hund the dog"] * 9, 275)
    model = kt.Transformer({"vocabulary_size": 275, **SIZES})
    return kt.Translator(scatter(model, 0, deviation=0.5), tokenizer)


def test_many_threads_translate_with_one_fresh_translator(monkeypatch, translator):
    if keras.backend.backend() == "torch":  # each thread may be the one that traces
        monkeypatch.setattr("keras_transformer.backends.torch.EAGER_STEPS", 3)
    begun = threading.Barrier(NUM_THREADS)
    found = []

    def translate(thread):
        begun.wait()
        for call in range(thread, thread + NUM_CALLS):
            line = LINES[call % len(LINES)]
            options = OPTIONS[call // len(LINES) % len(OPTIONS)]
            try:
                result = translator.translate([line], max_length=6, **options)
            except Exception as error:
                result = error
            found.append((line, options, result))

    threads = [
        threading.Thread(target=translate, args=(number,), daemon=True)
        for number in range(NUM_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
    assert not any(thread.is_alive() for thread in threads)
    assert len(found) == NUM_THREADS * NUM_CALLS
    alone = {
        line: [translator.translate([line], max_length=6, **each) for each in OPTIONS]
        for line in LINES
    }
    assert len({str(texts) for texts in alone.values()}) > 1
    for line, options, result in found:
        assert result == alone[line][OPTIONS.index(options)]


FORKS = """
import os, signal, warnings
warnings.simplefilter("ignore")  # JAX has one of its own
import numpy as np
import keras_transformer as kt

tokenizer = kt.data.Tokenizer.train(["ein Haus a house, der Hund the dog"] * 9, 275)
def build():
    return kt.Transformer({"vocabulary_size": 275, **SIZES})
model = build()
translator = kt.Translator(model, tokenizer)
ids = np.array([[5, 6, 2]])
translator.translate(["a house"], max_length=2)
def translate():
    translator.translate(["a house"], max_length=2)
def call():
    model({"source": ids, "target": ids})
for work in (translate, call, build):
    child = os.fork()
    if not child:
        signal.alarm(60)  # it hangs no longer
        try:
            work()
        except RuntimeError as error:
            told = "spawn" in str(error) and "forked" in str(error)
            os._exit(3 if told else 4)
        os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_of_a_process_that_has_translated_says_what_to_do(run_python):
    assert run_python(f"SIZES = {SIZES}{FORKS}").split() == ["3", "3", "3"]
