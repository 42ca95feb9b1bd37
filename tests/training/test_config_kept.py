"""The config that a run keeps: written and read back, and compared with another."""

import pytest
import yaml

from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.config import new_bookkeeping

pytestmark = pytest.mark.no_backend

DATA = "data: {train: [{source: a.en, target: a.de}]}\n"


@pytest.fixture
def load(tmp_path):
    """`load(text, *overrides)` of a config file."""

    def load_text(text, *overrides):
        path = tmp_path / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, overrides)

    return load_text


@pytest.mark.parametrize(
    "text",
    [
        DATA,
        DATA + "model: {preset: big, normalize_first: true, layer_norm_epsilon: 1e-5}",
        DATA + "tokenizer: {path: t}\noutput: '1e5'",
        DATA + "tokenizer: {source_path: s, target_path: t}\n"
        "model: {tie_embeddings: target, attention_window: 5}",
        DATA + "tokenizer: {source_vocabulary_size: 300, target_vocabulary_size: 400, "
        "user_defined_symbols: ['%s', '{}'], character_coverage: 0.9995}\n"
        "model: {tie_embeddings: target}",
        "data: {phrasebook: fr-de}\ntraining: {learning_rate: 1e-7}\noutput: 'on'",
        "data: {train: [{tsv: [a, ü b]}], validation: {tsv: v}, test: {tsv: t}}",
        "data: {train: [{tsv: a, weight: 2}, {tsv: b, weight: 0.1}], workers: 3, "
        "bpe_dropout: 0.1, cache: c, filters: {max_ratio: 3, unique: true}}",
    ],
)
def test_yaml_loads_again_to_an_equal_object(text, load, tmp_path):
    config = load(text)
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml(), encoding="utf-8")
    assert load_config(path) == config


def test_the_difference_names_each_key(load):
    before = load(DATA + "training: {steps: 100}")
    after = load(
        DATA + "training: {steps: 50, learning_rate: 0.1}", "model.dropout=0.5"
    )
    assert difference(before, after) == [
        "model.dropout: 0.1 -> 0.5",
        "training.steps: 100 -> 50",
        "training.learning_rate: None -> 0.1",
    ]
    assert new_bookkeeping(before, after) == []
    same = DATA + "training: {steps: 100}\ndecoding: {beam_size: 9}"
    assert difference(before, load(same, "output=x", "data.cache=c")) == []


def test_steps_may_become_more_and_bookkeeping_may_change(load):
    before = load(DATA + "training: {steps: 100, average_last: 1}")
    after = load(
        DATA + "training: {steps: 200, keep_checkpoints: 3, keep_best: 1, "
        "validate_every: 20, checkpoint_every: 10, log_every: 5, patience: 9, "
        "average_best: 2}\nevaluation: {lowercase: true}",
        "data.validation={source: a, target: b}",
    )
    changes = [line for line in difference(before, after) if "validation" not in line]
    assert changes == []
    names = [line.partition(":")[0] for line in new_bookkeeping(before, after)]
    assert sorted(names) == [
        "evaluation.lowercase",
        *(
            f"training.{name}"
            for name in (
                *("average_best", "average_last", "checkpoint_every", "keep_best"),
                *("keep_checkpoints", "log_every", "patience", "steps"),
                "validate_every",
            )
        ),
    ]


def test_a_run_keeps_the_normalization_that_was_the_default_when_it_began(load):
    """Its config says so, and what a user writes does not; the tokenizer is kept."""
    before = load(DATA + "tokenizer: {normalization: identity}")
    assert difference(before, load(DATA)) == []
    assert difference(load(DATA), load(DATA)) == []
    other = load(DATA + "tokenizer: {normalization: nfkc}")
    rule = "tokenizer.normalization"
    assert difference(before, other) == [f"{rule}: identity -> nfkc"]
    assert difference(other, load(DATA)) == [f"{rule}: nfkc -> None"]


def test_a_run_keeps_the_optimizer_that_it_was_begun_with(load):
    """Configs of before name none, which is Adam as the default has it."""
    text = load(DATA).to_yaml()
    assert "optimizer" in text
    before = yaml.safe_load(text)
    del before["training"]["optimizer"]
    before = load(yaml.safe_dump(before))
    assert difference(before, load(DATA)) == []
    other = load(DATA, "training.optimizer.name=adamw")
    assert difference(before, other) == [
        "training.optimizer.name: adam -> adamw",
        "training.optimizer.weight_decay: None -> 0.01",
    ]


def test_where_texts_lie_is_no_difference(load):
    """They are known by their content, in the run folder."""
    texts = "data: {{train: [{{source: {0}, target: {0}}}, {{tsv: {0}, weight: {1}}}]"
    texts += ", validation: {{tsv: {0}}}}}\ntokenizer: {{path: {0}}}"
    before, moved = (load(texts.format(name, 0.5)) for name in ("a", "b"))
    assert difference(before, moved) == []
    assert difference(before, load(texts.format("b", 2.0))) == [
        "data.train.1.weight: 0.5 -> 2.0"
    ]


def test_a_file_that_changes_its_corpus_is_a_difference(load):
    """It would be seen as often as the others there."""
    texts = (
        "data: {{train: [{{source: {0}, target: {0}}},"
        " {{source: {1}, target: {1}, weight: 3}}]}}"
    )
    before, same = (
        load(texts.format(*files)) for files in (("[a, b]", "c"), ("[x, y]", "[z]"))
    )
    assert difference(before, same) == []
    lines = difference(before, load(texts.format("a", "[b, c]")))
    assert [line.partition(":")[0] for line in lines] == [
        f"data.train.{number}.{side}"
        for number in (0, 1)
        for side in ("source", "target")
    ]


def test_how_texts_are_read_is_a_difference(load):
    texts = "data: {{train: [{{tsv: a}}], validation: {{{}: b, columns: [1, 2]}}}}"
    before, other = (load(texts.format(format)) for format in ("tsv", "csv"))
    lines = [line.partition(":")[0] for line in difference(before, other)]
    assert lines == ["data.validation.tsv", "data.validation.csv"]
