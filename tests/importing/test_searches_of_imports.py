"""Searches of imported models, by the rules of `transformers`, find what it generates.

`reference` beside the measured folders holds what its `generate` gave; of generated
folders it is asked here. Padding, which is never written here, is forbidden there.
"""

import functools
import json
import os
from typing import NamedTuple

import foreign_folders
import multilingual_folders
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import direction_of
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.sentence import Sentence

pytestmark = pytest.mark.one_backend

LENGTH = 20
EVERY = bool(os.environ.get("EVERY_TEST"))
#: Measured folders -> source and target language of the reference texts.
MEASURED = {
    "marian": (None, None),
    "marian-languages": (None, "fra"),
    "marian-separate": (None, None),
    **multilingual_folders.MEASURED,
}
#: Of which padding has logits like any other token.
PADDING_IS_WRITTEN = ("t5", "mt5")
FEW = ("marian", "mbart50", "mt5")


class Setting(NamedTuple):
    """Options of `generate`."""

    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = "never"

    def ours(self):
        if self.num_beams == 1:
            return {"beam_size": 1, "max_length": LENGTH}
        is_heuristic = self.early_stopping is False
        return {
            "beam_size": self.num_beams,
            "top_beams": self.num_beams,
            "max_length": LENGTH + 1,  # by their rules with the start token
            "normalization": "power",
            "length_penalty": self.length_penalty,
            "patience": 1.0 if self.early_stopping is True else None,
            "rules": "transformers_heuristic" if is_heuristic else "transformers",
        }


class Imported:
    """An import, and searches of it."""

    def __init__(self, source, folder, languages):
        kt.importing.convert(source, folder)
        self.source = source
        self.translator = kt.Translator.load(folder)
        config, section = self.translator.model.config, self.translator.languages
        self.direction = direction_of(section, config, *languages)
        self.search = BatchSearch(self.translator.model)

    @functools.cached_property
    def theirs(self):
        return Theirs(self.source)

    def plain(self, rows, setting):
        """Of ids, without anything that is forced or forbidden."""
        sentences = [Sentence(ids, direction=self.direction) for ids in rows]
        options = DecodingOptions.of(setting.ours())
        return self.search.translate(sentences, options, len(rows))

    def translate(self, lines, setting, **options):
        """With what the folder forces and forbids."""
        kept = ("suppressed_tokens", "no_repeat_ngram_size")
        own = {name: getattr(self.translator.decoding, name) for name in kept}
        translator = kt.Translator(
            self.translator.model,
            self.translator.tokenizer,
            self.translator.target_tokenizer,
            languages=self.translator.languages,
            source_language=self.direction.source_language,
            target_language=self.direction.target_language,
            **{**own, **setting.ours(), **options},
        )
        return translator.translate(lines, return_details=True)


class Theirs:
    """The model of `transformers`, and its searches that never write padding.

    In an imported MarianMT model padding has no probability, either.
    """

    def __init__(self, source):
        transformers = pytest.importorskip("transformers")
        model = transformers.AutoModelForSeq2SeqLM
        self.model = model.from_pretrained(source).eval()

    def search(self, rows, setting, direction, forced_id=None):
        """Hypotheses of each source: ids, from the start token on, and scores."""
        torch = pytest.importorskip("torch")
        config = self.model.config
        pad, end = config.pad_token_id, config.eos_token_id
        source_ids = np.full((len(rows), max(map(len, rows))), pad)
        for row, ids in zip(source_ids, rows, strict=True):
            row[: len(ids)] = ids
        options = setting._asdict()
        if setting.num_beams == 1:
            options = {"num_beams": 1}
        with torch.no_grad():
            found = self.model.generate(
                torch.tensor(source_ids),
                attention_mask=torch.tensor(source_ids != pad).long(),
                decoder_start_token_id=direction.start_id,
                forced_bos_token_id=forced_id,
                bad_words_ids=[[pad]],
                renormalize_logits=config.model_type == "marian",
                max_new_tokens=LENGTH,
                max_length=None,
                do_sample=False,
                num_return_sequences=setting.num_beams,
                return_dict_in_generate=True,
                output_scores=True,
                **options,
            )
        hypotheses = []
        for first, *ids in found.sequences.tolist():
            last = ids.index(end) + 1 if end in ids else len(ids)
            hypotheses.append({"ids": [first, *ids[:last]]})
        if setting.num_beams > 1:
            for hypothesis, score in zip(
                hypotheses, found.sequences_scores.tolist(), strict=True
            ):
                hypothesis["score"] = score
        width = setting.num_beams
        return [hypotheses[i : i + width] for i in range(0, len(hypotheses), width)]


