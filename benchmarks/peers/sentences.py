"""Real sentences as ids, for `gpu/decoding.py`.

python -m peers.sentences FILE OPTIONS_AS_JSON, in the folder of benchmarks
"""

import itertools
import json
import sys
from pathlib import Path

from keras_transformer.data import Tokenizer
from keras_transformer.data import phrasebook
from keras_transformer.data import read_lines
from peers.batches import END

#: Of a tokenizer that is made here: its pieces, and the sentences that make it.
PIECES, TRAINED = 4000, 5000
LONGEST = 127


def main():
    path, options = sys.argv[1], json.loads(sys.argv[2])
    Path(path).write_text(json.dumps(encoded(**options)), encoding="utf-8")


def encoded(count, vocabulary_size, source=None, tokenizer=None):
    """`count` lists of ids, the end token last.

    Args:
        count: a shorter text is repeated.
        vocabulary_size: of the model.
        source: file of sentences; None: the embedded phrasebook, in English.
        tokenizer: file of a SentencePiece model; None: it is made of the sentences.
    """
    if source:
        known = lines = read_lines(source)
    else:
        known, lines = (
            phrasebook.load("en", "de", split)[0] for split in ("train", "test")
        )
    if tokenizer:
        model = Tokenizer.load(tokenizer)
    else:
        model = Tokenizer.train(known[:TRAINED], min(PIECES, vocabulary_size))
    rows = [[*ids[:LONGEST], END] for ids in model.encode(lines) if ids]
    return list(itertools.islice(itertools.cycle(rows), count))


if __name__ == "__main__":
    main()
