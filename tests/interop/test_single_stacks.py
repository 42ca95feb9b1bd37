"""GPT-2, Llama and BERT of random weights from `transformers`, from our layers."""

import numpy as np
import pytest
import torch_weights
from keras import ops

from keras_transformer import layers
from keras_transformer.layers import masks
from keras_transformer.layers.normalization import normalization
from reference.weights import numpy

pytestmark = pytest.mark.one_backend

VOCABULARY_SIZE, LENGTH = 53, 23
HIDDEN_DIM, INTERMEDIATE_DIM, NUM_HEADS, NUM_GROUPS = 32, 44, 4, 2
HEAD_DIM = HIDDEN_DIM // NUM_HEADS
EPSILON = 1e-5


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokens():
    """(3, T) int32."""
    tokens = np.random.default_rng(1).integers(1, VOCABULARY_SIZE, (3, LENGTH))
    return tokens.astype("int32")


def results(model, tokens, **arguments):
    """What a model of theirs gives, without gradients."""
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        arguments = {name: torch.tensor(value) for name, value in arguments.items()}
        return model(torch.tensor(tokens).long(), **arguments)


def embedding_of(module):
    """`TokenEmbedding` of the weights of theirs."""
    layer = layers.TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM, scale=False)
    layer.build()
    layer.embeddings.assign(torch_weights.values(module.weight))
    return layer


def positions_of(module):
    """`LearnedPositionalEmbedding` of the weights of theirs."""
    layer = layers.LearnedPositionalEmbedding(len(module.weight))
    layer.build((None, None, HIDDEN_DIM))
    layer.embeddings.assign(torch_weights.values(module.weight))
    return layer


def built_norm(module, kind="layer"):
    """A normalization layer with the weights of theirs."""
    layer = normalization(kind, EPSILON)
    layer.build((None, None, HIDDEN_DIM))
    torch_weights.norm(layer, module)
    return layer


def built_block(**arguments):
    block = layers.EncoderBlock(**arguments)
    block.build((None, None, HIDDEN_DIM))
    return block


def plain_block(activation, normalize_first):
    """A block of GPT-2 or BERT."""
    return built_block(
        intermediate_dim=INTERMEDIATE_DIM,
        num_heads=NUM_HEADS,
        activation=activation,
        normalize_first=normalize_first,
        layer_norm_epsilon=EPSILON,
        use_bias=True,
    )


def gpt2_block(theirs):
    block = plain_block("gelu_tanh", normalize_first=True)
    attention = block.self_attention
    torch_weights.joined(attention, ("query", "key", "value"), theirs.attn.c_attn)
    torch_weights.joined(attention, ("output",), theirs.attn.c_proj)
    torch_weights.joined(block.feed_forward, ("inner",), theirs.mlp.c_fc)
    torch_weights.joined(block.feed_forward, ("outer",), theirs.mlp.c_proj)
    torch_weights.norm(block.self_attention_residual.norm, theirs.ln_1)
    torch_weights.norm(block.feed_forward_residual.norm, theirs.ln_2)
    return block


def test_logits_are_those_of_gpt2(transformers, tokens):
    theirs = torch_weights.scattered(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=VOCABULARY_SIZE,
                n_positions=LENGTH,
                n_embd=HIDDEN_DIM,
                n_layer=3,
                n_head=NUM_HEADS,
                n_inner=INTERMEDIATE_DIM,
                layer_norm_epsilon=EPSILON,
            )
        )
    )
    stack = theirs.transformer
    embedding = embedding_of(stack.wte)
    hidden = positions_of(stack.wpe)(embedding(tokens))
    for module in stack.h:
        hidden = gpt2_block(module)(hidden, attention_mask=masks.causal_mask(LENGTH))
    logits = embedding(built_norm(stack.ln_f)(hidden), reverse=True)
    expected = results(theirs, tokens).logits.numpy()
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(numpy(logits), expected, atol=1e-4)


