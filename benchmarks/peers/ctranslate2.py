"""CTranslate2 with this package's weights, in a process without PyTorch."""

import os

import ctranslate2


def decoder(folder, compute_type, share=False, **_):
    """`share`: each thread has a part of the batch, else all have the whole of it."""
    on_gpu = ctranslate2.get_cuda_device_count() > 0
    threads = 1 if on_gpu else os.cpu_count()
    workers = threads if share else 1
    translator = ctranslate2.Translator(
        folder,
        device="cuda" if on_gpu else "cpu",
        compute_type=compute_type,
        inter_threads=workers,
        intra_threads=threads // workers,
    )

    def decode(rows, length, beam_size):
        pieces = [
            [str(number) for number in ids[:-1]] for ids in rows
        ]  # it adds the end
        found = translator.translate_batch(
            pieces,
            beam_size=beam_size,
            max_batch_size=-(-len(pieces) // workers),
            min_decoding_length=length,
            max_decoding_length=length,
        )
        return [[int(piece) for piece in result.hypotheses[0]] for result in found]

    return decode
