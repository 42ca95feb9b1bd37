"""Data pipeline: text to token ids to batches; the phrasebook; and stories."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer.data import phrasebook as phrasebook
    from keras_transformer.data import stories as stories
    from keras_transformer.data.batching import TokenBatches as TokenBatches
    from keras_transformer.data.corpus import read_lines as read_lines
    from keras_transformer.data.corpus import read_pairs as read_pairs
    from keras_transformer.data.corpus import read_parallel as read_parallel
    from keras_transformer.data.corpus import read_tsv as read_tsv
    from keras_transformer.data.encoding import encode_pairs as encode_pairs
    from keras_transformer.data.filters import CorpusReport as CorpusReport
    from keras_transformer.data.known_words import KnownWords as KnownWords
    from keras_transformer.data.packing import PackedBatches as PackedBatches
    from keras_transformer.data.parallel_text import ParallelText as ParallelText
    from keras_transformer.data.span_corruption import SpanCorruption as SpanCorruption
    from keras_transformer.data.token_rows import EncodedPairs as EncodedPairs
    from keras_transformer.data.token_rows import TokenRows as TokenRows
    from keras_transformer.data.tokenizer import Tokenizer as Tokenizer

# Loaded on first use: only `batching` needs Keras.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=["phrasebook", "stories"],
    submod_attrs={
        "batching": ["TokenBatches"],
        "corpus": ["read_lines", "read_pairs", "read_parallel", "read_tsv"],
        "encoding": ["encode_pairs"],
        "filters": ["CorpusReport"],
        "known_words": ["KnownWords"],
        "packing": ["PackedBatches"],
        "parallel_text": ["ParallelText"],
        "span_corruption": ["SpanCorruption"],
        "token_rows": ["EncodedPairs", "TokenRows"],
        "tokenizer": ["Tokenizer"],
    },
)
