"""LiteRT: encoder, decoder step and whole searches as signatures of one file.

B batch, S source positions, L most tokens.
"""

import tempfile
from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.export.description import describe_graphs
from keras_transformer.export.description import describe_searches
from keras_transformer.export.description import describe_translator
from keras_transformer.export.description import export_folder
from keras_transformer.export.description import write_common
from keras_transformer.models.search import search
from keras_transformer.translator import Translator

QUANTIZATIONS = ("float16", "int8")
_FILE = "model.tflite"
_PROGRAMS = {
    "translate.py": "translate.py",
    "search.py": "search.py",
    "litert_engine.py": "engine.py",
}


def export(
    translator: Translator, output: str | Path, *, quantization: str | None = None
) -> Path:
    """Writes a folder with `model.tflite`, of built-in operations alone.

    Its signatures are `greedy` and `beam`, from source ids to target ids with the
    loop inside (`beam` with the beam size and length penalty of the translator), and
    `encoder` and `step` for a loop of one's own, as in ONNX. Batch and lengths are
    free. `model.json` describes them; `translate.py` translates with `ai-edge-litert`,
    `numpy` and `sentencepiece` alone.

    Args:
        translator: what to export; on JAX and PyTorch a TensorFlow process does it.
        output: the folder; an older export of that name is replaced.
        quantization: None keeps float32; `"float16"` halves the file; `"int8"` keeps
            matrices in 8 bits and quantizes activations as they come (dynamic range).

    Returns:
        The path of the folder.

    Raises:
        InputError: an unknown quantization, a model of another kind, a folder that
            cannot be written, or a package that is missing.

    Reference: https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/
    post_training_quantization.
    """
    what = "the export to LiteRT"
    checks.check_quantization(what, quantization, QUANTIZATIONS)
    checks.check_translator(translator)
    checks.require_transformer(what, translator.model)
    checks.require_packages(what, "tensorflow", extras="tensorflow")
    if backends.name != "tensorflow" or translator.model.dtype_policy.name != "float32":
        return process.export(__name__, translator, output, quantization=quantization)
    with export_folder(output, "LiteRT", [_FILE], _PROGRAMS) as folder:
        description = describe_translator(translator, "litert")
        description["quantization"] = quantization
        graphs = describe_graphs(translator.model.config, _FILE)
        graphs["graphs"] |= describe_searches(translator, _FILE)
        content = _convert(translator, quantization)
        (folder / _FILE).write_bytes(content)
        write_common(translator, description | graphs, _PROGRAMS, folder)
    return Path(output)


def _convert(translator: Translator, quantization: str | None) -> bytes:
    import tensorflow as tf

    module = tf.Module()
    module.weights = [weight.value for weight in translator.model.weights]
    signatures = {
        name: tf.function(function, autograph=False, input_signature=signature)
        for name, (function, signature) in _functions(translator).items()
    }
    with tempfile.TemporaryDirectory() as folder:
        # Through a SavedModel, so that all signatures share the weights.
        tf.saved_model.save(module, folder, signatures=signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(signatures)
        )
        if quantization is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantization == "float16":
            converter.target_spec.supported_types = [tf.float16]
        return converter.convert()


def _functions(translator: Translator) -> dict[str, Any]:
    """Functions and what they take, by the name of their signature."""
    import tensorflow as tf

    from keras_transformer.export.decoding_graph import DecodingGraph

    graph = DecodingGraph(translator.model)
    inputs = [
        tf.TensorSpec((None, None), tf.int32, name="source"),
        tf.TensorSpec((None,), tf.int32, name="limits"),
        tf.TensorSpec((), tf.int32, name="length"),
    ]

    def searching(beam_size):
        options = DecodingOptions(
            beam_size=beam_size, length_penalty=translator.length_penalty
        )

        def run(source, limits, length):
            result = search(
                translator.model,
                source,
                limits,
                length=length,
                options=options,
                table_length=translator.model.config.longest_sequence,
            )
            # Without prefixes the last is no tensor.
            return dict(list(result._asdict().items())[:-1])

        return run, inputs

    functions = {"encoder": graph.encoder(), "step": graph.step()}
    functions["greedy"] = searching(1)
    if translator.beam_size > 1:
        functions["beam"] = searching(translator.beam_size)
    return functions
