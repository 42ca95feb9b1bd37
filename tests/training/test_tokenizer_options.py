"""The tokenizers of a run are trained as its config says."""

import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import make_tokenizers

pytestmark = pytest.mark.no_backend


def tokenizers(config_file, tmp_path, tokenizer):
    options = [f"tokenizer={tokenizer}", "model.tie_embeddings=none"]
    config = load_config(config_file, options)
    return make_tokenizers(config.tokenizer, Corpora(config.data).sample, tmp_path)


def test_source_and_target_have_vocabularies_of_their_own_sizes(config_file, tmp_path):
    sizes = "{source_vocabulary_size: 280, target_vocabulary_size: 275}"
    source, target = tokenizers(config_file, tmp_path, sizes)
    assert (source.vocabulary_size, target.vocabulary_size) == (280, 275)
    assert kt.data.Tokenizer.load(tmp_path / "target.model").model == target.model


def test_a_size_that_the_text_cannot_fill_is_named_by_its_key(config_file, tmp_path):
    sizes = "{source_vocabulary_size: 280, target_vocabulary_size: 90000}"
    with pytest.raises(
        InputError, match=r"target: tokenizer\.target_vocabulary_size 9"
    ):
        tokenizers(config_file, tmp_path, sizes)


def test_options_reach_the_tokenizer(config_file, tmp_path):
    options = "{vocabulary_size: 275, user_defined_symbols: ['%s']}"
    its, _ = tokenizers(config_file, tmp_path, options)
    assert its.pieces(its.encode(["1%s2"])[0]).count("%s") == 1
    assert its.normalize(" 1 \u00ad") == "1"


def test_white_space_is_kept_where_the_config_says_so(config_file, tmp_path):
    options = "{vocabulary_size: 275, normalization: identity}"
    its, _ = tokenizers(config_file, tmp_path, options)
    assert its.normalize(" 1 \u00ad") == " 1 \u00ad"
