"""`data.augment` of a run: what it changes, how it goes on, what is refused."""

import pytest
import yaml
from small_run import CONFIG
from small_run import assert_equal_runs
from small_run import metrics
from small_run import terminating_at

from keras_transformer.config.languages import Languages
from keras_transformer.data import phrasebook
from keras_transformer.data.corpus import read_lines
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import make_tokenizers

pytestmark = pytest.mark.one_backend

AUGMENT = "data.augment={upper: 0.3, lower: 0.3, typos: 0.3}"


@pytest.fixture
def words(config_file):
    """The config of the small run, with text of words."""
    source, target = phrasebook.load("en", "de", "validation")
    for name, part in {"train": slice(60), "val": slice(60, 63)}.items():
        for language, lines in (("en", source), ("de", target)):
            text = "".join(f"{line}\n" for line in lines[part])
            config_file.with_name(f"{name}.{language}").write_text(text, "utf-8")
    document = yaml.safe_load(CONFIG)
    document["tokenizer"]["vocabulary_size"] = 360
    del document["data"]["test"]
    document["data"]["batch_tokens"] = 600
    config_file.write_text(yaml.safe_dump(document))
    return config_file


def test_a_run_goes_on_with_the_same_augmentation(words, monkeypatch):
    train(load_config(words, [AUGMENT, "output=whole"]))
    config = load_config(words, [AUGMENT, "output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(3))
        with pytest.raises(running.Interrupted):
            train(config)
    train(config)
    assert_equal_runs(*(words.with_name(name) for name in ("whole", "stopped")))
    train(load_config(words, ["output=plain"]))
    losses = [metrics(words.with_name(n))[-1]["loss"] for n in ("whole", "plain")]
    assert losses[0] != pytest.approx(losses[1])
    with pytest.raises(InputError, match=r"begun with another.*data\.augment\.upper"):
        train(load_config(words, ["data.augment={upper: 0.2}", "output=whole"]))


@pytest.mark.no_backend
def test_held_out_text_stays_and_a_tokenizer_sees_each_case(words):
    corpora = Corpora(load_config(words, [AUGMENT]).data)
    assert corpora.validation.source == read_lines(words.with_name("val.en"))
    lines = read_lines(words.with_name("train.en"))
    sample = corpora.sample()
    assert sample.target == read_lines(words.with_name("train.de"))
    pairs = list(zip(lines, sample.source, strict=True))
    upper = [new == old.upper() != old for old, new in pairs]
    lower = [new == old.lower() != old for old, new in pairs]
    assert sum(upper) == pytest.approx(18, abs=1)
    assert sum(lower) == pytest.approx(18, abs=1)
    assert sum(new == old for old, new in pairs) == 60 - sum(upper) - sum(lower)
    assert Corpora(load_config(words).data).sample().source == lines


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("augment", "message"),
    [
        ("{upper: 1.5}", r"data\.augment\.upper: Input should be less than or equal"),
        ("{upper: 0.6, title: 0.6}", "together they may be 1 at most"),
        ("{typo: 0.1}", r"unknown key data\.augment\.typo.*typos"),
    ],
)
def test_what_is_no_augmentation_is_refused(config_file, augment, message):
    with pytest.raises(InputError, match=message):
        load_config(config_file, [f"data.augment={augment}"])


@pytest.mark.no_backend
def test_a_model_that_reads_its_languages_in_the_text_is_refused(words, tmp_path):
    config = load_config(words, [AUGMENT])
    corpora = Corpora(config.data)
    tokenizers = make_tokenizers(config.tokenizer, corpora.sample, tmp_path)
    languages = Languages(codes={"en": None, "de": 9}, prefixes={"*": {"de": "<2de> "}})
    with pytest.raises(InputError, match="told the languages in the text of the sour"):
        corpora.encode(*tokenizers, tmp_path / "encoded", languages=languages)
