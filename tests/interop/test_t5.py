"""T5 and T5 v1.1 of random weights from `transformers`, as fields of one config."""

import functools

import numpy as np
import pytest
import torch_weights
from keras import ops

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.layers import RelativeBuckets
from keras_transformer.models.search import search
from reference.weights import numpy

pytestmark = pytest.mark.one_backend

PAD, END, VOCABULARY_SIZE, LENGTH = 0, 1, 61, 12
SIZES = {"hidden_dim": 32, "intermediate_dim": 44, "num_heads": 4, "head_dim": 6}

#: Name -> their fields, and ours.
VERSIONS = {
    "1.0": (
        {"feed_forward_proj": "relu"},
        {"activation": "relu", "tie_embeddings": "all", "scale_logits": True},
    ),
    "1.1": (
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {
            "activation": "gelu_tanh",
            "feed_forward": "gated",
            "tie_embeddings": "inputs",
        },
    ),
}


def their_model(transformers, **fields):
    torch = pytest.importorskip("torch")
    config = transformers.T5Config(
        vocab_size=VOCABULARY_SIZE,
        d_model=SIZES["hidden_dim"],
        d_ff=SIZES["intermediate_dim"],
        d_kv=SIZES["head_dim"],
        num_heads=SIZES["num_heads"],
        num_layers=2,
        num_decoder_layers=3,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        decoder_start_token_id=PAD,
        dropout_rate=0.0,
        **fields,
    )
    model = transformers.T5ForConditionalGeneration(config)
    if not config.scale_decoder_outputs:  # 1.1: the output matrix is one of its own
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    return torch_weights.scattered(model, deviation=0.3)


def our_model(**fields):
    return kt.Transformer(
        kt.TransformerConfig(
            vocabulary_size=VOCABULARY_SIZE,
            **SIZES,
            value_dim=SIZES["head_dim"],
            num_encoder_layers=2,
            num_decoder_layers=3,
            position="relative_buckets",
            num_relative_buckets=8,
            max_relative_distance=20,
            normalization_layer="rms",
            normalize_first=True,
            attention_scoring="dot_product",
            feed_forward_bias=False,
            scale_embeddings=False,
            pad_id=PAD,
            start_id=PAD,
            end_id=END,
            dropout=0.0,
            **fields,
        )
    )


def copy(theirs, ours):
    """Every weight of theirs into ours."""
    ours.source_embedding.embeddings.assign(torch_weights.values(theirs.shared.weight))
    output = torch_weights.values(theirs.lm_head.weight)
    ours.output_embedding.embeddings.assign(output)
    for side, position in (("encoder", "source"), ("decoder", "target")):
        stack = getattr(theirs, side)
        first = stack.block[0].layer[0].SelfAttention
        table = torch_weights.values(first.relative_attention_bias.weight)
        getattr(ours, f"{position}_position").embeddings.assign(table)
        blocks = getattr(ours, f"{side}_blocks")
        for block, their_block in zip(blocks, stack.block, strict=True):
            copy_block(their_block, block)
        torch_weights.norm(getattr(ours, f"{side}_norm"), stack.final_layer_norm)


def copy_block(theirs, ours):
    self_attention, *cross_attention, feed_forward = theirs.layer
    copy_attention(self_attention.SelfAttention, ours.self_attention)
    torch_weights.norm(ours.self_attention_residual.norm, self_attention.layer_norm)
    for sublayer in cross_attention:
        copy_attention(sublayer.EncDecAttention, ours.cross_attention)
        torch_weights.norm(ours.cross_attention_residual.norm, sublayer.layer_norm)
    dense = feed_forward.DenseReluDense
    if ours.feed_forward.gated:
        torch_weights.linear(ours.feed_forward, "gate", dense.wi_0)
        torch_weights.linear(ours.feed_forward, "inner", dense.wi_1)
    else:
        torch_weights.linear(ours.feed_forward, "inner", dense.wi)
    torch_weights.linear(ours.feed_forward, "outer", dense.wo)
    torch_weights.norm(ours.feed_forward_residual.norm, feed_forward.layer_norm)


def copy_attention(theirs, ours):
    for name in ("query", "key", "value", "output"):
        torch_weights.linear(ours, name, getattr(theirs, name[0]))


@pytest.fixture(scope="module", params=VERSIONS)
def models(request):
    """Theirs and ours, of the same weights."""
    transformers = pytest.importorskip("transformers")
    their_fields, our_fields = VERSIONS[request.param]
    theirs, ours = their_model(transformers, **their_fields), our_model(**our_fields)
    copy(theirs, ours)
    return theirs, ours


