"""SavedModel: strings to strings in TensorFlow and TF Serving, without Keras.

`<output>/<version>/` is TF Serving's layout. A version holds the graph with its
tokenizers and searches, warm-up requests and parameters of batching.
"""

import os
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.export.card import saved_model_card
from keras_transformer.export.description import longest_source
from keras_transformer.files.output_folder import new_folder
from keras_transformer.translator import Translator

_BATCHING = """\
# tensorflow_model_server --enable_batching --batching_parameters_file=<this file>
# The most texts of a request, and of the requests that are translated together.
max_batch_size { value: 128 }
# Parts of a request are answered in batches of their own, and put together again as if
# all answers had one width, which those of encode and translate_ids have not.
enable_large_batch_splitting { value: false }
# How long the first request of a batch waits for others.
batch_timeout_micros { value: 5000 }
max_enqueued_batches { value: 64 }
# As many as there are cores.
num_batch_threads { value: 2 }
# For translate_ids, whose `lengths` say what of a row counts; text needs none.
pad_variable_length_inputs: true
"""


def export(
    translator: Translator,
    output: str | Path,
    *,
    version: int | None = None,
    warm_up: Sequence[str] | None = None,
    card: str = "",
    **options: Any,
) -> Path:
    """Writes `<output>/<version>/`, whole or not at all, and `<output>/README.md`.

    That card is of the highest version, which TF Serving takes.

    Where Keras runs on JAX or PyTorch, or the model in mixed precision, a TensorFlow
    process of its own writes it, in float32.

    Signatures, all with the batch B as the first axis of every input and output:

    * `serving_default`: `text` (B,) -> `translation` (B,), `score` (B,), `finished`
      (B,), False where the length limit cut the translation, and `truncated` (B,), True
      where the line was longer than the model takes and only its beginning was
      translated. `translate_greedy` is the same with greedy search, which has the
      options that need no second hypothesis.
    * `translate_n_best`: `text` -> `translations`, `scores`, `log_probabilities`,
      `num_tokens` and `finished`, all (B, R), best first, and `truncated`. A place
      without a hypothesis has 0 tokens and the lowest float32 as its score. R is
      `top_beams` where that is above 1, else `beam_size`, and where that is 1 four.
    * `translate_ids`: `ids` (B, S) and `lengths` (B,) without special ids, what is
      beyond a length does not count -> `ids` (B, T), `num_tokens`, `score`, `finished`,
      `truncated`, True too where a length is not from 0 to S, and `replaced` (B,), True
      where the row held a special id or none of the vocabulary, and the unknown id took
      its place. A `forced_start` is the first of the `ids`, and no part of a text.
    * `encode`: `text` -> `memory` (B, S, D), `mask` (B, S), `truncated`.
    * `score`: `source` and `target` (B,) -> `log_probability`, `num_tokens`,
      `truncated`.

    Where the model gives NaN, the score is NaN and the translation empty.

    Args:
        translator: what to export.
        output: the folder of the model, whose name TF Serving knows it by.
        version: a positive number that does not exist yet; default: the next one.
        warm_up: lines for the warm-up requests, of which the first eight with text
            are taken, and the first for the card; default: pieces of the vocabulary,
            and a card without an example.
        card: of the model, the beginning of README.md.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own. A line of more than `max_source_length` tokens is cut and
            marked, under `long_lines="error"` too.

    Returns:
        The folder of the version.

    Raises:
        InputError: a version that exists, a folder that holds something else or
            cannot be written, an option that is not right or that no export has
            (samples, MBR, splitting long lines), a tokenizer that is no SentencePiece
            model, or no TensorFlow or TensorFlow Text.

    Reference: Olston et al., 2017, TensorFlow-Serving: Flexible, High-Performance ML
    Serving, https://arxiv.org/abs/1712.06139.
    """
    what = "the export to SavedModel"
    checks.exportable_model(translator)
    checks.require_graph_of_tokenizers(what, translator)
    decoding = checks.decoding_options("saved_model", translator, options)
    packages = ("tensorflow", "tensorflow_text")
    checks.require_packages(what, *packages)
    precision = getattr(translator.model, "compute_dtype", "float32")
    if backends.name != "tensorflow" or precision != "float32":
        return process.export(
            __name__,
            translator,
            output,
            version=version,
            warm_up=warm_up,
            card=card,
            **options,
        )
    output = Path(os.path.abspath(output))  # "." has a name then
    version = _version(output, version)
    is_empty = translator.tokenizer.is_empty
    lines = _samples(translator) if warm_up is None else _first(warm_up, is_empty)
    with new_folder(output / str(version), "a version") as folder:
        answer = _write(translator, folder, decoding, lines)
        text = saved_model_card(
            card,
            None if warm_up is None else lines[0],
            answer,
            name=output.name,
            version=version,
            options=decoding,
            languages=translator.direction().label,
            longest=longest_source(translator.model.config, decoding),
        )
        (folder / "README.md").write_text(text, encoding="utf-8")
    folder = output / str(version)
    written = folder / "README.md"
    if version == max(_numbers(path.name for path in output.iterdir())):
        written.replace(output / "README.md")
    else:  # the server takes the highest, and the commands of the card are for that
        written.unlink()
    return folder


