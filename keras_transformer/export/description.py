"""Description of an export: what a program in any language must know to translate.

It is written as `model.json` beside the model. The programs of `export/programs`
read it, and so can anything else: nothing in it is about Python.
"""

import contextlib
import json
import shutil
from collections.abc import Mapping
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from typing import TypeAlias

from keras_transformer.config import TransformerConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.decoding import n_best_size
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.data.tokenizer_files import tokenizer_files
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.export.program_card import program_card
from keras_transformer.files.output_folder import new_folder
from keras_transformer.models.search import EXTRA_LENGTH
from keras_transformer.translator import Translator

#: The dtype and the shape, sizes or letters, of each tensor by its name.
_Tensors: TypeAlias = Mapping[str, tuple[str, Sequence[object]]]

FORMAT_VERSION = 1
#: Of models of several languages, which an earlier reader would leave out unseen.
LANGUAGES_VERSION = 2

#: The program of tokenizers that are lists of pieces and merges.
LISTED_PIECES = "listed_pieces.py"

#: What of `DecodingOptions` the section `search` holds.
_SEARCH_OPTIONS = {
    name
    for name, option in OPTIONS.items()
    if option.exports != "none" and name != "suppressed_tokens"  # they are among `ids`
}

_TEXT = [
    "A line is split into pieces by SentencePiece (files.source_tokenizer) and mapped "
    "to ids; ids.end follows where source_end is true. A line is empty if "
    "SentencePiece's normalization leaves nothing of it but white space, NUL, U+200C "
    "and U+200D; it is translated as an empty line, without the model. A source of "
    "more ids than limits.longest_sequence, or than a smaller "
    "search.max_source_length, is refused where search.long_lines is error; where it "
    "is truncate only its beginning is translated, and ids.end follows that.",
    "Rows of a batch are filled up to S ids with ids.pad.",
    "A translation has at most limit = min(max(wanted, search.min_length), "
    "limits.longest_sequence) ids, its ids.end included; wanted is search.max_length, "
    "or where that is null source ids without ids.end + limits.extra_length.",
    "The ids of the best hypothesis, without ids.end, and without the first where "
    "search.forced_start is not null, are decoded by SentencePiece "
    "(files.target_tokenizer); a line feed in the text becomes a space.",
]

_LANGUAGES = (
    "The model translates between several languages, and was exported for two: a line "
    "is put behind languages.prefix before it is split, ids.end does not follow by "
    "itself, and languages.before and languages.after are put around its ids. They do "
    "not count where source ids are counted for a limit, but for limits."
    "longest_sequence they do."
)

_LETTERS = {
    "B": "rows of the batch: sentences",
    "S": "source positions",
    "W": "hypotheses kept of each row: 1 in greedy search, beam_size in beam search",
    "L": "length of the cache, more than the largest position",
    "C": "count: continuations wanted of each hypothesis",
}

_GROWTH = (
    "L may grow between steps: add zeros behind what is written. Short caches are "
    "faster."
)

_LOOP = [
    "Run the encoder once on a batch; its outputs are inputs of every step.",
    "Before the first step all caches are zeros, all beams 0 and all tokens ids.start.",
    "Run the step at position 0, 1, 2, ...: tokens is the newest token of each "
    "hypothesis; beams says which hypothesis of the same row, in the order of the step "
    "before, each one continues (the step reorders its caches by it); each new_cache "
    "is the cache of the next step.",
    _GROWTH,
    "best_log_probabilities and best_ids are the count best continuations of each "
    "hypothesis, best first, equal ones in order of the ids; ids.suppressed never are "
    "among them, but have their share of probability. logits (float32, before softmax) "
    "serve the rules below, and other searches.",
    "Where best_log_probabilities holds NaN, the model is broken: no translation.",
]