@pytest.fixture(scope="module")
def source():
    """(3, 30) int32, beyond the largest distance with a bucket of its own."""
    source = np.random.default_rng(1).integers(2, VOCABULARY_SIZE, (3, 30))
    source[:, -1] = END
    source[1, 17:], source[1, 16] = PAD, END
    source[2, 4:], source[2, 3] = PAD, END
    return source.astype("int32")


def test_logits_are_those_of_t5(models, source):
    torch = pytest.importorskip("torch")
    theirs, ours = models
    target = np.random.default_rng(2).integers(2, VOCABULARY_SIZE, (3, 25))
    target[:, 0] = PAD
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(source).long(),
            attention_mask=torch.tensor(source != PAD).long(),
            decoder_input_ids=torch.tensor(target).long(),
        ).logits.numpy()
    logits = numpy(ours({"source": source, "target": target.astype("int32")}))
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_greedy_search_writes_what_t5_generates(models, source):
    torch = pytest.importorskip("torch")
    theirs, ours = models
    expected = theirs.generate(
        torch.tensor(source).long(),
        attention_mask=torch.tensor(source != PAD).long(),
        max_new_tokens=LENGTH,
        do_sample=False,
        use_cache=False,
        suppress_tokens=[PAD],
    ).numpy()[:, 1:]  # without the start token
    assert len({*expected.ravel()}) > 5
    greedy = functools.partial(
        search, ours, length=LENGTH, options=DecodingOptions(beam_size=1)
    )
    limits = np.full(3, LENGTH, "int32")
    found = backends.compile(greedy, ours)(source, limits)
    tokens = ops.convert_to_numpy(found.tokens)[:, 0, : expected.shape[1]]
    np.testing.assert_array_equal(tokens, expected)


@pytest.mark.parametrize(
    ("early_stopping", "alpha", "forced"),
    [("never", 1.0, False), (True, 2.0, True), (False, 0.6, False), ("never", 0, True)],
)
def test_beam_search_by_their_rules_writes_what_t5_generates(
    models, source, early_stopping, alpha, forced
):
    torch = pytest.importorskip("torch")
    theirs, ours = models
    given = {"forced_bos_token_id": 7, "forced_eos_token_id": END} if forced else {}
    expected = theirs.generate(
        torch.tensor(source).long(),
        attention_mask=torch.tensor(source != PAD).long(),
        max_new_tokens=LENGTH,
        do_sample=False,
        use_cache=False,
        suppress_tokens=[PAD],
        num_beams=4,
        num_return_sequences=4,
        length_penalty=float(alpha),
        early_stopping=early_stopping,
        output_scores=True,
        return_dict_in_generate=True,
        **given,
    )
    options = DecodingOptions(
        rules="transformers_heuristic" if early_stopping is False else "transformers",
        patience=1.0 if early_stopping is True else None,
        top_beams=4,
        normalization="power",
        length_penalty=alpha,
        forced_start=7 if forced else None,
        forced_end=forced,
    )
    beams = functools.partial(search, ours, length=LENGTH, options=options)
    limits = np.full(3, LENGTH, "int32")
    found = backends.compile(beams, ours)(source, limits)
    tokens = expected.sequences.numpy()[:, 1:].reshape(3, 4, -1)
    ended = np.cumsum(tokens == END, axis=2) > 1  # behind an end they have others
    rows = ops.convert_to_numpy(found.tokens)[:, :, : tokens.shape[2]]
    np.testing.assert_array_equal(rows, np.where(ended, PAD, tokens))
    scores = expected.sequences_scores.numpy().reshape(3, 4)
    np.testing.assert_allclose(numpy(found.scores), scores, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "num_buckets, max_distance",
    [(32, 128), (8, 20), (16, 17), (64, 256), (12, 100), (4, 5)],
)
def test_buckets_are_those_of_t5(num_buckets, max_distance, causal):
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    distances = np.arange(-200, 201, dtype="int32")
    expected = t5.T5Attention._relative_position_bucket(
        torch.tensor(distances), not causal, num_buckets, max_distance
    ).numpy()
    layer = RelativeBuckets(1, num_buckets, max_distance, causal)
    buckets = layer.buckets(ops.convert_to_tensor(distances))
    np.testing.assert_array_equal(ops.convert_to_numpy(buckets), expected)
