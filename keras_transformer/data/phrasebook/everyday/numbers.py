"""The numbers that stand before nouns, as words: two, zwei, deux."""

from keras_transformer.data.phrasebook.everyday.lexicon import phrases

NUMBERS = {each.english: each for each in phrases("numbers")}