def _numbers(names: Iterable[str]) -> list[int]:
    return [int(name) for name in names if name.isascii() and name.isdigit()]


def _version(output: Path, version: int | None) -> int:
    """The version that is asked for, or one more than the highest that is there."""
    try:
        names = [path.name for path in output.iterdir()] if output.exists() else []
    except OSError as error:
        raise InputError(
            f"cannot write {output}: {error.strerror}; choose another folder"
        ) from None
    numbers = _numbers(names)
    foreign = [
        name
        for name in names
        if not (name.isascii() and name.isdigit())
        and name != "README.md"
        and not name.startswith(".")
    ]
    if foreign:
        raise InputError(
            f"{output} holds {min(foreign)}, which is not a version of a SavedModel; "
            f"choose another folder"
        )
    if version is None:
        return max(numbers, default=0) + 1
    if version < 1 or version in numbers:
        why = "is there already" if version in numbers else "is not above 0"
        raise InputError(
            f"version {version} of {output} {why}; choose another, or none for the next"
        )
    return version


def _write(
    translator: Translator, folder: Path, options: DecodingOptions, lines: list[str]
) -> dict[str, Any]:
    """All but the card; returns what `serving_default` says of the first line."""
    import tensorflow as tf

    from keras_transformer.export import warm_up
    from keras_transformer.export.signatures import Signatures

    signatures = Signatures(translator, options)
    functions = signatures.functions()
    try:
        tf.saved_model.save(
            signatures.module,
            str(folder),
            signatures=functions,
            options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
        )
        warm_up.write(_requests(translator, lines), folder)
    except (tf.errors.ResourceExhaustedError, tf.errors.PermissionDeniedError) as error:
        raise InputError(f"cannot write {folder}: {error.message}") from None
    (folder / "batching_params.pbtxt").write_text(_BATCHING, encoding="utf-8")
    answer = functions["serving_default"](text=tf.constant(lines[:1]))
    answer = {name: value[0].numpy() for name, value in answer.items()}
    return {
        "translation": answer["translation"].decode(errors="replace"),
        "score": round(float(answer["score"]), 6),
        "finished": bool(answer["finished"]),
        "truncated": bool(answer["truncated"]),
    }


def _first(lines: Sequence[str], is_empty: Callable[[str], bool]) -> list[str]:
    """Eight lines with text, or as many as there are."""
    if filled := [line for line in lines if not is_empty(line)][:8]:
        return filled
    raise InputError("no line for the warm-up requests has text; give at least one")


def _samples(translator: Translator) -> list[str]:
    """A short and a long line of the vocabulary: what they say does not matter."""
    size = translator.tokenizer.vocabulary_size
    ids = range(size // 2, min(size // 2 + 24, size))
    return translator.tokenizer.decode([list(ids)[:6], list(ids)])


def _requests(
    translator: Translator, lines: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """A request for each signature, and one of a full batch for the first."""
    ids = translator.tokenizer.encode(lines)
    width = max(map(len, ids))
    padded = [[*row, *[0] * (width - len(row))] for row in ids]
    yield "serving_default", {"text": lines[:1]}
    yield "serving_default", {"text": (lines * 32)[:32]}
    for name in ("translate_greedy", "translate_n_best", "encode"):
        yield name, {"text": lines}
    yield "translate_ids", {"ids": padded, "lengths": [len(row) for row in ids]}
    yield "score", {"source": lines, "target": lines}
