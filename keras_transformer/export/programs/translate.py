"""Translates with the model of this folder: lines in, lines out.

    python translate.py [--beam-size 4] [--scores] < source.txt > target.txt

Where `top_beams` in `model.json` is above 1, a line for each hypothesis: number of the
source line, rank, score and translation, with tabs between.

It needs numpy, sentencepiece (unless `listed_pieces.py` is there) and what `engine.py`
imports, and no part of the toolkit that trained the model. `model.json` says what
happens here in words.
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from engine import Engine

#: What a search does where a `model.json` of an earlier version does not say.
DEFAULTS = {
    "top_beams": 1,
    "normalization": "gnmt",
    "coverage_penalty": 0.0,
    "patience": None,
    "min_length": 0,
    "max_length": None,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "forced_start": None,
    "forced_end": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "long_lines": "error",
    "max_source_length": None,
}
#: What of it needs several hypotheses.
_OF_BEAMS = (
    "top_beams",
    "coverage_penalty",
    "patience",
    "num_beam_groups",
    "diversity_penalty",
)


class Translator:
    """The model of an export: strings to strings.

    Args:
        folder: of the export.
        threads: how many the engine may use; 0 leaves it to the engine.
    """

    def __init__(self, folder: str | Path, threads: int = 0) -> None:
        folder = Path(folder)
        self.description = described(folder)
        files = self.description["files"]
        for graph in self.description.get("graphs", {}).values():
            file_of(folder, graph["file"])  # the engine's
        self.source, self.target = (
            tokenizer_of(file_of(folder, files[name]))
            for name in ("source_tokenizer", "target_tokenizer")
        )
        self.engine = Engine(folder, self.description, threads)

    def translate(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        length_penalty: float | None = None,
        batch_size: int = 64,
    ) -> list[str]:
        """The translation of each line, in order; options are `hypotheses`'."""
        rows = self.hypotheses(lines, beam_size, length_penalty, batch_size)
        return [self.text(hypotheses[0]) if hypotheses else "" for hypotheses in rows]

    def hypotheses(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        length_penalty: float | None = None,
        batch_size: int = 64,
        top_beams: int | None = None,
    ) -> list[list[Any]]:
        """The hypotheses of each line, best first; none for an empty line.

        Args:
            lines: strings.
            beam_size: 1 is greedy search, without what needs several hypotheses.
                Default, as that of all options: `search` in `model.json`.
            length_penalty: of the normalizations `gnmt` and `power`.
            batch_size: lines that are translated together.
            top_beams: how many hypotheses, at most `beam_size`.
        """
        options = self._options(beam_size, length_penalty, top_beams)
        if batch_size < 1:
            raise ValueError("batch_size must be at least 1")
        filled = [n for n, line in enumerate(lines) if not self._is_empty(line)]
        sources = [self._encode(lines[number], number + 1) for number in filled]
        hypotheses: list[list[Any]] = [[] for _ in lines]
        # Lines of similar length share a batch.
        order = np.argsort([-len(ids) for ids in sources], kind="stable")
        size = max(len(order), 1) if self.engine.makes_batches else batch_size
        for first in range(0, len(order), size):
            rows = order[first : first + size]
            batch = [sources[row] for row in rows]
            limits = [self._limit(ids) for ids in batch]
            results = self.engine.search(
                batch, limits, options=options, batch_size=batch_size
            )
            for row, result in zip(rows, results, strict=True):
                if not result:
                    raise ValueError(
                        f"line {filled[row] + 1}: the options in model.json forbid "
                        f"every token before a translation can end; suppress fewer, or "
                        f"allow repetitions"
                    )
                hypotheses[filled[row]] = result
        return hypotheses

    def text(self, hypothesis: Any) -> str:
        """The text of a hypothesis, on one line."""
        end = self.description["ids"]["end"]
        ids = hypothesis.ids
        if self.description["search"]["forced_start"] is not None:
            ids = ids[1:]
        ids = [token for token in ids if token != end]
        return self.target.decode([ids])[0].replace("\n", " ")

    def _is_empty(self, line: str) -> bool:
        """Whether the tokenizer's normalization leaves nothing of a line."""
        text = self.source.normalize(line).replace("\u2581", " ")
        return re.fullmatch(r"[\s\0\u200c\u200d]*", text) is not None

    def _options(
        self,
        beam_size: int | None,
        length_penalty: float | None,
        top_beams: int | None,
    ) -> dict[str, Any]:
        """What `search` in `model.json` says, with what is given in its place."""
        options = dict(self.description["search"])
        if beam_size is not None:
            options["beam_size"] = beam_size
        if length_penalty is not None:
            options["length_penalty"] = length_penalty
        if options["beam_size"] < 1:
            raise ValueError("beam_size must be at least 1")
        if not 0 <= options["length_penalty"] < float("inf"):
            raise ValueError("length_penalty must be a number from 0")
        if options["beam_size"] == 1:
            options |= {name: DEFAULTS[name] for name in _OF_BEAMS}
        if top_beams is not None:
            options["top_beams"] = top_beams
        options["top_beams"] = min(options["top_beams"], options["beam_size"])
        if options["beam_size"] % options["num_beam_groups"]:
            raise ValueError(
                f"num_beam_groups {options['num_beam_groups']} of model.json does not "
                f"divide beam_size {options['beam_size']}; give a multiple of it"
            )
        return options

    def _encode(self, line: str, number: int) -> list[int]:
        around = self._around()
        ids = self.source.encode([around["prefix"] + line])[0]
        start, end = around["before"], around["after"]
        count = len(start) + len(ids) + len(end)
        longest = self.description["limits"]["longest_sequence"]
        search = self.description["search"]
        longest = min(longest, search["max_source_length"] or longest)
        if count <= longest:
            return [*start, *ids, *end]
        if search["long_lines"] == "truncate":
            kept = longest - len(end)
            print(
                f"warning: line {number} has {count} tokens: only the first {kept} are "
                f"translated",
                file=sys.stderr,
            )
            return [*[*start, *ids][:kept], *end]
        raise ValueError(
            f"line {number} has {count} tokens, but the model takes at most {longest}; "
            f"split it into sentences"
        )

    def _around(self) -> dict[str, Any]:
        """What stands around a line: text before it, ids before and after its own."""
        end = [self.description["ids"]["end"]] * self.description["source_end"]
        plain = {"prefix": "", "before": [], "after": end}
        return self.description.get("languages", plain)

    def _limit(self, ids: list[int]) -> int:
        """The most ids of the translation, the end included."""
        limits, search = self.description["limits"], self.description["search"]
        around = self._around()
        usual = len(ids) - len(around["before"]) - len(around["after"])
        usual += limits["extra_length"]
        limit = max(search["max_length"] or usual, search["min_length"])
        return min(limit, limits["longest_sequence"])