def llama_block(theirs):
    """A block of built parts: rotary positions, grouped heads, a gated layer, RMS."""
    rotary = layers.RotaryPositionalEncoding("halves", base=500.0)

    def residual(name):
        return layers.Residual(
            normalize_first=True, epsilon=EPSILON, normalization="rms", name=name
        )

    block = built_block(
        parts={
            "self_attention": layers.MultiHeadAttention(
                NUM_HEADS,
                HEAD_DIM,
                num_key_value_heads=NUM_GROUPS,
                positional_encoding=rotary,
            ),
            "self_attention_residual": residual("self_attention_residual"),
            "feed_forward": layers.FeedForward(
                INTERMEDIATE_DIM, "swish", gated=True, use_bias=False
            ),
            "feed_forward_residual": residual("feed_forward_residual"),
        }
    )
    attention, network = theirs.self_attn, theirs.mlp
    for name in ("query", "key", "value", "output"):
        module = getattr(attention, f"{name[0]}_proj")
        torch_weights.linear(block.self_attention, name, module)
    torch_weights.linear(block.feed_forward, "gate", network.gate_proj)
    torch_weights.linear(block.feed_forward, "inner", network.up_proj)
    torch_weights.linear(block.feed_forward, "outer", network.down_proj)
    torch_weights.norm(block.self_attention_residual.norm, theirs.input_layernorm)
    torch_weights.norm(
        block.feed_forward_residual.norm, theirs.post_attention_layernorm
    )
    return block


def test_logits_are_those_of_llama(transformers, tokens):
    theirs = torch_weights.scattered(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=VOCABULARY_SIZE,
                hidden_size=HIDDEN_DIM,
                intermediate_size=INTERMEDIATE_DIM,
                num_hidden_layers=3,
                num_attention_heads=NUM_HEADS,
                num_key_value_heads=NUM_GROUPS,
                max_position_embeddings=LENGTH,
                rms_norm_eps=EPSILON,
                rope_parameters={"rope_type": "default", "rope_theta": 500.0},
            )
        )
    )
    stack = theirs.model
    hidden = embedding_of(stack.embed_tokens)(tokens)
    for module in stack.layers:
        hidden = llama_block(module)(hidden, attention_mask=masks.causal_mask(LENGTH))
    hidden = built_norm(stack.norm, "rms")(hidden)
    logits = embedding_of(theirs.lm_head)(hidden, reverse=True)
    expected = results(theirs, tokens).logits.numpy()
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(numpy(logits), expected, atol=1e-4)


def bert_block(theirs):
    block = plain_block("gelu", normalize_first=False)
    attention, output = theirs.attention.self, theirs.attention.output
    for name in ("query", "key", "value"):
        torch_weights.linear(block.self_attention, name, getattr(attention, name))
    torch_weights.linear(block.self_attention, "output", output.dense)
    torch_weights.norm(block.self_attention_residual.norm, output.LayerNorm)
    torch_weights.linear(block.feed_forward, "inner", theirs.intermediate.dense)
    torch_weights.linear(block.feed_forward, "outer", theirs.output.dense)
    torch_weights.norm(block.feed_forward_residual.norm, theirs.output.LayerNorm)
    return block


def test_hidden_states_are_those_of_bert(transformers, tokens):
    theirs = torch_weights.scattered(
        transformers.BertModel(
            transformers.BertConfig(
                vocab_size=VOCABULARY_SIZE,
                hidden_size=HIDDEN_DIM,
                num_hidden_layers=3,
                num_attention_heads=NUM_HEADS,
                intermediate_size=INTERMEDIATE_DIM,
                max_position_embeddings=LENGTH,
                layer_norm_eps=EPSILON,
            )
        )
    )
    tokens = tokens.copy()
    tokens[1, 9:], tokens[2, 2:] = 0, 0
    segments = (np.arange(LENGTH) > 6).astype("int32")[None].repeat(3, axis=0)
    tables = theirs.embeddings
    hidden = embedding_of(tables.word_embeddings)(tokens)
    segment_table = torch_weights.values(tables.token_type_embeddings.weight)
    hidden = hidden + ops.convert_to_tensor(segment_table[segments])
    hidden = positions_of(tables.position_embeddings)(hidden)
    hidden = built_norm(tables.LayerNorm)(hidden)
    for module in theirs.encoder.layer:
        hidden = bert_block(module)(
            hidden, attention_mask=masks.padding_mask(ops.convert_to_tensor(tokens), 0)
        )
    given = {"attention_mask": (tokens != 0).astype("int64")}
    expected = results(theirs, tokens, token_type_ids=segments.astype("int64"), **given)
    expected = expected.last_hidden_state.numpy()
    np.testing.assert_allclose(numpy(hidden), expected, atol=1e-4)
