"""Hugging Face `transformers`: a folder that its model and tokenizer classes load."""

import json
import warnings
from collections.abc import Iterable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.config.transformers_layout import LAYER_NORM_EPSILON
from keras_transformer.config.transformers_layout import OWN_KEY
from keras_transformer.config.transformers_layout import Layout
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.export import transformers_files as files
from keras_transformer.export.tokenizer_json import has_tokenizer_json
from keras_transformer.files.output_folder import new_folder
from keras_transformer.layers import sinusoidal_table
from keras_transformer.models.kinds import refuse_subclass
from keras_transformer.models.weights import weight_values
from keras_transformer.translator import Translator

FORMAT_VERSION = 1
_MARKERS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
)
_OTHERS = (
    *("model.safetensors", "vocab.json", "target_vocab.json", "README.md", KNOWN_WORDS),
    *("source.spm", "target.spm", "source.pieces", "target.pieces"),
    *("vocab-src.json", "vocab-tgt.json", "merges.txt", "tokenizer.json"),
)

_CARD = """{card}

# For transformers

A `{name}` with the weights of this model{order}, and its tokenizer. It needs the
packages `transformers`, `torch` and `{package}`:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
batch = tokenizer([{example}], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```

What differs from `keras-transformer translate`:

{notes}
"""


def export(
    translator: Translator, output: str | Path, *, card: str = "", **options: Any
) -> Path:
    """Writes a folder that `transformers` loads; needs `safetensors` alone.

    The model class is the one that computes the same: `MarianMTModel` for the paper's
    model, whose hidden dimension is reordered for that. The tokenizer is a
    `MarianTokenizer` of our SentencePiece files, or where languages stand behind a
    text a `PreTrainedTokenizerFast` of one pair of languages, or of lists of pieces a
    `BartTokenizer` or `FSMTTokenizer`. The search is theirs; it has our options, and
    `README.md` names what differs. Our own config and options go along under a key of
    `config.json`: an import of the folder gives back the same model.

    Args:
        translator: what to export, on any backend.
        output: the folder; an older export of that name is replaced.
        card: of the model, the beginning of the `README.md`.
        options: fields of `DecodingOptions`, such as `beam_size=2`, in place of the
            translator's own.

    Returns:
        The path of the folder.

    Raises:
        InputError: a model with a part that no class of theirs has (it is named), an
            option that is not right or that their search has not (coverage penalty,
            groups of beams, a patience other than 1; samples, MBR, splitting long
            lines), languages that stand where their tokenizer has no place, a folder
            that cannot be written, or no `safetensors`.

    Warns:
        UserWarning: where their class or search differs from ours, for each such thing.

    Reference: Wolf et al., 2020, https://aclanthology.org/2020.emnlp-demos.6; the
    library is https://github.com/huggingface/transformers.
    """
    what = "the export to transformers"
    model = checks.exportable_model(translator)
    checks.require_transformer(what, model)
    refuse_subclass(model, f"{what} takes")
    decoding = checks.decoding_options(
        "transformers", translator, options, own_search=False
    )
    if decoding.patience not in (None, 1.0):
        raise InputError(
            f"the format transformers has no patience {decoding.patience:g}; give "
            f"--patience 1 or --patience none to export without it"
        )
    layout = Layout(model.config)
    _check_languages(translator)
    languages = translator.languages
    direction = translator.direction()
    checks.require_packages(what, "safetensors")
    from safetensors.numpy import save_file

    differences = list(_differences(layout, decoding, languages))
    for difference in differences:
        warnings.warn(difference, stacklevel=2)
    own_config = _own_config(translator, translator.decoding.updated(options))
    contents = {
        "config.json": files.model_config(layout, direction) | {OWN_KEY: own_config},
        "generation_config.json": files.generation_config(
            layout.config, decoding, direction
        ),
        **files.tokenizer_files(translator, decoding, direction),
    }
    tensors = dict(layout.tensors(weight_values(model)))
    tensors.update(_tables(layout))
    name = Path(output).resolve().name
    notes = [*differences, *_notes(translator, direction)]
    with new_folder(output, "an export to transformers", _MARKERS, _OTHERS) as folder:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        for file, content in contents.items():
            if not isinstance(content, str):
                content = json.dumps(content, indent=2, ensure_ascii=False)
            _write(folder / file, content)
        ending = "spm" if translator.tokenizer.listed is None else "pieces"
        translator.tokenizer.save(folder / f"source.{ending}")
        translator.target_tokenizer.save(folder / f"target.{ending}")
        if translator.known_words is not None:
            _write(folder / KNOWN_WORDS, translator.known_words.to_json())
        example = _example(translator, direction)
        text = _card(card, layout, name, example, notes, _package(translator))
        _write(folder / "README.md", text)
    return Path(output)


def _write(path: Path, text: str) -> None:
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def _own_config(translator: Translator, options: DecodingOptions) -> dict[str, Any]:
    """What an import needs beside the weights, as a model folder says it."""
    languages, known_words = translator.languages, translator.known_words
    return {
        "format_version": FORMAT_VERSION,
        "kind": translator.model.config.kind,
        "model": translator.model.config.model_dump(),
        "decoding": options.changed(),
        "languages": None if languages is None else languages.model_dump(),
        "known_words": None if known_words is None else KNOWN_WORDS,
        "about": translator.about.model_dump(exclude_none=True),
    }


