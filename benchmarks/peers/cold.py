"""One peer of `cold.py`: a file of lines into a file of translations, once.

python -m peers.cold NAME FOLDER LINES OUTPUT TOKENS BEAM, in the folder of benchmarks

Batches of 64 lines of similar length; the translations are written in the order of the
lines.
"""

import os
import sys
from pathlib import Path

BATCH = 64


def transformers(folder, lines, tokens, beam_size):
    import torch
    from transformers import AutoModelForSeq2SeqLM
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "marian")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder / "marian").eval()
    order = sorted(range(len(lines)), key=lambda row: -len(lines[row].split()))
    found = [""] * len(lines)
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        batch = tokenizer(
            [lines[row] for row in rows], return_tensors="pt", padding=True
        )
        with torch.inference_mode():
            ids = model.generate(
                **batch,
                num_beams=beam_size,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                max_length=None,
            )
        texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
        for row, text in zip(rows, texts, strict=True):
            found[row] = text
    return found


def ctranslate2(folder, lines, tokens, beam_size, compute_type="float32"):
    import ctranslate2
    import sentencepiece

    folder = folder / "ctranslate2"
    translator = ctranslate2.Translator(
        str(folder), compute_type=compute_type, intra_threads=os.cpu_count()
    )
    (path,) = folder.glob("*.model")
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(path))
    found = translator.translate_batch(
        tokenizer.encode(lines, out_type=str),
        max_batch_size=BATCH,  # it sorts the lines by length
        beam_size=beam_size,
        min_decoding_length=tokens,
        max_decoding_length=tokens,
    )
    return tokenizer.decode([result.hypotheses[0] for result in found])


def ctranslate2_int8(folder, lines, tokens, beam_size):
    return ctranslate2(folder, lines, tokens, beam_size, "int8")


def main():
    name, folder, source, output, tokens, beam_size = sys.argv[1:]
    lines = Path(source).read_text(encoding="utf-8").splitlines()
    translate = {
        "transformers": transformers,
        "ctranslate2": ctranslate2,
        "ctranslate2_int8": ctranslate2_int8,
    }[name]
    found = translate(Path(folder), lines, int(tokens), int(beam_size))
    Path(output).write_text("".join(f"{line}\n" for line in found), encoding="utf-8")


if __name__ == "__main__":
    main()
