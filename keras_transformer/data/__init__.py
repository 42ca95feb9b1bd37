"""Text to ids to batches; the embedded phrasebook."""

import importlib

_HOME = {
    "CorpusReport": "filters",
    "EncodedPairs": "token_rows",
    "ParallelText": "parallel_text",
    "TokenBatches": "batching",
    "TokenRows": "token_rows",
    "Tokenizer": "tokenizer",
    "encode_pairs": "encoding",
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
