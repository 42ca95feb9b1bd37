"""torch.nn.Transformer in a loop of one's own."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from peers.batches import PAD
from peers.batches import SIZES
from peers.device import torch_device


class Model(nn.Module):
    def __init__(self, preset, vocabulary_size, dropout=0.1):
        super().__init__()
        layers, D, inner, H = SIZES[preset]
        self.embedding = nn.Embedding(vocabulary_size, D)
        nn.init.normal_(self.embedding.weight, std=D**-0.5)
        self.transformer = nn.Transformer(
            D, H, layers, layers, inner, dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        places = torch.arange(1024)[:, None]
        rates = torch.exp(torch.arange(0, D, 2) * (-math.log(10_000) / D))
        table = torch.zeros(1024, D)
        table[:, 0::2] = torch.sin(places * rates)
        table[:, 1::2] = torch.cos(places * rates)
        self.register_buffer("table", table)

    def embed(self, ids):
        vectors = self.embedding(ids) * self.embedding.embedding_dim**0.5
        return self.dropout(vectors + self.table[: ids.shape[1]])

    def forward(self, source, target):
        length = target.shape[1]
        causal = torch.ones(
            length, length, dtype=torch.bool, device=target.device
        ).triu(1)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=causal,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
            tgt_is_causal=True,
        )
        return F.linear(hidden, self.embedding.weight)


def trainer(data, preset, vocabulary_size, bfloat16, compiled=False):
    return loop(Model(preset, vocabulary_size), data, bfloat16, compiled)


def loop(model, data, bfloat16, compiled=False):
    """`train(steps)` of a module (source, target) -> logits, its ids on the device.

    `compiled`: `torch.compile` has made the forward pass, the loss and their gradients.
    """
    device = torch_device()
    model.to(device).train()
    optimizer = torch.optim.Adam(
        model.parameters(), 1e-3, (0.9, 0.98), 1e-9, fused=True
    )
    rows = [[torch.from_numpy(ids).long().to(device) for ids in row] for row in data]
    taken = 0

    def loss_of(source, target, labels):
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            logits = model(source, target)
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=PAD,
            label_smoothing=0.1,
        )

    if compiled:
        loss_of = torch.compile(loss_of)

    def train(steps):
        nonlocal taken
        for _ in range(steps):
            loss = loss_of(*rows[taken % len(rows)])
            taken += 1
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return train
