"""Search algorithms: from `decode_step` to sequences and scores, for any model."""

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.decoding.beam_search import beam_search
from keras_transformer.decoding.greedy_search import greedy_search
from keras_transformer.decoding.length_penalty import length_penalty
from keras_transformer.decoding.sampling import sample
from keras_transformer.decoding.search_result import SearchResult

__all__ = [
    "DecodingOptions",
    "SearchResult",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "sample",
]
