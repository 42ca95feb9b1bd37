"""Corpora with a prefix: text in front of each source that names the task."""

import pytest
import yaml

import keras_transformer as kt
from keras_transformer.config.languages import Languages
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.config.series import load_runs
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import make_tokenizers

LINES = ["a low tower", "the lower tower", "low towers"]
CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 16, num_encoder_layers: 1,
        num_decoder_layers: 1}
tokenizer: {vocabulary_size: 285}
data:
  train:
  - {source: text, target: text, prefix: "copy: "}
  - {source: text, target: text}
  validation: {source: text, target: text, prefix: "copy: "}
  batch_tokens: 100
  workers: 1
training: {steps: 2, warmup_steps: 1, validate_every: 2, average_last: 1}
decoding: {beam_size: 1, max_length: 8}
"""


@pytest.fixture
def load(tmp_path):
    (tmp_path / "text").write_text("\n".join([*LINES, ""]), encoding="utf-8")
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")

    def load_run(*overrides):
        output = f"output={tmp_path / 'run'}"
        return load_config(tmp_path / "config.yaml", [output, *overrides])

    return load_run


@pytest.mark.no_backend
def test_the_prefix_stands_in_front_of_the_sources_of_its_corpus(load, tmp_path):
    config = load()
    corpora = Corpora(config.data)
    tokenizers = make_tokenizers(config.tokenizer, corpora.sample, tmp_path)
    text = corpora.encode(*tokenizers, tmp_path / "cache")
    prefixed = [f"copy: {line}" for line in LINES]
    assert tokenizers[0].decode(text.pairs.source) == [*prefixed, *LINES]
    assert tokenizers[0].decode(text.pairs.target) == [*LINES, *LINES]
    assert corpora.validation.source == prefixed
    assert corpora.validation.target == LINES
    assert corpora.sample().source == [*prefixed, *LINES]
    known = Languages(
        codes={"en": None, "de": None},
        source="en",
        target="de",
        prefixes={"*": {"de": "to German: "}},
    )
    with pytest.raises(InputError, match=r"data\.train\.0\.prefix does not go with"):
        corpora.encode(*tokenizers, tmp_path / "cache", languages=known)


@pytest.mark.no_backend
def test_a_prefix_does_not_count_for_the_ratio_and_the_shortest(load, tmp_path):
    """But for the longest: it is a part of what the model reads."""
    config = load("data.filters={max_ratio: 1.2, min_length: 3}", "data.max_length=32")
    corpora = Corpora(config.data)
    tokenizer, _ = make_tokenizers(config.tokenizer, corpora.sample, tmp_path)
    lengths = [len(row) for row in tokenizer.encode(LINES)]
    prefixed = [f"copy: {line}" for line in LINES]
    longer = [len(row) for row in tokenizer.encode(prefixed)]
    assert min(lengths) == 3 and all(
        n > 1.2 * m for n, m in zip(longer, lengths, strict=True)
    )
    text = corpora.encode(tokenizer, tokenizer, tmp_path / "cache")
    assert tokenizer.decode(text.pairs.source) == [*prefixed, *LINES]
    longest = load("data.filters={min_length: 3}", f"data.max_length={max(longer)}")
    text = Corpora(longest.data).encode(tokenizer, tokenizer, tmp_path / "cache")
    fitting = [p for p, n in zip(prefixed, longer, strict=True) if n < max(longer)]
    assert tokenizer.decode(text.pairs.source) == [*fitting, *LINES]
    assert len(fitting) < len(prefixed)


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.test={tsv: text, prefix: ''}", r"data\.test\.prefix: .*on one line"),
        ('data.test={tsv: text, prefix: "a\\nb"}', "expected text on one line"),
        ("data.augment.typos=0.1", "augment would change the prefix"),
    ],
)
def test_a_prefix_that_cannot_be_is_refused(load, override, message):
    with pytest.raises(InputError, match=message):
        load(override)


@pytest.mark.no_backend
def test_translations_of_an_earlier_stage_have_no_prefix(tmp_path):
    corpus = {"source": "a", "target": {"translation_by": "one"}, "prefix": "copy: "}
    stages = [{"name": "one"}, {"name": "two", "data": {"train": [corpus]}}]
    content = {"data": {"train": [{"source": "a", "target": "b"}]}, "stages": stages}
    (tmp_path / "several.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=r"two: translation_by .*remove the prefix"):
        load_runs(tmp_path / "several.yaml").configs()


@pytest.mark.one_backend
def test_a_run_with_a_prefix_is_not_one_without(load, tmp_path):
    train(load())
    translator = kt.Translator.load(tmp_path / "run" / "averaged")
    assert translator.languages is None
    with pytest.raises(InputError, match=r"data\.train\.0\.prefix: copy: .* -> None"):
        train(load("data.train=[{source: text, target: text}]"))
