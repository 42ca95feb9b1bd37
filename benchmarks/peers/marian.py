"""Hugging Face's Marian model, in the loop of `torch_nn.py` and by its `generate`."""

import torch
from torch import nn
from transformers import CompileConfig
from transformers import MarianConfig
from transformers import MarianMTModel

from peers.batches import END
from peers.batches import PAD
from peers.batches import SIZES
from peers.batches import START
from peers.batches import padded
from peers.device import torch_device
from peers.torch_nn import loop


def config(preset, vocabulary_size, dropout=0.1):
    layers, D, inner, H = SIZES[preset]
    return MarianConfig(
        vocab_size=vocabulary_size,
        d_model=D,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        encoder_attention_heads=H,
        decoder_attention_heads=H,
        dropout=dropout,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=END,
        decoder_start_token_id=START,
        forced_eos_token_id=None,
    )


class Model(nn.Module):
    def __init__(self, preset, vocabulary_size):
        super().__init__()
        self.marian = MarianMTModel(config(preset, vocabulary_size))

    def forward(self, source, target):
        return self.marian(
            input_ids=source,
            attention_mask=source != PAD,
            decoder_input_ids=target,
            decoder_attention_mask=target != PAD,
            use_cache=False,
        ).logits


def trainer(data, preset, vocabulary_size, bfloat16, compiled=False):
    return loop(Model(preset, vocabulary_size), data, bfloat16, compiled)


def decoder(preset, vocabulary_size, bfloat16, static=False, **_):
    """`static`: caches of fixed size, and a compiled step."""
    device = torch_device()
    model = MarianMTModel(config(preset, vocabulary_size)).to(device).eval()
    if bfloat16:
        model.bfloat16()
    options = {"do_sample": False}
    if static:
        compiling = CompileConfig()
        compiling._compile_all_devices = True  # by itself it compiles on GPUs alone
        options |= {"cache_implementation": "static", "compile_config": compiling}

    def decode(rows, length, beam_size):
        source = torch.from_numpy(padded(rows)).long().to(device)
        found = model.generate(
            source,
            attention_mask=source != PAD,
            num_beams=beam_size,
            min_new_tokens=length,
            max_new_tokens=length,
            **options,
        )
        return found[:, 1:].cpu().numpy()

    return decode