_RULES = [
    "Where search.min_length is above 1, search.no_repeat_ngram_size above 0, "
    "search.repetition_penalty not 1, or search.num_beam_groups above 1, continuations "
    "come from logits instead: all ids, best first, equal ones in order of the ids.",
    "search.repetition_penalty: of each id that a hypothesis has so far, a logit above "
    "0 is divided by it, any other multiplied with it. Then follows the softmax.",
    "After it, these get probability 0 while the others keep theirs: ids.suppressed; "
    "ids.end, as long as the hypothesis would have fewer than search.min_length ids "
    "with it; and each id that would make the last search.no_repeat_ngram_size ids of "
    "the hypothesis a sequence that it has already.",
    "search.forced_start, where not null, is the only continuation at position 0, and "
    "where search.forced_end is true ids.end is the only one that would give a "
    "hypothesis limit ids, whatever the other rules forbid: with log-probability 0.",
]

_SEARCH = (
    "limits are the most ids of each row (0 for a row that only fills the batch), "
    "length the largest of them; the first `lengths` of `tokens` are the translation, "
    "with ids.end where it is finished"
)

_GREEDY = [
    "W = 1, count = 1: append the best id, add its log-probability to the total.",
    "A row is done when the id is ids.end, or when it has limit ids. The loop ends "
    "when all rows are done; what a done row still produces is ignored.",
]

_BEAM = [
    "penalty(n) by search.normalization: gnmt ((5 + n) / 6) ^ search.length_penalty, "
    "power n ^ search.length_penalty, average n, none 1; score = total "
    "log-probability / penalty(number of ids with ids.end). All in float32.",
    "A row has W live hypotheses, with totals 0, -inf, ..., -inf before the first "
    "step, and up to W finished ones, apart from each other.",
    "count = 2 W. The W x 2W continuations of a row (total + log-probability) are "
    "sorted, best first, equal ones in order of hypothesis, then of their place; the "
    "first 2 W are candidates.",
    "Candidates whose new id is ids.end become finished hypotheses; of the old and new "
    "finished ones the W best by score stay, equal ones in order of age.",
    "The first W other candidates are the new live hypotheses, in order.",
    "After each step a row is done when its n-th finished score >= the best live total "
    "/ penalty(limit), n being the number of translations wanted (usually 1), or when "
    "the live hypotheses have limit ids. What a done row still produces is ignored.",
    "Where the live hypotheses of a row have limit ids, they are then put to its "
    "finished ones, with total / penalty(limit) as their scores, and the W best stay, "
    "equal ones in order of age. A translation whose last id is not ids.end was cut.",
    "The translations of a row are the best of these, best first.",
    "search.coverage_penalty, where above 0: the step has attention, too. It is summed "
    "over the steps of each hypothesis, the one that gives its newest id included, and "
    "reordered by beams; to a score is added coverage_penalty * the sum over source "
    "ids that are not ids.pad of log(min(max(its attention, 1e-9), 1)).",
    "search.patience, where not null: a row is done, too, when max(ceil(patience * W), "
    "n) hypotheses have ended, of which those count that were among the first W "
    "candidates of their step.",
    "search.num_beam_groups, where above 1: the W hypotheses are as many groups, in "
    "order, each a row of its own of W / num_beam_groups hypotheses in all of the "
    "above, but for this: of one step the groups choose one after the other; what a "
    "group sorts its continuations by is less by search.diversity_penalty for each "
    "hypothesis of a group before it that goes on with the same id at this step; this "
    "is no part of totals. The groups of a row are done when all are, one by patience "
    "alone; one that is done goes on with nothing. Of equal hypotheses of several "
    "groups the first counts, and all are then sorted by score, equal ones in order.",
]


def suppressed_ids(config: TransformerConfig, options: DecodingOptions) -> list[int]:
    """Target ids that are never chosen, by the model and by the search."""
    return sorted({*config.suppressed_ids, *map(int, options.suppressed_tokens)})


def n_best_options(options: DecodingOptions) -> DecodingOptions:
    """Those of a search that gives several hypotheses, whatever `options` gives."""
    if options.top_beams > 1:
        return options
    size = n_best_size(options.beam_size)
    return options.updated({"beam_size": size, "top_beams": size})