def assert_same(found, expected, with_scores=True):
    """Ids, and where they are told scores, of each hypothesis of each source."""
    for ours, theirs in zip(found, expected, strict=True):
        assert [h.ids for h in ours] == [h["ids"][1:] for h in theirs]
        if with_scores and "score" in theirs[0]:
            np.testing.assert_allclose(
                [h.score for h in ours],
                [h["score"] for h in theirs],  # rounded
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.fixture(scope="module", params=MEASURED if EVERY else FEW)
def measured(request, shared_data, tmp_path_factory):
    """Our import, their config of the search, and what they found."""
    path = shared_data / "pretrained"
    if not path.is_dir():
        pytest.skip("needs the measured data in shared/data/pretrained")
    folder = tmp_path_factory.mktemp("imported") / "model"
    name = request.param
    imported = Imported(path / name, folder, MEASURED[name])
    texts = path / "reference" / f"{name}.json"
    return imported, name, json.loads(texts.read_text(encoding="utf-8"))


def settings_of(reference, prefix=""):
    """Each setting of the reference, with the hypotheses of each source."""
    yield Setting(), [[one] for one in reference[f"{prefix}greedy"]]
    for one in reference[f"{prefix}beams"]:
        setting = Setting(*(one[name] for name in Setting._fields))
        yield setting, one["hypotheses"]


def without_padding(imported, name, reference, setting, found, expected):
    """What they would find where padding is never written, as it is not here."""
    different = [
        row
        for row, (ours, theirs) in enumerate(zip(found, expected, strict=True))
        if [h.ids for h in ours] != [h["ids"][1:] for h in theirs]
    ]
    if not different or name not in PADDING_IS_WRITTEN:
        return expected
    rows = [reference["input_ids"][row] for row in different]
    again = imported.theirs.search(rows, setting, imported.direction)
    changed = dict(zip(different, again, strict=True))
    return [changed.get(row, theirs) for row, theirs in enumerate(expected)]


def test_plain_searches_of_measured_folders(measured):
    imported, name, reference = measured
    for setting, expected in settings_of(reference, "plain_"):
        found = imported.plain(reference["input_ids"], setting)
        arguments = imported, name, reference, setting, found, expected
        # Their scores tell how probable padding is, too.
        assert_same(found, without_padding(*arguments), with_scores=False)


def test_searches_of_measured_folders_by_their_generation_config(measured):
    imported, name, reference = measured
    given, direction = reference["generation"], imported.direction
    fronts = direction.prefix, f">>{direction.target_language}<< "
    lines = reference["sources"]
    for front in fronts:
        lines = [line.removeprefix(front) for line in lines]
    options = {"forced_end": given.get("forced_eos_token_id") is not None}
    for setting, expected in settings_of(reference):
        found = imported.translate(lines, setting, **options)
        arguments = imported, name, reference, setting, found, expected
        assert_same(found, without_padding(*arguments))


#: Generated folders -> source and target language.
GENERATED = {
    "MarianMT": (None, "deu"),
    "NLLB": ("eng_Latn", "deu_Latn"),
    "mBART-25": ("en_XX", "de_DE"),
    "T5": ("en", "de"),
}
SETTINGS = (Setting(), Setting(4, 1.2, True), Setting(3, 0.6, False))


@pytest.mark.parametrize("name", GENERATED)
def test_searches_of_generated_folders(name, tmp_path):
    source = tmp_path / "foreign"
    if name == "MarianMT":
        foreign_folders.marian(source, languages=("deu", "fra"))
    else:
        multilingual_folders.write(source, name)
    imported = Imported(source, tmp_path / "model", GENERATED[name])
    direction, translator = imported.direction, imported.translator
    lines = ["the cat sleeps under the old table", "a train", "the station"]
    texts = [direction.prefix + line for line in lines]
    rows = [direction.source_ids(ids) for ids in translator.tokenizer.encode(texts)]
    forced_id = direction.forced_id
    for setting in SETTINGS:
        expected = imported.theirs.search(rows, setting, direction, forced_id)
        assert_same(imported.translate(lines, setting), expected)
