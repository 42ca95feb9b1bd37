"""Transformers whose decoder has an SSRU in place of self-attention."""

import importlib
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import sentencepiece
import yaml
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import DecodingOptions
from keras_transformer.models import Ensemble
from keras_transformer.models.search import search
from keras_transformer.models.weights import assign
from reference import configs
from reference import models
from reference.models import logits_of
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources
from reference.weights import targets

PATHS = """
    decoder_0/ssru/input_kernel decoder_0/ssru/forget_kernel decoder_0/ssru/forget_bias
    decoder_0/ssru_residual/norm/gamma decoder_0/ssru_residual/norm/beta
"""


@pytest.mark.one_backend
def test_its_weights_have_names_of_their_own():
    paths = {weight.path for weight in models.model("ssru").weights}
    assert set(PATHS.split()) <= paths
    assert not any(path.startswith("decoder_0/self_attention") for path in paths)
    found = models.model("ssru").layer_groups["decoder"]
    frozen = {weight.path for layer in found if layer for weight in layer.weights}
    assert set(PATHS.split()) <= frozen


@pytest.mark.parametrize(
    "name", ["ssru", pytest.param("ssru, pre-norm", marks=pytest.mark.one_backend)]
)
def test_it_learns_to_copy(name):
    """With blocks that the backward pass computes again, in one of the cases."""
    keras.utils.set_random_seed(1)
    fields = {**configs.ONE_LAYER, "dropout": 0.0}
    model = kt.Transformer(configs.config(name, **fields))
    model.rematerializes = name == "ssru"
    model.compile(kt.training.adam(1e-2), kt.training.LabelSmoothedCrossEntropy(0.0))
    source = ids((6, 3, 5, 4) * 16, seed=1, vocabulary_size=9)
    target = np.concatenate([np.ones((64, 1), "int32"), source[:, :-1]], axis=1)
    inputs = {"source": source, "target": target}
    losses = model.fit(inputs, source, epochs=8, batch_size=16, verbose=0).history
    assert losses["loss"][-1] < 0.7 * losses["loss"][0]


@pytest.mark.one_backend
def test_a_keras_file_and_a_folder_bring_it_back(tmp_path):
    model = models.model("ssru")
    expected = logits_of(model, sources(), targets())
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(logits_of(again, sources(), targets()), expected)
    tokenizer = kt.data.Tokenizer.train(["a house ein Haus"] * 9, 270)
    fields = {"vocabulary_size": 270, "num_encoder_layers": 1, "num_decoder_layers": 1}
    translator = kt.Translator(randomize(models.build("ssru", **fields)), tokenizer)
    translator.save(tmp_path / "folder")
    loaded = kt.Translator.load(tmp_path / "folder")
    assert loaded.model.config.decoder == "ssru"
    text = ["a house", "house a house"]
    assert loaded.translate(text) == translator.translate(text)
    assert loaded.score(text, text) == translator.score(text, text)


@pytest.mark.one_backend
def test_a_search_among_other_members_is_that_of_their_mean():
    """An ensemble with a decoder of self-attention: each reorders its own cache."""
    members = [models.model("ssru"), models.model("paper")]
    ensemble = Ensemble(members)
    source = ops.convert_to_tensor(sources())
    limits = ops.convert_to_tensor(np.full(len(source), 6, "int32"))
    options = DecodingOptions(beam_size=3)
    result = search(ensemble, source, limits, length=6, options=options)
    tokens, lengths = numpy(result.tokens)[:, 0], numpy(result.lengths)[:, 0]
    target = np.concatenate([np.ones_like(tokens[:, :1]), tokens[:, :-1]], axis=1)
    likely = numpy(ops.log_softmax(logits_of(ensemble, sources(), target)))
    scores = np.take_along_axis(likely, tokens[..., None], axis=2)[..., 0]
    expected = [row[:length].sum() for row, length in zip(scores, lengths, strict=True)]
    found = numpy(result.log_probabilities)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
def test_int8_and_adapters_reach_its_matrices():
    model, quantized = (
        randomize(models.build("ssru", **configs.ONE_LAYER)) for _ in range(2)
    )
    expected = logits_of(model, sources(), targets())
    quantized.quantize("int8")
    dtypes = {weight.path: weight.dtype for weight in quantized.weights}
    assert dtypes["decoder_0/ssru/input_kernel"] == "int8"
    assert dtypes["decoder_0/ssru/forget_kernel"] == "int8"
    assert dtypes["decoder_0/ssru/forget_bias"] == "float32"
    found = logits_of(quantized, sources(), targets())
    assert 0 < np.sqrt(np.mean((found - expected) ** 2)) < 0.05 * expected.std()

    layer = kt.layers.SSRU()
    states = ops.convert_to_tensor(np.ones((2, 3, 4), "float32"))
    before = numpy(layer(states))
    layer.enable_lora(2)
    np.testing.assert_array_equal(numpy(layer(states)), before)
    assert len(layer.trainable_weights) == 4
    layer.input_kernel_lora_b.assign(np.ones((2, 4)))
    assert np.abs(numpy(layer(states)) - before).max() > 1e-3


@pytest.mark.one_backend
def test_a_position_of_ones_own_within_self_attention_is_refused():
    class Nearness(kt.layers.RelativePositionalEncoding):
        pass

    name = "nearness of test_ssru_decoder"
    kt.models.register_position(name, lambda config, side, **kw: Nearness(**kw))
    with pytest.raises(ValueError, match="works within self-attention, which a decod"):
        models.build("ssru", position=name)


