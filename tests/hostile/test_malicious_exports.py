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
from keras_transformer.errors import InputError
from keras_transformer.serving.ctranslate2.engine import CTranslate2Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

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
    with pytest.raises(InputError, match=message) as error:
        CTranslate2Engine(folder, Limits())
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


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


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("search", {"beam_size": 10**9}),
        ("search", {"beam_size": 0}),
        ("search", {"beam_size": -4}),
        ("search", {"beam_size": float("inf")}),
        ("search", {"beam_size": 10**400}),
        ("search", {"beam_size": "4"}),
        ("search", {"beam_size": True}),
        ("search", {"length_penalty": float("nan")}),
        ("search", {"length_penalty": -1.0}),
        ("search", {"beam_size": 1000}),
        ("limits", {"extra_length": 5000}),
        ("limits", {"extra_length": -60}),
        ("limits", {"extra_length": 10**30}),
        ("limits", {"longest_sequence": -1}),
        ("limits", {"longest_sequence": 10**30}),
        ("ids", {"suppressed": [400]}),
        ("ids", {"suppressed": [-1]}),
        ("ids", {"suppressed": "0"}),
        ("ids", {"end": 10**6}),
        ("ids", {"end": 3}),
        ("ids", {"start": -1}),
        ("files", {"source_tokenizer": "../tokenizer.model"}),
        ("files", {"target_tokenizer": "/etc/passwd"}),
        ("files", {"target_tokenizer": ["tokenizer.model"]}),
        (None, {"source_end": 1}),
        (None, {"target_vocabulary_size": 399}),
        (None, {"format": "onnx"}),
        (None, {"format_version": 2}),
        (None, {"limits": []}),
    ],
)
def test_a_description_with_other_values_is_refused(folder, part, changes):
    edit(folder, "model.json", part, changes)
    refused(folder, r"model\.(json|bin)|the tokenizer has|may take minutes per line")


def test_more_positions_than_its_tables_have_are_refused(folder):
    edit(folder, "model.json", "limits", {"longest_sequence": 1025})
    refused(
        folder, r"position_encodings/encodings has shape \(1024, 48\), but .*\(1025"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"add_source_eos": False},
        {"add_source_eos": 2},
        {"add_source_eos": "true"},
        {"add_source_bos": True},
        {"eos_token": "<s>"},
        {"unk_token": ["<unk>"]},
        {"layer_norm_epsilon": 0},
        {"layer_norm_epsilon": float("nan")},
        {"layer_norm_epsilon": "1e-6"},
    ],
)
def test_a_config_that_is_not_the_models_is_refused(folder, changes):
    edit(folder, "config.json", None, changes)
    refused(folder, rf"config\.json.* {next(iter(changes))}")


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


def after(content, name):
    """Where the head of an array stands: its rank, sizes, type and bytes."""
    return content.index(f"{name}\0".encode()) + len(name) + 1


def other_shape(content):
    at = after(content, LINEAR)
    struct.pack_into("<BII", content, at, 2, 48, 96)


def other_rank(content):
    struct.pack_into("<B", content, after(content, LINEAR), 1)


def other_type(content):  # of the same size
    struct.pack_into("<B", content, after(content, NORM) + 5, 3)


def far_more_than_there_is(content):
    struct.pack_into("<II", content, after(content, LINEAR) + 1, 2**31, 2**31)


def far_more_bytes(content):
    struct.pack_into("<I", content, after(content, NORM) + 6, 2**32 - 1)


def no_heads(content):
    struct.pack_into("<h", content, after(content, "encoder/num_heads") + 6, 0)


def heads_that_do_not_divide(content):
    struct.pack_into("<h", content, after(content, "decoder/num_heads") + 6, 5)


def aligned_by(content, layer, heads):
    for name, value in (("alignment_layer", layer), ("alignment_heads", heads)):
        struct.pack_into("<h", content, after(content, f"decoder/{name}") + 6, value)


def a_layer_beyond_the_last_aligns(content):
    aligned_by(content, 2, 0)


def more_heads_than_there_are_align(content):
    aligned_by(content, 1, 4)


def one_key_for_all(content):
    name = "encoder/multi_query_attention"
    struct.pack_into("<b", content, after(content, name) + 6, 1)


def other_name(content):
    at = content.index(b"/beta\0")
    content[at : at + 5] = b"/gama"


def twice(content):
    at = content.index(b"decoder/layer_1/ffn/linear_0/bias")
    content[at : at + 15] = b"decoder/layer_0"


def other_model(content):
    at = content.index(b"TransformerSpec")
    content[at : at + 15] = b"WhisperSpec\0\0\0\0"


def cut(content):
    del content[-9:]


def longer(content):
    content += b"\0"


@pytest.mark.parametrize(
    "change",
    [
        *(other_shape, other_rank, other_type, far_more_than_there_is, far_more_bytes),
        *(no_heads, heads_that_do_not_divide, one_key_for_all),
        *(a_layer_beyond_the_last_aligns, more_heads_than_there_are_align),
        *(other_name, twice, other_model, cut, longer),
    ],
)
def test_weights_that_are_not_the_models_are_refused(folder, change):
    content = bytearray((folder / "model.bin").read_bytes())
    change(content)
    (folder / "model.bin").write_bytes(content)
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
    content = bytearray((folder / "model.bin").read_bytes())
    name = f"decoder/layer_0/{name}"
    struct.pack_into("<i", content, after(content, name) + 6, value)
    (folder / "model.bin").write_bytes(content)
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
    content = bytearray((folder / "model.bin").read_bytes())
    struct.pack_into("<BII", content, after(content, name), 2, *shape)
    (folder / "model.bin").write_bytes(content)
    refused(folder, r"model\.bin: ")


def test_an_older_export_whose_last_layer_aligns_is_read(folder):
    content = bytearray((folder / "model.bin").read_bytes())
    aligned_by(content, -1, 1)
    (folder / "model.bin").write_bytes(content)
    engine = CTranslate2Engine(folder, Limits())
    ((best,),) = engine.translate(lines("source")[:1], Options(1, attention=True))
    shape = len(best.tokens), len(best.source_tokens)
    assert best.attention["cross"].shape[2:] == shape


def test_whole_numbers_without_their_scales_are_refused(exports, tmp_path):
    folder = shutil.copytree(exports["int8"], tmp_path / "model")
    content = bytearray((folder / "model.bin").read_bytes())
    name = f"{LINEAR}_scale".encode()
    at = content.index(name)
    content[at : at + len(name)] = name.replace(b"weight", b"weihgt")
    (folder / "model.bin").write_bytes(content)
    refused(folder, "weight_scale does not go with the type of the weights")


def test_what_the_library_cannot_do_is_one_error_too(folder, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("mkl_malloc: failed\nto allocate memory")

    monkeypatch.setattr(CTranslate2Engine, "translate", fail)
    refused(folder, "cannot be used: mkl_malloc: failed to allocate memory")
