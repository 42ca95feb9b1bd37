"""Text to ids to batches; the embedded phrasebook."""

import importlib

_HOME = {
    "CorpusReport": "corpus",
    "EncodedPairs": "corpus",
    "ParallelText": "corpus",
    "TokenBatches": "batching",
    "TokenRows": "corpus",
    "Tokenizer": "tokenizer",
    "encode_pairs": "corpus",
    "phrasebook": None,
    "read_lines": "corpus",
    "read_parallel": "corpus",
    "read_tsv": "corpus",
}

__all__ = list(_HOME)


def __getattr__(name):
    # On first use: only `batching` needs Keras.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name] or name}")
    return getattr(module, name) if _HOME[name] else module


def __dir__():
    return __all__