@pytest.mark.one_backend("jax")
def test_several_devices_share_its_states():
    from keras_transformer.backends.jax_distribution import layout_map

    mesh = keras.distribution.DeviceMesh((1, 1), ("batch", "model"), ["cpu:0"])
    layouts = layout_map(mesh)
    for name in ("input_kernel", "forget_kernel"):
        assert layouts[f"decoder_0/ssru/{name}"].axes == (None, "model")
    assert layouts["decoder_0/ssru/forget_bias"].axes == ("model",)


# === Against Marian ===


@pytest.fixture(scope="module")
def marian(shared_data):
    """A model of Marian's, a NumPy program of it, and what Marian itself translates."""
    folder = Path(shared_data) / "pretrained"
    if not (folder / "marian-ssru" / "model.npz").is_file():
        pytest.skip("needs the pretrained models in shared/data, beside the repository")
    with np.load(folder / "marian-ssru" / "model.npz", allow_pickle=False) as file:
        arrays = dict(file)
    config = arrays.pop("special:model.yml").tobytes().rstrip(b"\0").decode("utf-8")
    reference = json.loads((folder / "reference-marian.json").read_text("utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        program = importlib.import_module("marian_numpy")
    return (
        program.Marian(arrays, yaml.safe_load(config)),
        sentencepiece.SentencePieceProcessor(str(folder / "marian-ssru" / "vocab.spm")),
        reference["marian-ssru"]["greedy"],
    )


def ours(theirs):
    """Marian's model as one of this package; its first input is a row of zeros."""
    arrays, config = theirs.w, theirs.c
    size, hidden_dim = arrays["Wemb"].shape
    model = kt.Transformer(
        kt.TransformerConfig(
            vocabulary_size=size + 1,
            pad_id=size,
            start_id=size,
            end_id=0,
            hidden_dim=hidden_dim,
            intermediate_dim=config["transformer-dim-ffn"],
            num_heads=config["transformer-heads"],
            num_encoder_layers=config["enc-depth"],
            num_decoder_layers=config["dec-depth"],
            decoder="ssru",
            position="sinusoidal_halves_t2t",
            use_bias=True,
            output_bias=True,
        )
    )
    embeddings = np.pad(arrays["Wemb"], [(0, 1), (0, 0)])
    bias = np.pad(arrays["decoder_ff_logit_out_b"][0], (0, 1), constant_values=-1e9)
    weights = {"embedding/embeddings": embeddings, "embedding/bias": bias}
    norm = {"gamma": "scale", "beta": "bias"}
    for side in ("encoder", "decoder"):
        for layer in range(config[f"{side[:3]}-depth"]):
            path, name = f"{side}_{layer}", f"{side}_l{layer + 1}"
            parts = {"feed_forward": ("ffn", "ffn_ffn")}
            if side == "encoder":
                parts["self_attention"] = ("self", "self_Wo")
            else:
                parts["ssru"] = ("rnn", "rnn_ffn")
                parts["cross_attention"] = ("context", "context_Wo")
            for part, (theirs_name, theirs_norm) in parts.items():
                for weight, letter in LETTERS[part].items():
                    array = arrays[f"{name}_{theirs_name}_{letter}"]
                    is_bias = weight.endswith("_bias")
                    weights[f"{path}/{part}/{weight}"] = array[0] if is_bias else array
                for weight, letter in norm.items():
                    array = arrays[f"{name}_{theirs_norm}_ln_{letter}"][0]
                    weights[f"{path}/{part}_residual/norm/{weight}"] = array
    assign(model, weights, "a model of Marian's")
    return model


ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}
ATTENTION = {
    f"{name}_{kind}": f"{letter}{end}"
    for name, end in ATTENTION.items()
    for kind, letter in (("kernel", "W"), ("bias", "b"))
}
#: Our weights of a part, and the ends of Marian's names.
LETTERS = {
    "self_attention": ATTENTION,
    "cross_attention": ATTENTION,
    "ssru": {"input_kernel": "W", "forget_kernel": "Wf", "forget_bias": "bf"},
    "feed_forward": {
        "inner_kernel": "W1",
        "inner_bias": "b1",
        "outer_kernel": "W2",
        "outer_bias": "b2",
    },
}


@pytest.mark.one_backend
def test_a_model_of_marian_gives_its_logits_and_its_next_tokens(marian):
    theirs, pieces, rows = marian
    model = ours(theirs)
    start = model.config.start_id
    sources = [[*pieces.encode(row["source"]), 0] for row in rows]
    targets = [[start, *row["ids"][:-1]] for row in rows]
    logits = logits_of(model, padded(sources, start), padded(targets, start))
    for source, row, found in zip(sources, rows, logits, strict=True):
        ids = row["ids"]
        found = found[: len(ids), :start]
        expected = theirs.decode(theirs.encode(source), ids[:-1])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        found[:, pieces.unk_id()] = -np.inf
        assert found.argmax(axis=1).tolist() == ids  # as greedy search goes on
        if ids[-1] == 0:
            assert pieces.decode(ids[:-1]) == row["bergamot"]


def padded(rows, pad_id):
    array = np.full((len(rows), max(map(len, rows))), pad_id, "int32")
    for place, row in zip(array, rows, strict=True):
        place[: len(row)] = row
    return array
