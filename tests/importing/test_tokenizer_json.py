"""`tokenizer.json` of an export: the package `tokenizers` cuts text as we do."""

import json
import warnings

import foreign_folders
import multilingual_folders
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.export import transformers
from keras_transformer.export.tokenizer_json import has_tokenizer_json
from keras_transformer.export.tokenizer_json import tokenizer_json

pytestmark = [pytest.mark.one_backend, pytest.mark.export]

TEXTS = [
    *foreign_folders.ENGLISH,
    *(
        "",
        " ",
        "  the   cat ",
        "\u2581the cat",
        "cat\u2581\u2581sleeps",
        "ﬁve",
        "the\ncat",
    ),
    *("🐌 the 漢字 cat", "train", "Old TABLE"),
]
NORMALIZATIONS = {
    "identity": {},
    "nmt_nfkc": {"normalization": "nmt_nfkc"},
    "spaces kept": {"remove_extra_whitespaces": False},
}


@pytest.mark.parametrize("name", NORMALIZATIONS)
def test_ids_and_texts_are_ours(name):
    tokenizers = pytest.importorskip("tokenizers")
    lines = tuple(foreign_folders.ENGLISH)
    model = foreign_folders.pieces_model(lines, pad_id=3, **NORMALIZATIONS[name])
    ours = Tokenizer(model)
    assert has_tokenizer_json(ours)
    content = json.dumps(tokenizer_json(ours, (1,), (2, 3)))
    theirs = tokenizers.Tokenizer.from_str(content)
    for text, ids in zip(TEXTS, ours.encode(TEXTS), strict=True):
        found = theirs.encode(text).ids
        assert found == [1, *ids, 2, 3]
        if ours.unknown_id not in ids and "\u2581" not in text:
            assert theirs.decode(found) == ours.decode([ids])[0]


def test_other_tokenizers_are_left_to_their_own_files():
    lines = tuple(foreign_folders.ENGLISH)
    assert not has_tokenizer_json(Tokenizer.train(list(lines), 300))
    for options in (
        {"kind": "bpe", "pad_id": 3},
        {"pad_id": -1},  # appended
        {"pad_id": 3, "add_dummy_prefix": False},
        {"pad_id": 3, "user_defined_symbols": "<x>"},
    ):
        model = foreign_folders.pieces_model(lines, **options)
        assert not has_tokenizer_json(Tokenizer(model))


def test_a_language_behind_the_text_goes_to_transformers(tmp_path):
    library = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    folder = multilingual_folders.write(tmp_path / "foreign", "mBART-25")
    codes = {"source_language": "en_XX", "target_language": "de_DE"}
    kt.importing.convert(folder, tmp_path / "model", **codes)
    ours = kt.Translator.load(tmp_path / "model")
    options = {"beam_size": 1, "max_length": 8, "min_length": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = transformers.export(ours, tmp_path / "exported", **options)
    tokenizer = library.AutoTokenizer.from_pretrained(path)
    model = library.AutoModelForSeq2SeqLM.from_pretrained(path).eval()
    lines = foreign_folders.ENGLISH
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    direction = ours.direction()
    for row, mask, ids in zip(
        *(batch[name].tolist() for name in ("input_ids", "attention_mask")),
        ours.tokenizer.encode(lines),
        strict=True,
    ):
        assert row[: sum(mask)] == direction.source_ids(ids)
    found = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
    assert found == ours.translate(lines, **options)
    assert len(set(found)) > 1
    card = (path / "README.md").read_text(encoding="utf-8")
    assert "each text as one in en_XX, for translations into de_DE" in card
    kt.importing.convert(path, tmp_path / "returned")
    returned = kt.Translator.load(tmp_path / "returned")
    assert returned.languages == ours.languages
    for old, new in zip(
        ours.model.get_weights(), returned.model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(old, new)
    two = kt.Translator(
        ours.model,
        ours.tokenizer,
        Tokenizer(ours.tokenizer.model + b"\x22\0"),  # another of the same pieces
        languages=ours.languages,
    )
    with pytest.raises(InputError, match="unless both sides share one unigram tok"):
        transformers.export(two, tmp_path / "two")
