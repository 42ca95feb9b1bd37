"""From the `data` section to ids: what is read, kept, told, and refused later."""

import bz2
import json
import os
from xml.sax.saxutils import escape

import numpy as np
import pytest

from keras_transformer.data import encoded_corpus
from keras_transformer.data import phrasebook
from keras_transformer.data.batching import TokenBatches
from keras_transformer.errors import InputError
from keras_transformer.training import corpora as module
from keras_transformer.training import load_config
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import changes
from keras_transformer.training.corpora import make_tokenizers

pytestmark = pytest.mark.no_backend

CONFIG = """
model: {preset: tiny}
tokenizer: {vocabulary_size: 400}
data:
  train:
  - {source: [1.en, 2.en], target: [1.de, 2.de]}
  - {tsv: more.tsv, weight: 2.5}
  validation: {source: val.en, target: val.de}
  workers: 1
"""


@pytest.fixture
def load(tmp_path):
    source, target = phrasebook.load("en", "de", "validation")
    parts = {"1": slice(40), "2": slice(40, 60), "val": slice(60, 65)}
    for name, part in parts.items():
        for language, lines in (("en", source), ("de", target)):
            text = "".join(f"{line}\n" for line in lines[part])
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    rows = zip(source[65:75], target[65:75], strict=True)
    text = "".join(f"{one}\t{other}\n" for one, other in rows)
    (tmp_path / "more.tsv").write_text(text, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(CONFIG)

    def load_data(*overrides):
        return load_config(tmp_path / "small.yaml", overrides)

    return load_data


@pytest.fixture
def encode(tmp_path):
    """The training pairs of a config, and what was said."""

    def encode_config(config):
        corpora = Corpora(config.data)
        tokenizers = make_tokenizers(config.tokenizer, corpora.sample, tmp_path)
        said = []
        folder = tmp_path / "encoded"
        pairs = corpora.encode(*tokenizers, folder, say=said.append)
        return pairs, tokenizers[1], said

    return encode_config


def test_corpora_follow_each_other_with_their_weights(load, encode):
    source, target = phrasebook.load("en", "de", "validation")
    pairs, tokenizer, said = encode(load())
    rows = [*range(60), *range(65, 75)]
    for its, lines in ((pairs.pairs.source, source), (pairs.pairs.target, target)):
        expected = [tokenizer.normalize(lines[row]) for row in rows]
        assert tokenizer.decode(list(its)) == expected
    assert pairs.shares == [(60, 1.0), (10, 2.5)]
    assert pairs.report.kept == 70
    assert pairs.bpe_dropout is None
    assert [line.rpartition(": ")[2] for line in said] == [
        "60 pairs kept, 0 dropped",
        "10 pairs kept, 0 dropped",
    ]
    batches = TokenBatches(pairs.pairs, 256, shares=pairs.shares)
    slots = sum(labels.any(axis=1).sum() for _, labels, _ in batches)
    assert 60 + 25 <= slots <= 60 + 25 + len(batches.shapes)


def test_files_of_every_form_give_the_same_pairs(load, encode, tmp_path):
    plain, _, _ = encode(load())
    text = (tmp_path / "more.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.splitlines()]
    quoted = "".join(f'"{target}",1,"{source}"\n' for source, target in rows)
    (tmp_path / "more.csv").write_text(quoted, encoding="utf-8")
    objects = [{"translation": {"en": en, "de": de}} for en, de in rows]
    lines = "".join(f"{json.dumps(row)}\n" for row in objects).encode()
    (tmp_path / "more.jsonl").write_bytes(bz2.compress(lines))
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{escape(en)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(de)}</seg></tuv></tu>'
        for en, de in rows
    )
    (tmp_path / "more.tmx").write_text(f"<tmx><body>{units}</body></tmx>", "utf-8")
    first = "{source: [1.en, 2.en], target: [1.de, 2.de]}"
    for corpus in (
        "csv: more.csv, columns: [3, 1]",
        "jsonl: [more.jsonl], columns: [translation.en, translation.de]",
        "tmx: more.tmx, columns: [en, de]",
    ):
        config = load(f"data.train=[{first}, {{{corpus}, weight: 2.5}}]")
        pairs, _, _ = encode(config)
        assert pairs.report == plain.report
        assert list(pairs.pairs.target.ids) == list(plain.pairs.target.ids)
        again, _, said = encode(config)
        assert list(again.pairs.source.ids) == list(plain.pairs.source.ids)
        assert not [line for line in said if "encoding" in line]
        assert len(Corpora(config.data).fingerprint()["train"]) == 5


def test_validation_and_test_are_read_whole(load):
    corpora = Corpora(load().data)
    source, target = phrasebook.load("en", "de", "validation")
    assert corpora.validation.source == source[60:65]
    assert corpora.validation.target == target[60:65]
    assert corpora.test is None


def test_filters_and_bpe_dropout_come_from_the_config(load, encode):
    plain, _, _ = encode(load())
    lengths = plain.pairs.source.lengths, plain.pairs.target.lengths
    shortest, longest = np.minimum(*lengths), np.maximum(*lengths)
    low, high = int(np.quantile(shortest, 0.2)), int(np.quantile(longest, 0.8))
    kept = (shortest >= low) & (longest < high)
    settings = [f"data.filters={{min_length: {low}, unique: true}}"]
    settings += [f"data.max_length={high}", "data.bpe_dropout=0.2"]
    pairs, _, _ = encode(load(*settings))
    assert 0 < len(pairs.pairs) == kept.sum() < 70
    assert pairs.bpe_dropout.dropout == 0.2


def test_the_second_start_maps_what_the_first_one_wrote(load, encode, monkeypatch):
    before, _, _ = encode(load())
    monkeypatch.setattr(encoded_corpus, "write_corpora", lambda *a: pytest.fail("a"))
    after, _, _ = encode(load("data.workers=2", "data.train=" + TRAIN_WEIGHT_1))
    assert np.array_equal(before.pairs.source.ids, after.pairs.source.ids)
    assert after.shares == [(60, 1.0), (10, 1.0)]


TRAIN_WEIGHT_1 = (
    "[{source: [1.en, 2.en], target: [1.de, 2.de]}, {tsv: more.tsv, weight: 1}]"
)


def test_the_cache_may_lie_elsewhere(load, encode, tmp_path):
    encode(load("data.cache=elsewhere"))
    assert any(path.is_dir() for path in (tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "encoded").exists()


def test_a_corpus_that_shrinks_to_nothing_is_named_with_the_report(load, encode):
    with pytest.raises(InputError) as error:
        encode(load("data.filters={min_length: 90}"))
    assert "1.en" in str(error.value)
    assert "0 pairs kept, 60 dropped: " in str(error.value)
    assert "shorter than 90 tokens" in str(error.value)


def test_the_phrasebook_needs_no_cache(load, encode, tmp_path):
    config = load_config(None, ["data.bpe_dropout=0.1"])
    corpora = Corpora(config.data)
    assert len(corpora.sample()) > 20_000
    assert corpora.validation.source == phrasebook.load("en", "de", "validation")[0]
    monkey = config.data.model_copy(update={"phrasebook": "fr-en"})
    assert Corpora(monkey).test.source == phrasebook.load("fr", "en", "test")[0]
    paths = [files[0]["path"] for files in corpora.fingerprint().values()]
    assert paths == [str(phrasebook.path(split)) for split in phrasebook.SPLITS]


# === Tokenizers ===


def test_a_tokenizer_is_trained_on_a_sample_of_a_large_corpus(
    load, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "_SAMPLE", 20)
    sample = Corpora(load().data).sample()
    source, _ = phrasebook.load("en", "de", "validation")
    rows = [*range(60), *range(65, 75)][::4]
    assert sample.source == [source[row] for row in rows]


def test_a_vocabulary_beyond_the_text_says_what_would_do(load, tmp_path):
    config = load("tokenizer.vocabulary_size=5000")
    sample = Corpora(config.data).sample
    with pytest.raises(InputError) as error:
        make_tokenizers(config.tokenizer, sample, tmp_path)
    message = str(error.value)
    assert message.startswith("tokenizer.vocabulary_size 5000 is more than the text ")
    largest = int(message.partition("at most ")[2].partition(",")[0])
    enough = load(f"tokenizer.vocabulary_size={largest}").tokenizer
    assert make_tokenizers(enough, sample, tmp_path)[0].vocabulary_size == largest
    more = load(f"tokenizer.vocabulary_size={largest + 1}").tokenizer
    (tmp_path / "tokenizer.model").unlink()
    with pytest.raises(InputError, match=f"give at most {largest}, or more text"):
        make_tokenizers(more, sample, tmp_path)


def test_tokenizers_of_the_run_folder_need_no_text(load, tmp_path):
    config = load()
    make_tokenizers(config.tokenizer, Corpora(config.data).sample, tmp_path)
    again = make_tokenizers(config.tokenizer, lambda: pytest.fail("read"), tmp_path)
    assert again[0] is again[1]


# === The text of a run that goes on ===


def test_the_fingerprint_of_the_same_text_is_the_same(load, tmp_path):
    corpora = Corpora(load().data)
    before = json.loads(json.dumps(corpora.fingerprint()))
    assert list(before) == ["train", "validation"]
    assert [file["lines"] for file in before["train"]] == [40, 40, 20, 20, 10]
    assert changes(before, corpora.fingerprint()) == []
    os.utime(tmp_path / "2.de", ns=(5, 5))
    assert changes(before, corpora.fingerprint(before)) == []


def test_what_is_known_is_not_read_again(load, monkeypatch, tmp_path):
    corpora = Corpora(load().data)
    before = corpora.fingerprint()
    read = []

    def record_of(path):
        read.append(path.name)
        return original(path)

    original = module.record_of
    monkeypatch.setattr(module, "record_of", record_of)
    assert corpora.fingerprint(before) == before
    assert read == []
    (tmp_path / "val.en").write_text("changed\n")
    after = corpora.fingerprint(before)
    assert read == ["val.en"]
    assert len(changes(before, after)) == 1


def test_a_changed_file_is_shown_as_it_was_and_as_it_is(load, tmp_path):
    corpora = Corpora(load().data)
    before = corpora.fingerprint()
    path = tmp_path / "1.de"
    size = path.stat().st_size
    path.write_text(path.read_text() + "one more\n")
    (line,) = changes(before, corpora.fingerprint(before))
    assert line.startswith(f"data.train: {path}: 40 lines, {size} bytes, sha256 ")
    assert f" -> 41 lines, {size + 9} bytes, sha256 " in line