def longest_source(config: TransformerConfig, options: DecodingOptions) -> int:
    """The most ids of a source, the end included."""
    longest = config.longest_sequence
    return min(longest, options.max_source_length or longest)


def describe_translator(
    translator: Translator, form: str, options: DecodingOptions
) -> dict[str, Any]:
    """The parts of `model.json` that all formats share.

    Args:
        translator: what is exported.
        form: the name of the format.
        options: of its search, with ids in place of pieces.
    """
    config = translator.model.config
    source, target = translator.tokenizer, translator.target_tokenizer
    names = tokenizer_files(shared=source.model == target.model)
    direction = translator.direction()
    around, text = {}, list(_TEXT)
    if _has_lists(translator):
        text = [line.replace("SentencePiece", LISTED_PIECES) for line in text]
    if translator.languages is not None:
        text.append(_LANGUAGES)
        around["languages"] = {
            "source": direction.source_language,
            "target": direction.target_language,
            "prefix": direction.prefix,
            "before": list(direction.source_before),
            "after": list(direction.source_after),
        }
    return {
        "format": form,
        "format_version": LANGUAGES_VERSION if around else FORMAT_VERSION,
        "files": {"source_tokenizer": names[0], "target_tokenizer": names[1]},
        "ids": {
            "pad": config.pad_id,
            "start": direction.start_id,
            "end": config.end_id,
            "suppressed": suppressed_ids(config, options),
        },
        "source_end": config.source_end and not around,
        **around,
        "source_vocabulary_size": config.source_vocabulary_size,
        "target_vocabulary_size": config.target_vocabulary_size,
        "limits": {
            "extra_length": EXTRA_LENGTH,
            "longest_sequence": config.longest_sequence,
        },
        "search": options.model_dump(include=_SEARCH_OPTIONS),
        "text": text,
    }


def _has_lists(translator: Translator) -> bool:
    """Whether a tokenizer is a list of pieces and merges."""
    sides = translator.tokenizer, translator.target_tokenizer
    return any(tokenizer.listed is not None for tokenizer in sides)


def cache_shapes(config: TransformerConfig) -> dict[str, list[Any]]:
    """The shape of each tensor of a step's cache, by the end of its name.

    Keys and values of self-attention, or the states of an SSRU.
    """
    layers = range(config.num_decoder_layers)
    if config.decoder == "ssru":
        return {f"state_{i}": ["B", "W", config.hidden_dim] for i in layers}
    decoder = config.sizes("decoder")
    sizes = {"key": decoder.head_dim, "value": decoder.value_dim}
    return {
        f"{kind}_{i}": ["B", "W", decoder.num_key_value_heads, "L", size]
        for i in layers
        for kind, size in sizes.items()
    }


def describe_graphs(
    config: TransformerConfig, *files: str, attention: bool = False
) -> dict[str, Any]:
    """The parts for an encoder and a decoder step around which a search is written.

    Args:
        config: of the model.
        files: of encoder and step; one file may hold both.
        attention: whether the step gives it.
    """
    layers = range(config.num_decoder_layers)
    decoder = config.sizes("decoder")
    sizes = {"key": decoder.head_dim, "value": decoder.value_dim}
    names = [(f"{kind}_{i}", size) for i in layers for kind, size in sizes.items()]
    heads = decoder.num_key_value_heads
    memory = {"memory_bias": ("float32", ["B", 1, 1, "S"])}
    memory |= {f"memory_{n}": ("float32", ["B", heads, "S", size]) for n, size in names}
    hypotheses = ("int32", ["B", "W"])
    cache = {name: ("float32", shape) for name, shape in cache_shapes(config).items()}
    grows = config.decoder == "attention"
    step_inputs: _Tensors = {
        "tokens": hypotheses,
        "position": ("int32", []),
        "beams": hypotheses,
        "count": ("int32", []),
        **memory,
        **{f"cache_{name}": value for name, value in cache.items()},
    }
    step_outputs: _Tensors = {
        "logits": ("float32", ["B", "W", config.target_vocabulary_size]),
        "best_log_probabilities": ("float32", ["B", "W", "C"]),
        "best_ids": ("int32", ["B", "W", "C"]),
        **({"attention": ("float32", ["B", "W", "S"])} if attention else {}),
        **{f"new_cache_{name}": value for name, value in cache.items()},
    }
    return {
        "letters": {k: text for k, text in _LETTERS.items() if k != "L" or grows},
        "graphs": {
            "encoder": _graph(
                "encoder", files[0], {"source": ("int32", ["B", "S"])}, memory
            ),
            "step": _graph("step", files[-1], step_inputs, step_outputs),
        },
        "loop": [line for line in _LOOP if line != _GROWTH or grows],
        "rules": list(_RULES),
        "greedy_search": list(_GREEDY),
        "beam_search": list(_BEAM),
    }


