"""The config file: what it may say, and one sentence for each thing it may not."""

import re
from pathlib import Path

import pydantic
import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import load_config

pytestmark = pytest.mark.no_backend

DATA = "data: {train: [{source: a.en, target: a.de}]}\n"
PHRASEBOOK = {"phrasebook": "en-de"}


@pytest.fixture
def load(tmp_path):
    """`load(text, *overrides)` of a file `texts/my.yaml`."""
    (tmp_path / "texts").mkdir()

    def load_text(text, *overrides):
        path = tmp_path / "texts" / "my.yaml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, overrides)

    return load_text


# === What it says ===


def test_every_key_but_the_texts_has_the_default_of_the_paper(load):
    config = load(DATA)
    paper = TransformerConfig.from_preset("base", vocabulary_size=37_000)
    assert config.translation_config(37_000, 37_000) == paper
    assert config.tokenizer.model_dump(exclude_none=True) == {
        "vocabulary_size": 37_000,
        "shared": True,
        "split_digits": False,
        "character_coverage": 1.0,
        "user_defined_symbols": (),
    }
    assert config.training.model_dump() == {
        "steps": 100_000,
        "warmup_steps": 4000,
        "learning_rate": None,
        "schedule": "inverse_square_root",
        "optimizer": {
            "name": "adam",
            "beta_1": 0.9,
            "beta_2": 0.98,
            "epsilon": 1e-9,
            "weight_decay": None,
        },
        "label_smoothing": 0.1,
        "lora": None,
        "r_drop": 0.0,
        "simcut": None,
        "distillation": None,
        "loss": None,
        "clip_norm": None,
        "micro_batches": 1,
        "remat": False,
        "freeze": (),
        "validate_every": 1000,
        "checkpoint_every": 1000,
        "log_every": None,
        "callbacks": (),
        "keep_checkpoints": 10,
        "keep_best": 0,
        "best_metric": "bleu",
        "patience": None,
        "average_last": 5,
        "average_best": None,
        "ema": None,
        "precision": "float32",
        "jit_compile": "auto",
        "distribution": "none",
        "devices": "all",
        "seed": 1,
    }
    assert (config.data.batch_tokens, config.data.max_length) == (25_000, 128)
    assert (config.data.bpe_dropout, config.data.cache) == (0.0, None)
    filters = {"min_length": 1, "max_ratio": None, "unique": False}
    assert config.data.filters.model_dump() == filters
    assert config.data.workers == "all"
    assert config.data.train[0].weight == 1.0
    assert (config.decoding.beam_size, config.decoding.length_penalty) == (4, 0.6)
    assert config.output == Path("runs/my")


@pytest.mark.parametrize(
    ("steps", "every", "mean"), [(1200, 100, 1), (1200, 40, 3), (10_000, 100, 5)]
)
def test_the_mean_is_of_the_last_tenth_of_the_steps(load, steps, every, mean):
    keys = f"training: {{steps: {steps}, checkpoint_every: {every}}}"
    assert load(DATA + keys).training.average_last == mean


def test_no_file_is_the_phrasebook():
    config = load_config(None)
    assert config.data.phrasebook == "en-de"
    assert config.output == Path("runs/phrasebook-en-de")
    other = load_config(None, ["data.phrasebook=fr-en"])
    assert other.output == Path("runs/phrasebook-fr-en")


def test_each_key_of_the_phrasebook_config_is_explained():
    path = Path(load_config.__code__.co_filename).with_name("phrasebook.yaml")
    lines = path.read_text(encoding="utf-8").splitlines()
    keys = [line for line in lines if re.match(r" +\w+: ", line)]
    assert len(keys) > 10
    assert not [line for line in keys if " # " not in line]


def test_the_model_is_a_preset_and_any_field(load):
    config = load(DATA + "model: {preset: tiny, kind: transformer, dropout: 0.2}")
    expected = TransformerConfig.from_preset("tiny", vocabulary_size=9, dropout=0.2)
    assert config.translation_config(9, 9) == expected


def test_two_vocabularies_may_differ_in_size(load):
    config = load(DATA + "tokenizer: {shared: false}\nmodel: {tie_embeddings: target}")
    model = config.translation_config(300, 400)
    assert (model.source_vocabulary_size, model.target_vocabulary_size) == (300, 400)


