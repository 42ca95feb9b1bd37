"""CTranslate2: a model that runs in C++, filled straight from our weights."""

from pathlib import Path
from typing import Any

from keras_transformer.config.about import About
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.export import checks
from keras_transformer.export.ctranslate2_spec import check_config
from keras_transformer.export.ctranslate2_spec import specification
from keras_transformer.export.description import describe_translator
from keras_transformer.export.description import export_folder
from keras_transformer.export.description import write_common
from keras_transformer.models.kinds import refuse_subclass
from keras_transformer.models.weights import weight_values
from keras_transformer.translator import Translator

QUANTIZATIONS = ("int8", "int8_float32", "float16")
_FILES = [
    "model.bin",
    "config.json",
    "shared_vocabulary.json",
    "source_vocabulary.json",
    "target_vocabulary.json",
    KNOWN_WORDS,
]
_PROGRAMS = {"translate.py": "translate.py", "ctranslate2_engine.py": "engine.py"}


def export(
    translator: Translator,
    output: str | Path,
    *,
    quantization: str | None = None,
    card: str = "",
    **options: Any,
) -> Path:
    """Writes a folder that `ctranslate2.Translator` and C++ programs load.

    Beside the model it holds the tokenizers, `model.json` and a program
    `translate.py` that needs `ctranslate2` and `sentencepiece` alone. What of the
    options the library has, the program and `keras-transformer serve` hand on to it.
    Its own rules are in `engine.py`: it divides by length^length_penalty, which is the
    normalization `power`, and does so for `gnmt`, too; it ends a row after `patience`
    (without one, 1) * `beam_size` hypotheses, and gives the probability of what may not
    be chosen to the rest.

    Args:
        translator: what to export, on any backend.
        output: the folder; an older export of that name is replaced.
        quantization: None keeps float32, or one of `QUANTIZATIONS`: `"int8"` (the rest
            in the precision that the machine likes), `"int8_float32"` (the rest in
            float32), `"float16"` (halves the file; for GPUs).
        card: of the model, the beginning of the `README.md`.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own.

    Returns:
        The path of the folder.

    Raises:
        InputError: an unknown quantization, a model with a part that CTranslate2 does
            not have (it is named), an option that is not right or that it has not
            (coverage penalty, groups of beams; samples, MBR, splitting long lines), a
            folder that cannot be written, or no `ctranslate2`.

    Reference: Klein et al., 2020, https://aclanthology.org/2020.ngt-1.25; the library
    is https://github.com/OpenNMT/CTranslate2.
    """
    what = "the export to CTranslate2"
    checks.check_quantization(what, quantization, QUANTIZATIONS)
    model = checks.exportable_model(translator)
    checks.require_transformer(what, model)
    refuse_subclass(model, f"{what} takes")
    # Its coverage penalty counts padding, and so depends on other lines of a batch.
    decoding = checks.decoding_options(
        "ctranslate2", translator, options, own_search=False
    )
    checks.require_packages(what, "ctranslate2")
    config = model.config
    check_config(config)
    source_pieces, target_pieces = (
        tokenizer.pieces(range(tokenizer.vocabulary_size))
        for tokenizer in (translator.tokenizer, translator.target_tokenizer)
    )
    unknown_id = translator.target_tokenizer.unknown_id
    weights = weight_values(model)
    direction = translator.direction()
    spec = specification(
        config.model_copy(
            update={
                "start_id": direction.start_id,
                "source_end": config.source_end and translator.languages is None,
            }
        ),
        weights,
        source_pieces,
        target_pieces,
        unknown_id,
    )
    spec.optimize(quantization=quantization)
    description = describe_translator(translator, "ctranslate2", decoding)
    description["quantization"] = quantization
    pair = About(
        source_language=direction.source_language,
        target_language=direction.target_language,
    )
    if about := pair.filled(translator.about).model_dump(exclude_none=True):
        description["about"] = about
    known_words = translator.known_words
    if known_words is not None:  # for `serve`
        description["files"]["known_words"] = KNOWN_WORDS
    with export_folder(output, "CTranslate2", _FILES, _PROGRAMS) as folder:
        spec.save(str(folder))
        if known_words is not None:
            text = known_words.to_json()
            (folder / KNOWN_WORDS).write_text(text, encoding="utf-8")
        write_common(translator, description, _PROGRAMS, folder, card)
    return Path(output)
