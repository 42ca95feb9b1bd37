"""The Neural GPU in NumPy float64, for one row of symbols: a loop over cells.

T positions of the tape, W columns of the tape, D hidden_dim, V vocabulary.
"""

import numpy as np

from reference import numpy_layers as layers


def neural_gpu(weights, source, target=None, width=4, num_layers=2):
    """Ids (T,) and, with an output tape, (T,) -> logits (T, V)."""
    output = weights["output_embedding/embeddings"].T
    state = _tape(_embedded(weights, "source", source), width)
    for _ in source:
        for index in range(num_layers):
            state = unit(layers.below(weights, f"encoder_{index}"), state)
    if target is None:
        return state[:, 0] @ output
    logits = []
    symbols = _embedded(weights, "target", target)
    for position in range(len(target)):
        written = np.zeros_like(symbols)
        written[: position + 1] = symbols[: position + 1]
        for index in range(num_layers):
            below = layers.below(weights, f"decoder_{index}")
            state = unit(below, state, _tape(written, width))
        logits.append(state[position, 0] @ output)
    return np.array(logits)


def unit(weights, state, tape=None):
    """The tape (T, W, D) after a convolutional gated recurrent unit."""
    size = state.shape[-1]
    read = np.zeros((*state.shape[:2], 3 * size))
    if tape is not None:
        read = _convolved(tape, weights["tape_kernel"])
    gates = _convolved(state, weights["gates_kernel"]) + weights["gates_bias"]
    gates = 1.2 / (1.0 + np.exp(-gates - read[..., : 2 * size])) - 0.1
    gates = np.minimum(np.maximum(gates, 0.0), 1.0)
    update, reset = gates[..., :size], gates[..., size:]
    candidate = _convolved(reset * state, weights["candidate_kernel"])
    candidate = np.tanh(candidate + read[..., 2 * size :] + weights["candidate_bias"])
    return update * state + (1.0 - update) * candidate


def _convolved(cells, kernel):
    length, width, _ = cells.shape
    sums = np.zeros((length, width, kernel.shape[-1]))
    for row in range(length):
        for column in range(width):
            for down in range(kernel.shape[0]):
                for right in range(kernel.shape[1]):
                    t = row + down - kernel.shape[0] // 2
                    w = column + right - kernel.shape[1] // 2
                    if 0 <= t < length and 0 <= w < width:
                        sums[row, column] += cells[t, w] @ kernel[down, right]
    return sums


def _embedded(weights, side, ids):
    matrix = weights[f"{side}_embedding/embeddings"]
    return matrix[ids] * np.sqrt(matrix.shape[1])


def _tape(first_column, width):
    tape = np.zeros((len(first_column), width, first_column.shape[1]))
    tape[:, 0] = first_column
    return tape
