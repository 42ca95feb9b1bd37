"""x-transformers' encoder and decoder, in the loop of `torch_nn.py`."""

from torch import nn
from x_transformers import Decoder
from x_transformers import Encoder
from x_transformers import TransformerWrapper

from peers.batches import PAD
from peers.batches import SIZES
from peers.torch_nn import loop


class Model(nn.Module):
    def __init__(self, preset, vocabulary_size, dropout=0.1):
        super().__init__()
        layers, D, inner, H = SIZES[preset]
        blocks = {
            "dim": D,
            "depth": layers,
            "heads": H,
            "attn_dim_head": D // H,
            "attn_flash": True,
            "attn_dropout": dropout,
            "ff_mult": inner / D,
            "ff_dropout": dropout,
        }
        ends = {
            "num_tokens": vocabulary_size,
            "max_seq_len": 512,
            "scaled_sinu_pos_emb": True,
            "emb_dropout": dropout,
        }
        self.encoder = TransformerWrapper(attn_layers=Encoder(**blocks), **ends)
        self.encoder.to_logits = None  # of the decoder alone
        self.decoder = TransformerWrapper(
            attn_layers=Decoder(cross_attend=True, **blocks), tie_embedding=True, **ends
        )
        self.decoder.token_emb = self.encoder.token_emb

    def forward(self, source, target):
        mask = source != PAD
        memory = self.encoder(source, mask=mask, return_embeddings=True)
        return self.decoder(
            target, mask=target != PAD, context=memory, context_mask=mask
        )


def trainer(data, preset, vocabulary_size, bfloat16, compiled=False):
    return loop(Model(preset, vocabulary_size), data, bfloat16, compiled)