def describe_searches(
    searches: dict[str, DecodingOptions], file: str
) -> dict[str, Any]:
    """Graphs that hold a whole search.

    Args:
        searches: the options of each, by its name.
        file: where the graphs stand.
    """
    inputs = {
        "source": ("int32", ["B", "S"]),
        "limits": ("int32", ["B"]),
        "length": ("int32", []),
    }
    described = {}
    for name, options in searches.items():
        count = options.top_beams
        outputs = {
            "tokens": ("int32", ["B", count, "L"]),
            "lengths": ("int32", ["B", count]),
            "log_probabilities": ("float32", ["B", count]),
            "scores": ("float32", ["B", count]),
            "finished": ("bool", ["B", count]),
        }
        described[name] = {
            **_graph(name, file, inputs, outputs),
            **options.model_dump(include=_SEARCH_OPTIONS),
            "about": _SEARCH,
        }
    return described


def _graph(name: str, file: str, inputs: _Tensors, outputs: _Tensors) -> dict[str, Any]:
    return {
        "file": file,
        "signature": name,
        "inputs": _described(inputs),
        "outputs": _described(outputs),
    }


def _described(tensors: _Tensors) -> list[dict[str, Any]]:
    return [
        {"name": name, "dtype": dtype, "shape": shape}
        for name, (dtype, shape) in tensors.items()
    ]


def export_folder(
    output: str | Path, name: str, files: Sequence[str], programs: dict[str, str]
) -> contextlib.AbstractContextManager[Path]:
    """A folder for an export, see `new_folder`; an older one of the kind is replaced.

    Args:
        output: its path.
        name: of the format.
        files: of the model; the first is in every such export.
        programs: see `write_common`.
    """
    markers = ("model.json", files[0])
    # Python leaves its cache beside the programs when they run.
    programs_there = (*programs.values(), LISTED_PIECES, "__pycache__")
    other_files = (*files[1:], *TOKENIZER_FILES, *programs_there, "README.md")
    return new_folder(output, f"an export to {name}", markers, other_files)


def write_common(
    translator: Translator,
    description: dict[str, Any],
    programs: dict[str, str],
    folder: Path,
    card: str,
) -> None:
    """Writes all beside the model: `model.json`, a card, tokenizers, and programs.

    Args:
        translator: what is exported.
        description: the contents of `model.json`.
        programs: of each file of `export/programs`, its name in the export.
        folder: where to.
        card: of the model; "" where there is none.
    """
    files = description["files"]
    translator.tokenizer.save(folder / files["source_tokenizer"])
    translator.target_tokenizer.save(folder / files["target_tokenizer"])
    text = json.dumps(description, indent=2, ensure_ascii=False) + "\n"
    (folder / "model.json").write_text(text, encoding="utf-8")
    text = program_card(card, description)
    (folder / "README.md").write_text(text, encoding="utf-8")
    sources = resources.files("keras_transformer.export.programs")
    copied = [(sources / program, name) for program, name in programs.items()]
    if _has_lists(translator):
        data = resources.files("keras_transformer.data")
        copied.append((data / LISTED_PIECES, LISTED_PIECES))
    for source, name in copied:
        with resources.as_file(source) as path:
            shutil.copyfile(path, folder / name)
