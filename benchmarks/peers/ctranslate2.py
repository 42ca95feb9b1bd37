"""CTranslate2 with this package's weights, in a process without PyTorch."""

import os

import ctranslate2

from peers.batches import LENGTH


def decoder(rows, beam_size, folder, compute_type, share, **_):
    """`share`: each thread has a part of the batch, else all have the whole of it."""
    threads = os.cpu_count()
    workers = threads if share else 1
    translator = ctranslate2.Translator(
        folder,
        compute_type=compute_type,
        inter_threads=workers,
        intra_threads=threads // workers,
    )
    pieces = [[str(number) for number in ids[:-1]] for ids in rows]  # it adds the end

    def decode():
        found = translator.translate_batch(
            pieces,
            beam_size=beam_size,
            max_batch_size=-(-len(pieces) // workers),
            min_decoding_length=LENGTH,
            max_decoding_length=LENGTH,
        )
        return [[int(piece) for piece in result.hypotheses[0]] for result in found]

    return decode
