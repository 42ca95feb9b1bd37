"""Model FLOPs utilisation (MFU): the work training needs, against what a card does.

FLOPs of training = 6 x weights in matrix products x tokens + attention, where

* the encoder's weights, L (4 D^2 + 2 D F), meet source tokens,
* the decoder's, L (8 D^2 + 2 D F), and the output's, V D, meet target tokens,
* attention is 12 L D for each pair of a query and a key: products with keys and with
  values, 2 FLOPs a multiplication, forward and twice that backward. There are S S
  pairs in the encoder, T (T + 1) / 2 in the causal decoder and S T between the two.

Tokens are those of sentences, end tokens included; padding is not counted, so a batch
with padding has a lower MFU. What a program computes twice or in vain counts no more.

L layers, D hidden_dim, F intermediate_dim, V vocabulary, S and T tokens of a pair.

Reference: Chowdhery et al., 2022, https://arxiv.org/abs/2204.02311, appendix B.
"""

import re

import numpy as np

#: Dense bfloat16 TFLOP/s of the makers' data sheets, by model.
PEAKS = {
    "A10": 125,
    "A100": 312,
    "A10G": 70,
    "B200": 2250,
    "GH200": 989,
    "H100": 989,
    "H100 NVL": 835,
    "H100 PCIe": 756,
    "H200": 989,
    "H200 NVL": 835,
    "L4": 121,
    "L40": 181,
    "L40S": 362,
    "RTX 4090": 165,
}
#: A card's name: maker and line, the model, and how it is built.
_NAME = r"(NVIDIA |GeForce )*{model}([ -](SXM\d?|PCIE?|\d+GB?|HBM\w+))*"


def peak_of(name):
    """Dense bfloat16 FLOP/s of the card with this name; None where it is not known."""
    fitting = [
        model
        for model in PEAKS
        if re.fullmatch(_NAME.format(model=model), name, re.IGNORECASE)
    ]
    return 1e12 * PEAKS[max(fitting, key=len)] if fitting else None


def training_flops(size, vocabulary_size, source_lengths, target_lengths):
    """FLOPs of one forward and backward pass over sentence pairs.

    Args:
        size: (layers, D, F, heads), see `peers.batches.SIZES`.
        vocabulary_size: V.
        source_lengths: S of each pair, (pairs,).
        target_lengths: T of each pair, (pairs,).
    """
    layers, D, F, _ = size
    S, T = (
        np.asarray(lengths, np.float64) for lengths in (source_lengths, target_lengths)
    )
    encoder = layers * (4 * D**2 + 2 * D * F)
    decoder = layers * (8 * D**2 + 2 * D * F) + vocabulary_size * D
    products = 6 * (encoder * S.sum() + decoder * T.sum())
    pairs = S * S + T * (T + 1) / 2 + S * T
    return float(products + 12 * layers * D * pairs.sum())


def flops_per_token(size, vocabulary_size, data, pad_id=0):
    """FLOPs of training for each target token of batches (source, target, labels)."""
    total = tokens = 0
    for source, _, labels in data:
        lengths = [(ids != pad_id).sum(axis=1) for ids in (source, labels)]
        total += training_flops(size, vocabulary_size, *lengths)
        tokens += lengths[1].sum()
    return total / tokens