def test_texts_are_relative_to_the_file_and_output_is_not(load, tmp_path):
    config = load(
        "data:\n"
        "  train: [{source: [a, /b], target: [c, ../d]}, {tsv: e}]\n"
        "  validation: {tsv: [f, g]}\n"
        "  test: {source: h, target: i}\n"
        "  cache: j\n"
        "tokenizer: {path: t}\n"
        "output: out"
    )
    here = tmp_path / "texts"
    first, second = config.data.train
    assert first.source == (here / "a", Path("/b"))
    assert first.target == (here / "c", tmp_path / "d")
    assert second.tsv == (here / "e",)
    assert config.data.validation.tsv == (here / "f", here / "g")
    assert config.data.test.source == (here / "h",)
    assert config.data.cache == here / "j"
    assert config.tokenizer.path == here / "t"
    assert config.output == Path("out")


def test_a_trained_tokenizer_decides_what_it_is(load):
    shared = load(DATA + "tokenizer: {path: t}").tokenizer
    assert (shared.shared, shared.vocabulary_size) == (True, None)
    two = "tokenizer: {source_path: s, target_path: t}\nmodel: {tie_embeddings: none}"
    assert load(DATA + two).tokenizer.shared is False


def test_numbers_are_read_as_people_write_them(load):
    config = load(DATA + "training: {learning_rate: 5e-3}\ndecoding:\n")
    assert config.training.learning_rate == 0.005
    assert load(DATA + "decoding: {length_penalty: 1}").decoding.length_penalty == 1.0


def test_python_and_file_are_the_same_object(load):
    text = "data: {phrasebook: en-de}\noutput: runs/phrasebook-en-de"
    assert RunConfig(data=PHRASEBOOK) == load(text)
    with pytest.raises(pydantic.ValidationError, match="steps"):
        RunConfig(data=PHRASEBOOK, training={"steps": "5"})
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        RunConfig(data=PHRASEBOOK).output = Path("elsewhere")


# === Overrides ===


def test_overrides_act_as_if_they_stood_in_the_file(load, tmp_path):
    config = load(
        DATA + "training: {steps: 5}",
        "training.steps=7",
        "model.preset=tiny",
        "data.train=[{tsv: x=y}]",
    )
    assert config.training.steps == 7
    assert config.model["hidden_dim"] == 128
    assert config.data.train[0].tsv == (tmp_path / "texts" / "x=y",)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.steps", "--set training.steps: expected key=value"),
        ("=5", "--set =5: expected key=value"),
        ("training.=5", "expected key=value"),
        ("data.train.0=5", "train has no keys; set it as a whole"),
        ("training.steps=[", "--set training.steps, line 1: not valid YAML"),
        ("training.step=5", "my.yaml with --set: unknown key training.step; did"),
    ],
)
def test_bad_overrides_are_refused(override, message, load):
    with pytest.raises(InputError, match=re.escape(message)):
        load(DATA, override)


# === Back to a file ===