def _tables(layout: Layout) -> dict[str, np.ndarray]:
    """Positions that are no weights of ours, but stand in files of their class."""
    config, model_type = layout.config, layout.model_class.model_type
    rows, is_t2t = config.longest_sequence, _is_t2t(layout)
    if model_type == "pegasus" or (model_type == "marian" and is_t2t):
        order = "halves_t2t" if is_t2t else "halves"
        table = sinusoidal_table(rows, config.hidden_dim, order)
    elif model_type == "fsmt":
        rows += config.position_offset
        table = sinusoidal_table(rows, config.hidden_dim, "halves_t2t").copy()
        table[config.pad_id] = 0.0
    else:
        return {}
    sides = ("encoder", "decoder")
    return {f"model.{side}.embed_positions.weight": table for side in sides}


def _is_t2t(layout: Layout) -> bool:
    return layout.config.position == "sinusoidal_halves_t2t"


def _check_languages(translator: Translator) -> None:
    """Refuses languages that stand where no tokenizer of theirs has a place for them.

    A `tokenizer.json` takes them on both sides of a text; it has one vocabulary.
    """
    languages = translator.languages
    if languages is None or files.has_marian_tokenizer(languages):
        return
    tokenizer = translator.tokenizer
    is_one = tokenizer.model == translator.target_tokenizer.model
    if is_one and has_tokenizer_json(tokenizer):
        return
    for name in ("source_layout", "target_layout"):
        layout = getattr(languages, name)
        if layout[-2:] != ("text", "end") or len(layout) > 3:
            raise InputError(
                f"the export to transformers does not have {name} "
                f"{'/'.join(layout)} of languages, only text/end with one language in "
                f"front of it or none, unless both sides share one unigram tokenizer; "
                f"export to saved_model, onnx or litert"
            )


def _differences(
    layout: Layout, options: DecodingOptions, languages: Languages | None
) -> Iterator[str]:
    """What their classes do otherwise."""
    epsilon = layout.config.layer_norm_epsilon
    if layout.model_class.model_type != "t5" and epsilon != LAYER_NORM_EPSILON:
        yield (
            f"layer_norm_epsilon is {epsilon:g} here and {LAYER_NORM_EPSILON:g} in "
            f"{layout.model_class.name}, so that logits differ a little"
        )
    if layout.model_class.model_type == "marian" and _is_t2t(layout):
        yield (
            "positions are those of marian-nmt, which MarianMTModel takes from "
            "model.safetensors; its save_pretrained leaves them out, so that a model "
            "saved by it again has other ones: copy model.encoder.embed_positions."
            "weight and model.decoder.embed_positions.weight from this folder"
        )
    if options.forced_start is not None and languages is None:
        yield (
            "texts of transformers begin with the piece of forced_start, unless it is "
            "a control symbol"
        )
    ids = layout.config.special_ids
    if options.repetition_penalty != 1.0 and ids["start_id"] == ids["end_id"]:
        yield (
            "the repetition penalty of transformers counts the start token, which is "
            "the end token here, as one that has come: translations may end later"
        )
    if options.beam_size == 1:
        return
    if options.normalization == "gnmt":
        power = options.length_penalty
        yield (
            f"the search of transformers has no normalization gnmt: it divides by "
            f"length^{power:g}, not by ((5 + length) / 6)^{power:g}"
        )
    if options.repetition_penalty != 1.0:
        yield (
            "the beam search of transformers has its repetition penalty on "
            "log-probabilities, not on logits"
        )


def _notes(translator: Translator, direction: Direction) -> Iterator[str]:
    """What a user of the folder does otherwise."""
    languages = translator.languages
    if translator.decoding.long_lines == "truncate":
        yield (
            "a line that is too long is cut where the tokenizer is given "
            "`truncation=True`, not by itself"
        )
    if not files.has_marian_tokenizer(languages):
        yield (
            f"the tokenizer takes each text as one in {direction.source_language}, "
            f"for translations into {direction.target_language}; export again for "
            f"other languages, and set the labels yourself when training"
        )
        yield "a text that spells a special token, such as `</s>`, becomes that token"
    elif languages is not None and translator.tokenizer.listed is None:
        if languages.source_layout[0] != "text":
            kind = languages.source_layout[0]
            yield f"the {kind} language stands in front of each text, as `>>code<<`"
        if direction.forced_id is not None:
            yield (
                f"it translates into {direction.target_language}; for another language "
                f"give `generate` its id as `forced_bos_token_id`"
            )
    if direction.prefix:
        yield f"`{direction.prefix}` stands in front of each text"
    yield "a translation ends after `max_length` tokens, whatever its line has"
    yield "an empty line gets a translation, too"


def _example(translator: Translator, direction: Direction) -> str:
    """A text as their tokenizer takes it."""
    if translator.tokenizer.listed is not None:
        return "..."
    languages = translator.languages
    codes = {
        "source": direction.source_language,
        "target": direction.target_language,
    }
    first = "text"
    if languages is not None and files.has_marian_tokenizer(languages):
        first = languages.source_layout[0]
    front = f">>{codes[first]}<< " if first in codes else ""
    return f"{front}{direction.prefix}..."


def _package(translator: Translator) -> str:
    """The package that their tokenizer needs."""
    listed = translator.tokenizer.listed
    if listed is None:
        return "sentencepiece"
    return "sacremoses" if listed.rules.kind == "moses" else "tokenizers"


def _card(
    card: str,
    layout: Layout,
    name: str,
    example: str,
    notes: Iterable[str],
    package: str,
) -> str:
    permuted = layout.config.position == "sinusoidal"
    return _CARD.format(
        card=card.strip() or f"# {name}",
        name=layout.model_class.name,
        order=", their hidden dimension reordered" if permuted else "",
        folder=name,
        package=package,
        example=json.dumps(example, ensure_ascii=False),
        notes="\n".join(f"* {note}" for note in notes),
    )
