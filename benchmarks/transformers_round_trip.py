"""A model to `transformers` and back: the same weights, and the same greedy texts?

    KERAS_BACKEND=torch python benchmarks/transformers_round_trip.py MODEL --source F
        [--lines 1000]

Exports the model folder, imports the export, and compares weights bit for bit,
tokenizers and options. Then `transformers` translates the lines greedily; each text
that differs from ours is listed with its margin: how much more probable their class
holds the piece that it chose there than the one that we chose. A text that our length
limit cut off is compared up to there. Exits with 1 where
something did not come back, or more than 2 in 1000 texts differ.
"""

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM
from transformers import AutoTokenizer

import keras_transformer as kt
from keras_transformer.export import transformers as export
from keras_transformer.models.weights import weight_values

BATCH_SIZE = 50
SHARE = 2 / 1000  # of texts that may differ


def returned(ours, folder):
    """What differs of a translator that was exported to a folder and imported."""
    found = kt.Translator.load(folder)
    values, expected = weight_values(found.model), weight_values(ours.model)
    return [
        *(p for p in expected if not np.array_equal(values.get(p), expected[p])),
        *(name for name in ("decoding", "languages") if _differs(found, ours, name)),
        *(
            name
            for name in ("tokenizer", "target_tokenizer")
            if getattr(found, name).model != getattr(ours, name).model
        ),
    ]


def _differs(found, expected, name):
    return getattr(found, name) != getattr(expected, name)


class Theirs:
    """A folder of `transformers`, and how it translates."""

    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def batch(self, lines):
        return self.tokenizer(lines, return_tensors="pt", padding=True)

    def translate(self, lines):
        """Ids of each line, without the start token."""
        with torch.no_grad():
            found = self.model.generate(**self.batch(lines), num_beams=1)
        return [row[1:] for row in found.tolist()]

    def text(self, ids):
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        return text.replace("\n", " ")  # ours are lines

    def margin(self, line, ids, other):
        """Where two rows of ids part, and the difference of log-probabilities there."""
        pairs = enumerate(zip(ids, other, strict=False))
        place = next(i for i, pair in pairs if pair[0] != pair[1])
        start = self.model.generation_config.decoder_start_token_id
        target = torch.tensor([[start, *ids[:place]]])
        with torch.no_grad():
            result = self.model(
                **self.batch([line]), decoder_input_ids=target, use_cache=False
            )
        logits = result.logits[0, -1]
        return place, float(logits[ids[place]] - logits[other[place]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--source", required=True)
    parser.add_argument("--lines", type=int, default=1000)
    arguments = parser.parse_args()
    ours = kt.Translator.load(arguments.model)
    lines = [line for line in kt.data.read_lines(arguments.source) if line.strip()]
    lines = lines[: arguments.lines]
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "exported"
        with warnings.catch_warnings(record=True) as differences:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            export.export(ours, output)
        back = kt.importing.convert(output, Path(folder) / "returned").folder
        lost = returned(ours, back)
        theirs = Theirs(output)
    print(f"{type(theirs.model).__name__}, {ours.model.config.num_weights} weights")
    for difference in differences:
        print(f"said of it: {difference.message}")
    print(f"came back unlike: {', '.join(lost) or 'nothing'}")
    begun = time.perf_counter()
    expected = ours.translate(lines, beam_size=1, return_details=True)
    seconds = time.perf_counter() - begun
    begun, found = time.perf_counter(), []
    for first in range(0, len(lines), BATCH_SIZE):
        found += theirs.translate(lines[first : first + BATCH_SIZE])
    theirs_seconds = time.perf_counter() - begun
    unlike = 0
    for line, ids, (hypothesis,) in zip(lines, found, expected, strict=True):
        if not hypothesis.finished:  # our limit depends on the length of the source
            ids = ids[: len(hypothesis.ids)]
        if theirs.text(ids) == hypothesis.text.strip():
            continue
        unlike += 1
        place, margin = theirs.margin(line, ids, hypothesis.ids)
        print(f"{line}\n  ours:   {hypothesis.text}\n  theirs: {theirs.text(ids)}")
        print(f"  part at piece {place}, by {margin:.2e}")
    print(f"{len(lines) - unlike} of {len(lines)} greedy texts are the same")
    print(f"seconds: ours {seconds:.1f}, theirs {theirs_seconds:.1f}")
    sys.exit(bool(lost) or unlike > SHARE * len(lines))


if __name__ == "__main__":
    main()
