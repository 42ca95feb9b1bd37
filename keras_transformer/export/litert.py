"""LiteRT: encoder, decoder step and whole searches as signatures of one file.

B batch, S source positions, L most tokens.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.export.description import describe_graphs
from keras_transformer.export.description import describe_searches
from keras_transformer.export.description import describe_translator
from keras_transformer.export.description import export_folder
from keras_transformer.export.description import write_common
from keras_transformer.models.search import search
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors
from keras_transformer.translator import Translator

QUANTIZATIONS = ("float16", "int8")
_FILE = "model.tflite"
_PROGRAMS = {
    "translate.py": "translate.py",
    "search.py": "search.py",
    "rules.py": "rules.py",
    "litert_engine.py": "engine.py",
}


def export(
    translator: Translator,
    output: str | Path,
    *,
    quantization: str | None = None,
    card: str = "",
    **options: Any,
) -> Path:
    """Writes a folder with `model.tflite`, of built-in operations alone.

    Its signatures are `greedy` and `beam`, from source ids to target ids with the
    loop inside (`greedy` without what needs several hypotheses), and `encoder` and
    `step` for a loop of one's own, as in ONNX. LiteRT has no operation for
    `no_repeat_ngram_size` and `repetition_penalty`: with them there is the loop of
    one's own alone. Batch and lengths are free. `model.json` describes all;
    `translate.py` translates with `ai-edge-litert`, `numpy` and `sentencepiece` alone.

    Args:
        translator: what to export; on JAX and PyTorch a TensorFlow process does it.
        output: the folder; an older export of that name is replaced.
        quantization: None keeps float32; `"float16"` halves the file; `"int8"` keeps
            matrices in 8 bits and quantizes activations as they come (dynamic range).
        card: of the model, the beginning of the `README.md`.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own.

    Returns:
        The path of the folder.

    Raises:
        InputError: an unknown quantization, a model of another kind, an option that is
            not right or that no export has (samples, MBR, splitting long lines), a
            folder that cannot be written, or a package that is missing.

    Reference: https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/
    post_training_quantization.
    """
    what = "the export to LiteRT"
    checks.check_quantization(what, quantization, QUANTIZATIONS)
    model = checks.exportable_model(translator)
    checks.require_transformer(what, model)
    decoding = checks.decoding_options("litert", translator, options)
    checks.require_packages(what, "tensorflow")
    if backends.name != "tensorflow" or model.dtype_policy.name != "float32":
        given = {"quantization": quantization, "card": card, **options}
        return process.export(__name__, translator, output, **given)
    with export_folder(output, "LiteRT", [_FILE], _PROGRAMS) as folder:
        description = describe_translator(translator, "litert", decoding)
        description["quantization"] = quantization
        attention = decoding.coverage_penalty > 0
        graphs = describe_graphs(model.config, _FILE, attention=attention)
        graphs["graphs"] |= describe_searches(_searches(decoding), _FILE)
        start = translator.direction().start_id
        content = _convert(model, decoding, quantization, start)
        (folder / _FILE).write_bytes(content)
        write_common(translator, description | graphs, _PROGRAMS, folder, card)
    return Path(output)


def _searches(options: DecodingOptions) -> dict[str, DecodingOptions]:
    """The searches that are in the file, by the name of their signature."""
    if options.no_repeat_ngram_size or options.repetition_penalty != 1:
        return {}
    searches = {"greedy": options.updated(GREEDY)}
    return searches | ({"beam": options} if options.beam_size > 1 else {})


def _convert(
    model: TranslationModel,
    options: DecodingOptions,
    quantization: str | None,
    start_id: int,
) -> bytes:
    import tensorflow as tf

    module = tf.Module()
    module.weights = [weight.value for weight in model.weights]
    signatures = {
        name: tf.function(function, autograph=False, input_signature=signature)
        for name, (function, signature) in _functions(model, options, start_id).items()
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


def _functions(
    model: TranslationModel, options: DecodingOptions, start_id: int
) -> dict[str, tuple[Callable[..., Tensors], list[Any]]]:
    """Functions and their `tf.TensorSpec`s, by the name of their signature."""
    import tensorflow as tf

    from keras_transformer.export.decoding_graph import DecodingGraph

    graph = DecodingGraph(model, options)
    inputs = [
        tf.TensorSpec((None, None), tf.int32, name="source"),
        tf.TensorSpec((None,), tf.int32, name="limits"),
        tf.TensorSpec((), tf.int32, name="length"),
    ]

    def searching(
        chosen: DecodingOptions,
    ) -> tuple[Callable[..., Tensors], list[Any]]:
        def run(source: Tensor, limits: Tensor, length: Tensor) -> dict[str, Tensor]:
            first = {"start": tf.zeros_like(limits) + start_id}
            result = search(
                model,
                source,
                limits,
                first if start_id != model.config.start_id else (),
                length=length,
                options=chosen,
                table_length=model.config.longest_sequence,
            )
            # Without prefixes the last is no tensor.
            return dict(list(result._asdict().items())[:-1])

        return run, inputs

    functions = {"encoder": graph.encoder(), "step": graph.step()}
    for name, chosen in _searches(options).items():
        functions[name] = searching(chosen)
    return functions