def described(folder: Path) -> dict[str, Any]:
    """What `model.json` says, with what one of an earlier version leaves out."""
    description = json.loads(file_of(folder, "model.json").read_text("utf-8"))
    description["search"] = DEFAULTS | description["search"]
    for name, graph in description.get("graphs", {}).items():
        if "beam_size" in graph:  # it holds a search
            description["graphs"][name] = DEFAULTS | graph
    return description


def tokenizer_of(path: Path) -> Any:
    """The tokenizer of a file: a list of pieces, which is text, or SentencePiece's."""
    content = path.read_bytes()
    if content.startswith(b"{"):
        from listed_pieces import ListedPieces

        return ListedPieces(content)
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=str(path))


def file_of(folder: Path, name: str) -> Path:
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


def main() -> None:
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
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", newline="\n")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    rows = translator.hypotheses(
        [line.removesuffix("\n").removesuffix("\r") for line in sys.stdin],
        arguments.beam_size,
        arguments.length_penalty,
        arguments.batch_size,
    )
    top_beams = translator.description["search"].get("top_beams", 1)
    several = top_beams > 1 and arguments.beam_size != 1
    for number, hypotheses in enumerate(rows, 1):
        found = [(h.score, translator.text(h)) for h in hypotheses] or [(0.0, "")]
        for rank, (score, text) in enumerate(found, 1):
            if several:
                print(f"{number}\t{rank}\t{score:.6f}\t{text}")
            else:
                print(f"{score:.6f}\t{text}" if arguments.scores else text)
                break


if __name__ == "__main__":
    try:
        main()
    except ValueError as error:
        sys.exit(f"error: {error}")
