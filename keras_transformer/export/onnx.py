"""ONNX: encoder and decoder step as two graphs, and the search around them in words.

B batch, S source positions, W beam width, L length of the cache, V vocabulary, C
continuations asked for, H heads, K head_dim.
"""

from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.export.description import describe_graphs
from keras_transformer.export.description import describe_translator
from keras_transformer.export.description import export_folder
from keras_transformer.export.description import write_common
from keras_transformer.translator import Translator

QUANTIZATIONS = ("int8",)
_FILES = {"encoder": "encoder.onnx", "step": "step.onnx"}
_PROGRAMS = {
    "translate.py": "translate.py",
    "search.py": "search.py",
    "rules.py": "rules.py",
    "onnx_engine.py": "engine.py",
}


def export(
    translator: Translator,
    output: str | Path,
    *,
    quantization: str | None = None,
    card: str = "",
    **options: Any,
) -> Path:
    """Writes a folder with `encoder.onnx`, `step.onnx` and what a search needs.

    Batch, beam width, lengths and the number of continuations are free. `model.json`
    names inputs and outputs and says in words how a search uses them, for a program in
    any language; `translate.py` is that program for Python, with `onnxruntime`,
    `numpy` and `sentencepiece` alone.

    Args:
        translator: what to export; on JAX and PyTorch a TensorFlow process does it.
        output: the folder; an older export of that name is replaced.
        quantization: None keeps float32; `"int8"` keeps matrices and embeddings in 8
            bits and quantizes activations as they come (ONNX Runtime's dynamic
            quantization).
        card: of the model, the beginning of the `README.md`.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own.

    Returns:
        The path of the folder.

    Raises:
        InputError: an unknown quantization, a model of another kind, an option that is
            not right or that no export has (samples, MBR, splitting long lines), a
            folder that cannot be written, or a package that is missing.

    Reference: https://onnx.ai/onnx/operators; https://onnxruntime.ai/docs/performance/
    model-optimizations/quantization.html.
    """
    what = "the export to ONNX"
    checks.check_quantization(what, quantization, QUANTIZATIONS)
    packages = ["tensorflow", "tf2onnx", "onnx"]
    if quantization is not None:
        packages.append("onnxruntime")
    model = checks.exportable_model(translator)
    checks.require_transformer(what, model)
    decoding = checks.decoding_options("onnx", translator, options)
    checks.require_packages(what, *packages)
    if backends.name != "tensorflow" or model.dtype_policy.name != "float32":
        given = {"quantization": quantization, "card": card, **options}
        return process.export(__name__, translator, output, **given)
    from keras_transformer.export import onnx_graph
    from keras_transformer.export.decoding_graph import DecodingGraph

    graphs = DecodingGraph(model, decoding)
    description = describe_translator(translator, "onnx", decoding)
    description |= {"quantization": quantization, "opset": onnx_graph.OPSET}
    attention = decoding.coverage_penalty > 0
    files = _FILES.values()
    description |= describe_graphs(model.config, *files, attention=attention)
    write = onnx_graph.write_int8 if quantization == "int8" else onnx_graph.write
    with export_folder(output, "ONNX", [*_FILES.values()], _PROGRAMS) as folder:
        for name, file in _FILES.items():
            function, signature = getattr(graphs, name)()
            facts = description["graphs"][name]
            write(onnx_graph.convert(function, signature, facts), folder / file)
        write_common(translator, description, _PROGRAMS, folder, card)
    return Path(output)
