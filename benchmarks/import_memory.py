"""Memory that importing and loading a model takes, beside the size of its weights.

    KERAS_BACKEND=torch python benchmarks/import_memory.py [--vocabulary 256206]

Writes an NLLB folder of random weights with the sizes of NLLB's 600 million, imports it
and loads the model folder. Prints the peak of the process above that of one with its
backend imported, as a ratio to the weights. Linux only.
"""

import argparse
import io
import json
import multiprocessing
import tempfile
from pathlib import Path

import keras

import keras_transformer as kt
from keras_transformer.backends import host_memory

LINES = ["the cat sleeps under the old table", "die Katze schläft unter dem Tisch"]


def write_nllb(folder, fields):
    """An NLLB folder of random weights; few of the rows have pieces."""
    import sentencepiece
    from transformers import M2M100Config
    from transformers import M2M100ForConditionalGeneration

    M2M100ForConditionalGeneration(M2M100Config(**fields)).save_pretrained(folder)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 9),
        model_writer=model,
        vocab_size=30,
        minloglevel=2,
    )
    (folder / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    (folder / "tokenizer_config.json").write_text(json.dumps({}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", type=int, default=256_206)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    fields = {"vocab_size": options.vocabulary, "d_model": options.dim}
    for side in ("encoder", "decoder"):
        fields[f"{side}_layers"] = options.layers
        fields[f"{side}_ffn_dim"] = 4 * options.dim
        fields[f"{side}_attention_heads"] = 16
    keras.ops.convert_to_numpy(keras.ops.ones((64, 64)) @ keras.ops.ones((64, 64)))
    begin = host_memory.peak_memory(lambda: None)

    with tempfile.TemporaryDirectory() as name:
        foreign, folder = Path(name, "foreign"), Path(name, "model")
        # In a process of its own: this one shall not have held the weights.
        writer = multiprocessing.get_context("spawn").Process(
            target=write_nllb, args=(foreign, fields)
        )
        writer.start()
        writer.join()
        if writer.exitcode:
            raise SystemExit("the folder was not written")
        size = 4 * kt.importing.inspect(foreign).num_weights
        print(f"{keras.backend.backend()}: {size / 1e9:.2f} GB of weights", flush=True)

        def report(what, function):
            peak = (host_memory.peak_memory(function) - begin) / size
            bound = 1.2 + 2**29 / size
            print(
                f"{what}: {peak:.2f} times the weights; at most {bound:.2f}", flush=True
            )

        report("importing", lambda: kt.importing.convert(foreign, folder))
        report("loading", lambda: kt.Translator.load(folder))


if __name__ == "__main__":
    main()
