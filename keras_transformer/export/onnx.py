"""ONNX: encoder and decoder step as two graphs, and the search around them in words.

B batch, S source positions, W beam width, L length of the cache, V vocabulary, C
continuations asked for, H heads, K head_dim.
"""

from pathlib import Path
from typing import Any

from keras_transformer import backends
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.export import process
from keras_transformer.export import web_page
from keras_transformer.export.description import describe_graphs
from keras_transformer.export.description import describe_translator
from keras_transformer.export.description import export_folder
from keras_transformer.export.description import write_common
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.translator import Translator

QUANTIZATIONS = ("int8",)
_FILES = {"encoder": "encoder.onnx", "step": "step.onnx"}
#: What an export of this format may hold, beside what every export with a program may.
_OWN_FILES = [*_FILES.values(), *web_page.FILES, *web_page.NPM_FILES]
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
    web: bool = False,
    assets: str | Path | None = None,
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
        web: whether to write a page, too, `index.html`, that translates in a browser.
        assets: a folder where npm installed the packages of the page, which are copied;
            without it a warning says how to get them.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own.

    Returns:
        The path of the folder.

    Raises:
        InputError: an unknown quantization, a model of another kind, an option that is
            not right or that no export has (samples, MBR, splitting long lines), a
            folder that cannot be written, a package that is missing, or a tokenizer
            that the page cannot run.

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
    if web:
        tokenizers = translator.tokenizer, translator.target_tokenizer
        web_page.check(*tokenizers, assets=assets)
    elif assets is not None:
        raise InputError("assets are for the page; ask for it with web=True or --web")
    checks.require_packages(what, *packages)
    if backends.name != "tensorflow" or model.dtype_policy.name != "float32":
        given = {"quantization": quantization, "card": card, "web": web, **options}
        given["assets"] = None if assets is None else str(assets)
        process.export(__name__, translator, output, **given)
    else:
        facts = {"quantization": quantization}
        with export_folder(output, "ONNX", _OWN_FILES, _PROGRAMS) as folder:
            if web:
                facts["page"] = web_page.write(folder, assets)
            description = describe_translator(translator, "onnx", decoding) | facts
            description |= _write_graphs(model, decoding, quantization, folder)
            write_common(translator, description, _PROGRAMS, folder, card)
    if web:
        web_page.warn_of_missing(Path(output))
    return Path(output)


def _write_graphs(
    model: TranslationModel,
    decoding: DecodingOptions,
    quantization: str | None,
    folder: Path,
) -> dict[str, Any]:
    """Writes the graphs of encoder and step; returns what `model.json` says of them."""
    from keras_transformer.export import onnx_graph
    from keras_transformer.export.decoding_graph import DecodingGraph

    graphs = DecodingGraph(model, decoding)
    attention = decoding.coverage_penalty > 0
    described = describe_graphs(model.config, *_FILES.values(), attention=attention)
    write = onnx_graph.write_int8 if quantization == "int8" else onnx_graph.write
    for name, file in _FILES.items():
        function, signature = getattr(graphs, name)()
        facts = described["graphs"][name]
        write(onnx_graph.convert(function, signature, facts), folder / file)
    return {"opset": onnx_graph.OPSET, **described}
