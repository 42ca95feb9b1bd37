"""The sizes that tests use: distinct primes, so that no two axes can be mistaken."""

BATCH = 5  # B
TARGET_LENGTH = 7  # T
SOURCE_LENGTH = 11  # S
NUM_HEADS = 2  # H
HEAD_DIM = 13  # K
VALUE_DIM = 19
INTERMEDIATE_DIM = 23  # F
HIDDEN_DIM = NUM_HEADS * 17  # D: even, as sinusoids want it, and H divides it
VOCABULARY_SIZE = 53  # V
BEAM_SIZE = 3  # W
MAX_SEQUENCE_LENGTH = 29

#: Valid lengths of a batch of sources and of targets: all unequal to one another.
SOURCE_LENGTHS = (11, 4, 9, 2, 6)
TARGET_LENGTHS = (3, 7, 1, 6, 5)
