"""Translates with the model of this folder: lines in, lines out.

    python translate.py [--beam-size 4] [--scores] < source.txt > target.txt

It needs numpy, sentencepiece and what `engine.py` imports, and no part of the toolkit
that trained the model. `model.json` says what happens here in words.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import numpy as np
import sentencepiece
from engine import Engine


class Translator:
    """The model of an export: strings to strings.

    Args:
        folder: of the export.
        threads: how many the engine may use; 0 leaves it to the engine.
    """

    def __init__(self, folder, threads=0):
        folder = Path(folder)
        path = file_of(folder, "model.json")
        self.description = json.loads(path.read_text("utf-8"))
        files = self.description["files"]
        for graph in self.description.get("graphs", {}).values():
            file_of(folder, graph["file"])  # the engine's
        self.source, self.target = (
            sentencepiece.SentencePieceProcessor(
                model_file=str(file_of(folder, files[name]))
            )
            for name in ("source_tokenizer", "target_tokenizer")
        )
        self.engine = Engine(folder, self.description, threads)

    def translate(self, lines, beam_size=None, length_penalty=None, batch_size=64):
        """The translation of each line, in order."""
        rows = self.hypotheses(lines, beam_size, length_penalty, batch_size)
        return [self.text(hypotheses[0]) if hypotheses else "" for hypotheses in rows]

    def hypotheses(
        self, lines, beam_size=None, length_penalty=None, batch_size=64, top_beams=1
    ):
        """The hypotheses of each line, best first; none for an empty line."""
        defaults = self.description["search"]
        beam_size = defaults["beam_size"] if beam_size is None else beam_size
        if length_penalty is None:
            length_penalty = defaults["length_penalty"]
        filled = [n for n, line in enumerate(lines) if not self._is_empty(line)]
        sources = [self._encode(lines[number], number + 1) for number in filled]
        found = [[] for _ in lines]
        # Lines of similar length share a batch.
        order = np.argsort([-len(ids) for ids in sources], kind="stable")
        size = max(len(order), 1) if self.engine.makes_batches else batch_size
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            batch = [sources[row] for row in rows]
            results = self.engine.search(
                batch,
                [self._limit(ids) for ids in batch],
                beam_size=beam_size,
                top_beams=top_beams,
                length_penalty=length_penalty,
                batch_size=batch_size,
            )
            for row, hypotheses in zip(rows, results, strict=True):
                found[filled[row]] = hypotheses
        return found

    def text(self, hypothesis):
        """The text of a hypothesis, on one line."""
        end = self.description["ids"]["end"]
        ids = [token for token in hypothesis.ids if token != end]
        return self.target.decode(ids).replace("\n", " ")

    def _is_empty(self, line):
        """Whether the tokenizer's normalization leaves nothing of a line."""
        left = self.source.normalize(line).replace("\u2581", " ")
        return re.fullmatch(r"[\s\0\u200c\u200d]*", left) is not None

    def _encode(self, line, number):
        ids = self.source.encode(line)
        if self.description["source_end"]:
            ids = [*ids, self.description["ids"]["end"]]
        longest = self.description["limits"]["longest_sequence"]
        if len(ids) > longest:
            raise ValueError(
                f"line {number} has {len(ids)} tokens, but the model takes at most "
                f"{longest}; split it into sentences"
            )
        return ids

    def _limit(self, ids):
        """The most ids of the translation, the end included."""
        limits = self.description["limits"]
        content = len(ids) - self.description["source_end"]
        return min(content + limits["extra_length"], limits["longest_sequence"])


def file_of(folder, name):
    """The path of a file of a folder, which may come from anybody.

    Raises ValueError where the file lies elsewhere, as `..`, an absolute path or a link
    would have it, or is none.
    """
    path = folder / str(name)
    is_inside = path.resolve().is_relative_to(folder.resolve())
    if not (is_inside and path.is_file()):
        raise ValueError(
            f"{name!r} is not a file of the folder {folder}; export the model again, "
            f"or copy the whole folder, without links to elsewhere"
        )
    return path


def main():
    """Reads lines, writes translations."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--beam-size", type=int)
    parser.add_argument("--length-penalty", type=float)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--scores", action="store_true", help="score, tab, text")
    arguments = parser.parse_args()
    translator = Translator(Path(__file__).parent, arguments.threads)
    # As the command line of the toolkit: without a byte order mark.
    sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    rows = translator.hypotheses(
        [line.removesuffix("\n").removesuffix("\r") for line in sys.stdin],
        arguments.beam_size,
        arguments.length_penalty,
        arguments.batch_size,
    )
    for hypotheses in rows:
        text = translator.text(hypotheses[0]) if hypotheses else ""
        score = hypotheses[0].score if hypotheses else 0.0
        print(f"{score:.6f}\t{text}" if arguments.scores else text)


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"error: {error}")
