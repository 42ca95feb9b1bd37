"""What a model attends to in one sentence."""

import numpy as np
from keras import ops


def attention_weights(model, source, target):
    """What the model's own methods give for one sentence, without padding."""
    source, target = (ops.convert_to_tensor([ids]) for ids in (source, target))
    memory, mask, encoder = model.encode(source, return_attention_weights=True)
    _, decoder, cross = model.decode(
        target, memory, mask, return_attention_weights=True
    )
    found = {"encoder": encoder, "decoder": decoder, "cross": cross}
    return {
        kind: np.concatenate([ops.convert_to_numpy(layer) for layer in layers])
        for kind, layers in found.items()
    }
