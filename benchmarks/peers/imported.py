"""One program of `imported_speed.py`: text to text with the folder of that benchmark.

python -m peers.imported NAME OPTIONS_AS_JSON, in the folder of benchmarks
"""

import itertools
import json
import os
import sys
import time
from pathlib import Path

from turns import serve

LENGTH = 32  # tokens of a translation
LINES, BATCHES = 128, 8  # the most of them


def ours(folder):
    """`translate(lines, beam_size)`, as everywhere below."""
    import keras_transformer as kt

    translator = kt.Translator.load(folder / "ours")
    options = {"min_length": LENGTH, "max_length": LENGTH}

    def translate(lines, beam_size):
        size = {"beam_size": beam_size, "batch_size": len(lines)}
        return translator.translate(lines, **size, **options)

    return translate


def transformers(folder):
    import torch
    from transformers import AutoModelForSeq2SeqLM
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "marian")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "marian").eval()

    def translate(lines, beam_size):
        batch = tokenizer(lines, return_tensors="pt", padding=True)
        with torch.inference_mode():
            found = model.generate(
                **batch,
                num_beams=beam_size,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
                max_length=None,
            )
        return tokenizer.batch_decode(found, skip_special_tokens=True)

    return translate


def ctranslate2(folder):
    import ctranslate2
    import sentencepiece

    folder = folder / "ctranslate2"
    translator = ctranslate2.Translator(str(folder), intra_threads=os.cpu_count())
    (path,) = folder.glob("*.model")
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def translate(lines, beam_size):
        found = translator.translate_batch(
            tokenizer.encode(lines, out_type=str),
            beam_size=beam_size,
            min_decoding_length=LENGTH,
            max_decoding_length=LENGTH,
        )
        return tokenizer.decode([result.hypotheses[0] for result in found])

    return translate


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    program = {"ours": ours, "transformers": transformers, "ctranslate2": ctranslate2}
    translate = program[name](Path(options["folder"]))
    from keras_transformer.data import phrasebook

    text = phrasebook.load("en", "de", "test")[0]
    text = [line for line in text if 30 <= len(line) <= 60]  # one length, nearly
    ready = set()

    def work(job):
        batch, beam_size = job["batch"], job["beam_size"]
        # The same for each program and round.
        count = max(min(LINES // batch, BATCHES), 1)
        batches = [text[i * batch : (i + 1) * batch] for i in range(count)]
        if (batch, beam_size) not in ready:
            for lines in batches:  # compiles what shapes there are
                translate(lines, beam_size)
            ready.add((batch, beam_size))
        sentences, start = 0, time.perf_counter()
        for lines in itertools.cycle(batches):
            if sentences and time.perf_counter() - start >= options["seconds"]:
                break
            found = translate(lines, beam_size)
            if len(found) != len(lines):
                raise ValueError(f"{len(found)} translations of {len(lines)} lines")
            sentences += len(lines)
        return {"sentences_per_second": sentences / (time.perf_counter() - start)}

    serve(work)


if __name__ == "__main__":
    main()