# === What it may not say ===


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data: give train, a list of corpora, or phrasebook"),
        ("- 1", "expected keys such as data and training, got [1]"),
        ("Ein Text. " * 99, f"got '{'Ein Text. ' * 5}"),
        (DATA + "trainin: {}", "unknown key trainin; did you mean 'training'?"),
        (DATA + "training: {step: 5}", "unknown key training.step; did you mean 'st"),
        (DATA + "training: 5", "training: expected keys with values, got 5"),
        (DATA + "training: {callbacks: 'm:f'}", "callbacks: Input should be a list"),
        (DATA + "training: {steps: '5'}", "training.steps: Input should be a valid in"),
        (DATA + "training: {steps: 5.0}", "valid integer, got 5.0"),
        (DATA + "training: {steps: true}", "valid integer, got True"),
        (DATA + "training: {steps: 0}", "training.steps: Input should be greater than"),
        (DATA + "training: {label_smoothing: 1}", "label_smoothing: Input should be l"),
        (DATA + "training: {schedule: linaer}", "'linear' or 'constant', got 'lin"),
        (DATA + "training: {optimizer: adamw}", "optimizer: expected keys with values"),
        (DATA + "training: {optimizer: {name: sgd}}", "'adamw' or 'adafactor', got 's"),
        (DATA + "training: {optimizer: {beta_2: 1}}", "training.optimizer.beta_2: In"),
        (DATA + "training: {optimizer: {beta: 1}}", "training.optimizer.beta; did you"),
        (
            DATA + "training: {optimizer: {weight_decay: 0.1}}",
            "training.optimizer: weight_decay is no setting of adam; remove it, or set "
            "name to adamw or adafactor",
        ),
        (
            DATA + "training: {optimizer: {name: adafactor, beta_2: 0.9}}",
            "beta_2 is no setting of adafactor; remove it, or set name to adam or ada",
        ),
        (DATA + "training: {precision: float16}", "'float32' or 'mixed_bfloat16', got"),
        (DATA + "training: {distribution: miror}", "'mirrored', 'multi_worker', "),
        (DATA + "training: {devices: 2}", "devices 2 need a distribution; set it to"),
        (DATA + "training: {devices: 0}", "devices: Input should be 'all' or greater"),
        (DATA + "training: {jit_compile: y}", "'auto' or a valid boolean, got 'y'"),
        (DATA + "training: {seed: 4294967296}", "seed: Input should be less than 4294"),
        (
            DATA + "training: {jit_compile: true, distribution: mirrored}",
            "jit_compile does not go with distribution mirrored",
        ),
        (DATA + "training: {patience: 3}", "training.patience needs to know what is"),
        (DATA + "training: {ema: 0.9, average_last: 3}", "give one of them"),
        (
            DATA + "training: {ema: 1.5}",
            "ema: Input should be less than 1, got",
        ),
        (DATA + "training: {freeze: [encodr]}", "'embeddings', 'encoder' or 'decoder'"),
        (
            DATA + "training: {keep_best: 2, validate_every: 3, checkpoint_every: 2}",
            "validate_every 3 is not a multiple of checkpoint_every 2; make it one",
        ),
        (DATA + "decoding: {length_penalty: .inf}", "valid number, got '.inf'"),
        (DATA + "output: 5", "output: expected a path, got 5"),
        (DATA + "output: ~nobody./x", "~nobody./x: no such home folder; write the pa"),
        # the model
        (DATA + "model: 5", "model: expected keys such as preset, got 5"),
        (DATA + "model: {folder: 5}", "model.folder: expected a path, got 5"),
        (DATA + "model: {prest: tiny}", "unknown key model.prest; did you mean 'pre"),
        (DATA + "model: {hiden_dim: 8}", "model.hiden_dim; did you mean 'hidden_dim'?"),
        (DATA + "model: {preset: tinny}", "model.preset: expected one of tiny, base"),
        (DATA + "model: {kind: rnn}", "model.kind: 'rnn' is not available; use tra"),
        (DATA + "model: {dropout: '0'}", "model.dropout: Input should be a valid num"),
        (DATA + "model: {num_heads: 3}", "model: num_heads 3 does not divide"),
        (DATA + "model: {vocabulary_size: 9}", "set tokenizer.vocabulary_size"),
        (DATA + "model: {pad_id: 9}", "model.pad_id is decided by the tokenizer; rem"),
        # the tokenizer
        (DATA + "tokenizer: {vocabulary_size: 99}", "greater than or equal to 260, go"),
        (DATA + "tokenizer: {path: t, vocabulary_size: 999}", "which vocabulary_size"),
        (DATA + "tokenizer: {path: t, split_digits: true}", "which split_digits cann"),
        (DATA + "tokenizer: {path: t, source_path: t}", "either path or source_path"),
        (DATA + "tokenizer: {target_path: t}", "belong together; give both"),
        (DATA + "tokenizer: {path: t, shared: false}", "shared false does not go wit"),
        (DATA + "tokenizer: {normalization: nfc}", "'nfkc' or 'nmt_nfkc', got 'nfc'"),
        (
            DATA + "tokenizer: {character_coverage: 0.5}",
            "greater than or equal to 0.98",
        ),
        (
            DATA + "tokenizer: {user_defined_symbols: '%s'}",
            "expected a list of strings",
        ),
        (DATA + "tokenizer: {user_defined_symbols: [a b]}", "'a b' holds white space"),
        (DATA + "tokenizer: {source_vocabulary_size: 300}", "belong together; give bo"),
        (
            DATA + "tokenizer: {source_vocabulary_size: 300, vocabulary_size: 300, "
            "target_vocabulary_size: 400}",
            "either vocabulary_size or one for each side",
        ),
        (
            DATA + "tokenizer: {source_vocabulary_size: 300, shared: true, "
            "target_vocabulary_size: 400}",
            "shared true does not go with source_vocabulary_size",
        ),
        (
            DATA + "tokenizer: {shared: false}",
            'tokenizer.shared is false, but model.tie_embeddings "all" needs one',
        ),
        # the texts
        ("data: {train: {tsv: a}}", "data.train: expected a list of corpora"),
        ("data: {train: []}", "data.train: expected a list of corpora"),
        ("data: {train: [{source: a}]}", "data.train.0: give source and target, or"),
        ("data: {train: [{source: a, target: b, tsv: c}]}", "give source and target"),
        ("data: {train: [{csv: a, jsonl: c}]}", "or one of tsv, csv, jsonl, parquet"),
        ("data: {train: [{tmx: a}]}", "tmx needs columns, its two languages"),
        ("data: {train: [{tsv: a, columns: [0, 1]}]}", "two numbers from 1"),
        ("data: {train: [{tsv: a, columns: 1}]}", "a list of two columns, got 1"),
        (
            "data: {train: [{source: a, target: b, columns: [1, 2]}]}",
            "columns belong to a file with both sides",
        ),
        ("data: {train: [{source: a, targt: b}]}", "0.targt; did you mean 'target'?"),
        ("data: {train: [{source: 5, target: b}]}", "a path or a list of paths, got 5"),
        ("data: {train: [{tsv: [a, '']}]}", "data.train.0.tsv.1: expected a path, got"),
        ("data: {train: [{source: [a, b], target: c}]}", "2 source files do not pair"),
        (
            "data: {train: [{tsv: a, weight: 0}]}",
            "data.train.0.weight: Input should be",
        ),
        ("data: {train: [{tsv: a, weight: 1.0e+300}]}", "less than or equal to 10000"),
        ("data: {train: [{tsv: ~nobody./x}]}", "0.tsv.0: ~nobody./x: no such home fo"),
        ("data: {phrasebook: en-de, batch_tokens: Auto}", "integer or 'auto', got 'Au"),
        ("data: {train: [{tsv: a}], test: {tsv: b, weight: 2.0}}", "data.test.weight"),
        (
            "data: {phrasebook: en-de, bpe_dropout: 1}",
            "bpe_dropout: Input should be le",
        ),
        (
            "data: {phrasebook: en-de, filters: {max_ratio: 0.5}}",
            "max_ratio: Input sho",
        ),
        (
            "data: {phrasebook: en-de, filters: {min_lenth: 2}}",
            "did you mean 'min_leng",
        ),
        ("data: {phrasebook: en-de, workers: 0}", "data.workers"),
        ("data: {phrasebook: en-de, cache: 5}", "data.cache: expected a path, got 5"),
        ("data: {phrasebook: en-en}", "data.phrasebook: expected one of en-de, en-fr"),
        ("data: {phrasebook: en-de, test: {tsv: a}}", "remove phrasebook or test"),
        ("data: {phrasebook: en-de, train: [{tsv: a}]}", "remove phrasebook or train"),
        (
            DATA + "model: {position: learned, max_sequence_length: 100}",
            "data.max_length 128 is more than the 100 positions",
        ),
        (
            "data: {phrasebook: en-de, max_length: 90, packing: 128}\n"
            "model: {position: learned, max_sequence_length: 100}",
            "data.packing 128 is more than the 100 positions",
        ),
    ],
)
def test_each_fault_is_one_sentence_with_file_and_key(text, message, load):
    with pytest.raises(InputError) as error:
        load(text)
    assert message in str(error.value)
    assert re.match(r"\S*my\.yaml[:,] ", str(error.value))
    assert "\n" not in str(error.value)


def test_a_missing_file_and_one_that_is_no_text_are_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*no\.yaml: No such file"):
        load_config(tmp_path / "no.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"data:\n  \xff")
    with pytest.raises(InputError, match=r"bytes\.yaml, line 2: not UTF-8"):
        load_config(tmp_path / "bytes.yaml")
