"""Text to ids to batches; the embedded phrasebook."""

import lazy_loader

# On first use: only `batching` needs Keras.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["phrasebook"],
    submod_attrs={
        "batching": ["TokenBatches"],
        "corpus": ["read_lines", "read_pairs", "read_parallel", "read_tsv"],
        "encoding": ["encode_pairs"],
        "filters": ["CorpusReport"],
        "known_words": ["KnownWords"],
        "parallel_text": ["ParallelText"],
        "token_rows": ["EncodedPairs", "TokenRows"],
        "tokenizer": ["Tokenizer"],
    },
)
