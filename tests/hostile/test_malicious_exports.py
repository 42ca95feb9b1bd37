"""A stranger's export to CTranslate2: one clear error before the library has it.

What is no plain file is in `test_malicious_folders.py`.
"""

import json
import shutil
import struct

import pytest

pytest.importorskip("ctranslate2", reason="needs CTranslate2")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines
from reference.strange_folder import refused_by

pytestmark = [pytest.mark.one_backend, pytest.mark.export]


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Folders in float32 and in int8."""
    from keras_transformer.export import ctranslate2
    from keras_transformer.translator import Translator

    translator, folder = Translator.load(FOLDER), tmp_path_factory.mktemp("exports")
    return {
        name: ctranslate2.export(translator, folder / str(name), quantization=name)
        for name in (None, "int8")
    }


#: Parts of which an export holds numbers that the library trusts.
PARTS = {
    "rotary, grouped": {
        "position": "rotary",
        "num_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "value_dim": 8,
        "feed_forward": "gated",
        "normalization_layer": "rms",
    },
    "buckets": {
        "position": "relative_buckets",
        "num_heads": 3,
        "decoder_num_heads": 2,
        "feed_forward_bias": False,
        "attention_scoring": "dot_product",
        "scale_logits": True,
    },
    "nothing": {
        "position": "none",
        "num_key_value_heads": 1,
        "tie_embeddings": "inputs",
    },
}


@pytest.fixture(scope="module")
def exports_of_parts(tmp_path_factory):
    """Untrained models of one layer, in each precision."""
    import keras_transformer as kt
    from keras_transformer.export import ctranslate2

    tokenizer, folder = (
        Tokenizer.load(FOLDER / "tokenizer.model"),
        tmp_path_factory.mktemp("exports"),
    )
    folders = {}
    for name, fields in PARTS.items():
        config = kt.TransformerConfig(
            vocabulary_size=400,
            hidden_dim=24,
            intermediate_dim=8,
            num_encoder_layers=1,
            num_decoder_layers=1,
            **{"num_heads": 2, **fields},
        )
        translator = kt.Translator(kt.Transformer(config), tokenizer, beam_size=2)
        for quantization in (None, "int8", "float16"):
            folders[name, quantization] = ctranslate2.export(
                translator, folder / f"{name} {quantization}", quantization=quantization
            )
    return folders


@pytest.fixture
def folder(exports, tmp_path):
    return shutil.copytree(exports[None], tmp_path / "model")


def refused(folder, message):
    refused_by(lambda: CTranslate2Engine(folder, Limits()), message)


def edit(folder, name, part, changes):
    path = folder / name
    content = json.loads(path.read_text())
    (content if part is None else content[part]).update(changes)
    path.write_text(json.dumps(content))


def test_a_whole_export_translates(exports):
    for folder in exports.values():
        engine = CTranslate2Engine(folder, Limits())
        ((best,),) = engine.translate(lines("source")[:1], Options(1))
        assert best.finished
    assert len(engine.count_tokens(["a"])) == 1


def test_exports_of_every_part_translate(exports_of_parts):
    for folder in exports_of_parts.values():
        engine = CTranslate2Engine(folder, Limits())
        ((best,),) = engine.translate(lines("source")[:1], Options(2))
        assert best.tokens


MODEL, CONFIG = "model.json", "config.json"


@pytest.mark.parametrize(
    ("name", "part", "changes"),
    [
        (MODEL, "search", {"beam_size": 10**9}),
        (MODEL, "search", {"beam_size": 0}),
        (MODEL, "search", {"beam_size": -4}),
        (MODEL, "search", {"beam_size": float("inf")}),
        (MODEL, "search", {"beam_size": 10**400}),
        (MODEL, "search", {"beam_size": "4"}),
        (MODEL, "search", {"beam_size": True}),
        (MODEL, "search", {"length_penalty": float("nan")}),
        (MODEL, "search", {"length_penalty": -1.0}),
        (MODEL, "search", {"beam_size": 1000}),
        (MODEL, "limits", {"extra_length": 5000}),
        (MODEL, "limits", {"extra_length": -60}),
        (MODEL, "limits", {"extra_length": 10**30}),
        (MODEL, "limits", {"longest_sequence": -1}),
        (MODEL, "limits", {"longest_sequence": 10**30}),
        (MODEL, "ids", {"suppressed": [400]}),
        (MODEL, "ids", {"suppressed": [-1]}),
        (MODEL, "ids", {"suppressed": "0"}),
        (MODEL, "ids", {"end": 10**6}),
        (MODEL, "ids", {"end": 3}),
        (MODEL, "ids", {"start": -1}),
        (MODEL, "files", {"source_tokenizer": "../tokenizer.model"}),
        (MODEL, "files", {"target_tokenizer": "/etc/passwd"}),
        (MODEL, "files", {"target_tokenizer": ["tokenizer.model"]}),
        (MODEL, None, {"source_end": 1}),
        (MODEL, None, {"target_vocabulary_size": 399}),
        (MODEL, None, {"format": "onnx"}),
        (MODEL, None, {"format_version": 3}),
        (MODEL, None, {"limits": []}),
        # More positions than its tables have.
        (MODEL, "limits", {"longest_sequence": 1025}),
        (CONFIG, None, {"add_source_eos": False}),
        (CONFIG, None, {"add_source_eos": 2}),
        (CONFIG, None, {"add_source_eos": "true"}),
        (CONFIG, None, {"add_source_bos": True}),
        (CONFIG, None, {"eos_token": "<s>"}),
        (CONFIG, None, {"unk_token": ["<unk>"]}),
        (CONFIG, None, {"layer_norm_epsilon": 0}),
        (CONFIG, None, {"layer_norm_epsilon": float("nan")}),
        (CONFIG, None, {"layer_norm_epsilon": "1e-6"}),
    ],
)
def test_descriptions_and_configs_with_other_values_are_refused(
    folder, name, part, changes
):
    edit(folder, name, part, changes)
    if name == CONFIG:
        refused(folder, rf"config\.json.* {next(iter(changes))}")
    else:
        refused(
            folder, r"model\.(json|bin)|the tokenizer has|may take minutes per line"
        )


def test_a_foreign_tokenizer_or_vocabulary_is_refused(folder):
    path = folder / "shared_vocabulary.json"
    text = path.read_text()
    for other in ([], {}, ["a"] * 400, json.loads(text)[::-1], [["a"]] * 400):
        path.write_text(json.dumps(other))
        refused(folder, "has other pieces than the tokenizer")
    path.write_text(text)
    Tokenizer.train([*lines("greedy")[::-1], "xyz" * 99], 400).save(
        folder / "tokenizer.model"
    )
    refused(folder, "has other pieces than the tokenizer")


# === The weights ===

NORM = "encoder/layer_0/ffn/layer_norm/beta"
LINEAR = "encoder/layer_0/ffn/linear_0/weight"


def put(form, name, offset, *values):
    """Writes values into the head of an array: its rank, sizes, type and bytes."""

    def change(content):
        at = content.index(f"{name}\0".encode()) + len(name) + 1 + offset
        struct.pack_into(form, content, at, *values)

    return change


def replace(old, new):
    def change(content):
        at = content.index(old)
        content[at : at + len(new)] = new

    return change


def aligned_by(layer, heads):
    changes = [
        put("<h", f"decoder/alignment_{name}", 6, value)
        for name, value in (("layer", layer), ("heads", heads))
    ]
    return lambda content: [change(content) for change in changes]


WEIGHTS = {
    "other shape": put("<BII", LINEAR, 0, 2, 48, 96),
    "other rank": put("<B", LINEAR, 0, 1),
    "other type of the same size": put("<B", NORM, 5, 3),
    "far more than there is": put("<II", LINEAR, 1, 2**31, 2**31),
    "far more bytes": put("<I", NORM, 6, 2**32 - 1),
    "no heads": put("<h", "encoder/num_heads", 6, 0),
    "heads that do not divide": put("<h", "decoder/num_heads", 6, 5),
    "one key for all": put("<b", "encoder/multi_query_attention", 6, 1),
    "a layer beyond the last aligns": aligned_by(2, 0),
    "more heads than there are align": aligned_by(1, 4),
    "other name": replace(b"/beta\0", b"/gama"),
    "twice": replace(b"decoder/layer_1/ffn/linear_0/bias", b"decoder/layer_0"),
    "other model": replace(b"TransformerSpec", b"WhisperSpec\0\0\0\0"),
    "cut": lambda content: content.__delitem__(slice(-9, None)),
    "longer": lambda content: content.append(0),
}


def change_weights(folder, change):
    content = bytearray((folder / "model.bin").read_bytes())
    change(content)
    (folder / "model.bin").write_bytes(content)


@pytest.mark.parametrize("change", WEIGHTS)
def test_weights_that_are_not_the_models_are_refused(folder, change):
    change_weights(folder, WEIGHTS[change])
    refused(folder, r"model\.bin: ")


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        ("rotary, grouped", "self_attention/num_heads_kv", 1),
        ("rotary, grouped", "self_attention/num_heads_kv", 0),
        ("rotary, grouped", "self_attention/num_heads_kv", -2),
        ("rotary, grouped", "self_attention/num_heads_kv", 3),
        ("rotary, grouped", "attention/num_heads_kv", 4),
        ("rotary, grouped", "self_attention/head_dim", 9),
        ("rotary, grouped", "attention/head_dim", 0),
        ("rotary, grouped", "self_attention/rotary_dim", 0),
        ("rotary, grouped", "self_attention/rotary_dim", 5),
        ("rotary, grouped", "self_attention/rotary_dim", 10),
        ("rotary, grouped", "self_attention/rotary_dim", -2),
        ("buckets", "self_attention/relative_attention_max_distance", 0),
        ("buckets", "self_attention/relative_attention_max_distance", 128),
        ("buckets", "self_attention/relative_attention_max_distance", -5),
    ],
)
def test_numbers_of_attention_that_do_not_fit_are_refused(
    exports_of_parts, tmp_path, model, name, value
):
    folder = shutil.copytree(exports_of_parts[model, None], tmp_path / "model")
    change_weights(folder, put("<i", f"decoder/layer_0/{name}", 6, value))
    refused(folder, r"model\.bin: ")


@pytest.mark.parametrize(
    ("model", "name", "shape"),
    [
        ("buckets", "decoder/layer_0/self_attention/relative_attention_bias", (2, 256)),
        ("buckets", "encoder/layer_0/self_attention/relative_attention_bias", (3, 512)),
        ("rotary, grouped", "decoder/layer_0/attention/linear_0/weight", (24, 32)),
        ("rotary, grouped", "decoder/layer_0/ffn/linear_0_noact/weight", (24, 8)),
    ],
)
def test_other_shapes_of_parts_are_refused(
    exports_of_parts, tmp_path, model, name, shape
):
    folder = shutil.copytree(exports_of_parts[model, None], tmp_path / "model")
    change_weights(folder, put("<BII", name, 0, 2, *shape))
    refused(folder, r"model\.bin: ")


def test_an_older_export_whose_last_layer_aligns_is_read(folder):
    change_weights(folder, aligned_by(-1, 1))
    engine = CTranslate2Engine(folder, Limits())
    ((best,),) = engine.translate(lines("source")[:1], Options(1, attention=True))
    shape = len(best.tokens), len(best.source_tokens)
    assert best.attention["cross"].shape[2:] == shape


def test_whole_numbers_without_their_scales_are_refused(exports, tmp_path):
    folder = shutil.copytree(exports["int8"], tmp_path / "model")
    name = f"{LINEAR}_scale".encode()
    change_weights(folder, replace(name, name.replace(b"weight", b"weihgt")))
    refused(folder, "weight_scale does not go with the type of the weights")


def test_what_the_library_cannot_do_is_one_error_too(folder, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("mkl_malloc: failed\nto allocate memory")

    monkeypatch.setattr(CTranslate2Engine, "translate", fail)
    refused(folder, "cannot be used: mkl_malloc: failed to allocate memory")
