"""Exported models: what the classes of `transformers` compute with them."""

import functools
import io
import warnings

import numpy as np
import pytest
import sentencepiece

import keras_transformer as kt
from keras_transformer.config.languages import Languages
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.export import transformers as export_to_transformers
from keras_transformer.importing import convert
from keras_transformer.models.weights import weight_values
from reference import transformers_classes
from reference.fixture_folder import lines
from reference.weights import numpy
from reference.weights import scatter

pytestmark = [pytest.mark.one_backend, pytest.mark.export]
CONFIGS = transformers_classes.CONFIGS
SIZES = {59: 370, 61: 390}  # of vocabularies: with 256 bytes
LINES = ["Please call Ms Keller.", "🐌 </s> <pad>", "The contract was signed in May."]


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("torch")
    return pytest.importorskip("transformers")


@functools.cache
def tokenizer(size, pad_id, start_id, end_id):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines("source") + lines("greedy")),
        model_writer=model,
        model_type="bpe",
        byte_fallback=True,
        vocab_size=size,
        pad_id=pad_id,
        bos_id=-1 if start_id == pad_id else start_id,
        eos_id=end_id,
        unk_id=3,
        minloglevel=2,
    )
    return Tokenizer(model.getvalue())


def translator(name):
    """Of a config of `CONFIGS`, its weights at random."""
    fields = {**transformers_classes.SMALL, **CONFIGS[name][1]}
    if "source_vocabulary_size" in fields:
        fields["source_vocabulary_size"] = SIZES[fields["source_vocabulary_size"]]
    fields["vocabulary_size"] = SIZES[fields["vocabulary_size"]]
    model = scatter(kt.Transformer(fields), seed=3, deviation=0.2)
    config = model.config
    source, target = (
        tokenizer(size, **config.special_ids)
        for size in (config.source_vocabulary_size, config.target_vocabulary_size)
    )
    return kt.Translator(model, source, target, beam_size=1, max_length=9)


def exported(translator, folder, **options):
    """Their tokenizer and model of an export."""
    from transformers import AutoModelForSeq2SeqLM
    from transformers import AutoTokenizer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = export_to_transformers.export(translator, folder, **options)
        model = AutoModelForSeq2SeqLM.from_pretrained(path)
        return AutoTokenizer.from_pretrained(path), model.eval()


def assert_same(found, expected):
    """Weights bit for bit, tokenizers, options and languages."""
    assert found.model.config == expected.model.config
    values = weight_values(expected.model)
    for path, value in weight_values(found.model).items():
        np.testing.assert_array_equal(value, values[path], err_msg=path)
    assert found.tokenizer.model == expected.tokenizer.model
    assert found.target_tokenizer.model == expected.target_tokenizer.model
    assert found.decoding == expected.decoding
    assert found.languages == expected.languages


@pytest.mark.parametrize("name", CONFIGS)
def test_their_class_gives_our_ids_logits_and_text(transformers, name, tmp_path):
    import torch

    ours = translator(name)
    config = ours.model.config
    their_tokenizer, theirs = exported(ours, tmp_path / "exported")
    assert type(theirs).__name__ == CONFIGS[name][0]
    batch = their_tokenizer(LINES, return_tensors="pt", padding=True)
    source = batch["input_ids"].numpy().astype("int32")
    for row, ids in zip(source, ours.tokenizer.encode(LINES), strict=True):
        ids = [*ids, config.end_id]
        assert [*ids, *[config.pad_id] * (len(row) - len(ids))] == row.tolist()
    with torch.no_grad():
        found = theirs.generate(**batch)
        results = theirs(**batch, decoder_input_ids=found, use_cache=False)
    target = found.numpy().astype("int32")
    expected = numpy(ours.model({"source": source, "target": target}))
    logits = results.logits.numpy()
    told = np.cumsum(target == config.end_id, axis=1) == 0
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(logits[told], expected[told], atol=2e-4)
    returned = convert(tmp_path / "exported", tmp_path / "returned")
    assert returned.family == "keras-transformer"
    assert_same(kt.Translator.load(returned.folder), ours)
    texts = their_tokenizer.batch_decode(found, skip_special_tokens=True)
    texts = [text.replace("\n", " ") for text in texts]  # ours are lines
    assert texts == [text.strip() for text in ours.translate(LINES)]


def test_languages_are_codes_in_front_of_the_text_and_a_forced_token(
    transformers, tmp_path
):
    import torch

    symbols = ["<de>", "<en>", "<fr>"]
    tokenizer = Tokenizer.train(LINES * 9, 300, user_defined_symbols=symbols)
    ids = dict(zip(["de", "en", "fr"], tokenizer.ids_of(symbols), strict=True))
    languages = Languages(
        codes=ids,
        source="en",
        target="fr",
        source_layout=("source", "text", "end"),
        target_layout=("target", "text", "end"),
    )
    fields = {**transformers_classes.SMALL, "vocabulary_size": 300}
    model = scatter(kt.Transformer(fields), seed=3, deviation=0.2)
    ours = kt.Translator(model, tokenizer, languages=languages, max_length=5)
    their_tokenizer, theirs = exported(ours, tmp_path / "exported", beam_size=1)
    batch = their_tokenizer([f">>de<< {LINES[0]}"], return_tensors="pt")
    direction = ours.direction("de", "fr")
    assert batch["input_ids"][0].tolist() == direction.source_ids(
        tokenizer.encode(LINES[:1])[0]
    )
    with torch.no_grad():
        found = theirs.generate(**batch)
    assert found[0, :2].tolist() == [model.config.start_id, ids["fr"]]
    text = their_tokenizer.decode(found[0], skip_special_tokens=True)
    assert text == tokenizer.decode([found[0, 2:].tolist()])[0].strip()
    convert(tmp_path / "exported", tmp_path / "returned")
    assert kt.Translator.load(tmp_path / "returned").languages == languages
    odd = languages.model_copy(update={"source_layout": ("text", "end", "source")})
    ours = kt.Translator(model, tokenizer, languages=odd)
    with pytest.raises(InputError, match="have source_layout text/end/source of lang"):
        export_to_transformers.export(ours, tmp_path / "odd")


def test_a_model_that_transformers_trained_and_saved_comes_back(transformers, tmp_path):
    import torch

    ours = translator("paper")
    their_tokenizer, theirs = exported(ours, tmp_path / "exported")
    with torch.no_grad():
        theirs.model.decoder.layers[0].fc1.weight += 1.0
        theirs.model.encoder.layers[0].self_attn.q_proj.bias += 2.0
    theirs.save_pretrained(tmp_path / "tuned")
    their_tokenizer.save_pretrained(tmp_path / "tuned")
    convert(tmp_path / "tuned", tmp_path / "returned")
    found = kt.Translator.load(tmp_path / "returned").model
    assert found.config == ours.model.config.model_copy(update={"use_bias": True})
    old, new = weight_values(ours.model), weight_values(found)
    np.testing.assert_array_equal(
        new["decoder_0/feed_forward/inner_kernel"],
        old["decoder_0/feed_forward/inner_kernel"] + 1.0,
    )
    np.testing.assert_array_equal(new["encoder_0/self_attention/query_bias"], 2.0)
    np.testing.assert_array_equal(new["decoder_1/cross_attention/key_bias"], 0.0)
    np.testing.assert_array_equal(
        new["embedding/embeddings"], old["embedding/embeddings"]
    )
