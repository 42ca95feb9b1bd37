"""Text to ids and back: nothing is lost, and what cannot work is refused.

Nothing is lost under the normalization "identity"; the default one, and what it takes
for white space, is that of test_white_space.py.
"""

import hashlib
import pickle
import random
import sys

import keras
import numpy as np
import pytest

from keras_transformer.data.corpus import read_lines
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer import count_space_marks
from keras_transformer.errors import InputError

no_backend = pytest.mark.no_backend

TEXT = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "In 2017 there were 37000 entries, in 1984 none.",
] * 4

HARD = {
    "empty": "",
    "emoji with joiners": "👩‍👩‍👧‍👦 and 🏳️‍🌈 and 👍🏽",
    "tab": "a\tb",
    "carriage return": "a\r\rb\r",
    "line feed": "a\nb\n",
    "NUL": "a\x00b\x00",
    "only NUL": "\x00",
    "next line U+0085": "a\x85b",
    "line separator U+2028": "a\u2028b\u2029",
    "vertical tab, form feed": "a\x0bb\x0cc",
    "unseen scripts": "東京タワー Москва नमस्ते 𓀀 ᚠᛇᚻ",
    "combining mark": "Cafe\u0301 is not Café",
    "compatibility characters": "ﬁ ² ① ｆｕｌｌ",
    "leading space": " a",
    "trailing space": "a ",
    "many spaces": "  a   b  ",
    "only a space": " ",
    "only spaces": "   ",
    "other spaces": "a\u00a0b\u2003c\u3000d",
    "byte order mark": "\ufeffa",
    "bidirectional marks": "\u202eabc\u202c",
    "noncharacter": "\uffff\U0010ffff",
    "replacement character": "\ufffd",
    "SentencePiece's own signs": "<s> </s> <pad> <unk> <0x41> \u2047 \u2585",
    "10 kB of words": "word " * 2000,
    "10 kB without a space": "Donaudampfschiff" * 640,
}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXT, 320, normalization="identity")


def round_trip(tokenizer, lines):
    return tokenizer.decode(tokenizer.encode(lines))


@no_backend
@pytest.mark.parametrize("name", HARD)
def test_hard_text_comes_back(tokenizer, name):
    assert round_trip(tokenizer, [HARD[name]]) == [HARD[name]]


@no_backend
def test_random_unicode_comes_back(tokenizer):
    generator = random.Random(20170612)
    points = [
        *range(0x20, 0x7F),
        *range(0xA0, 0x600),
        *(generator.randrange(sys.maxunicode + 1) for _ in range(4000)),
    ]
    points = [p for p in points if not 0xD800 <= p <= 0xDFFF and p != 0x2581]
    lines = [
        "".join(chr(generator.choice(points)) for _ in range(generator.randrange(60)))
        for _ in range(2000)
    ]
    assert round_trip(tokenizer, lines) == lines


@no_backend
def test_real_text_comes_back(shared_data):
    folder = shared_data / "multi30k" / "raw"
    lines = read_lines(folder / "train.en.gz")[:10_000]
    lines += read_lines(folder / "train.de.gz")[:10_000]
    tokenizer = Tokenizer.train(lines, 8000, normalization="identity")
    assert round_trip(tokenizer, lines) == lines


@no_backend
def test_space_mark_is_the_documented_exception(tokenizer):
    lines = ["a\u2581b", "a b", "\u2581\u2581"]
    assert round_trip(tokenizer, lines) == ["a b", "a b", "  "]
    assert count_space_marks(lines) == 2


@no_backend
def test_lone_surrogates_are_refused_with_the_line(tokenizer):
    with pytest.raises(InputError, match=r"line 2 holds the lone surrogate U\+D800"):
        tokenizer.encode(["fine", "a\ud800b"])
    with pytest.raises(InputError, match=r"line 12 .* U\+DFFF"):
        tokenizer.encode(["fine", "\udfff"], first_line=11)
    with pytest.raises(InputError, match=r"line 40 .* U\+DFFF"):
        tokenizer.encode(["fine", "\udfff", "fine"], numbers=[7, 40, 41])
    with pytest.raises(InputError, match=r"line 13 .* U\+DC80"):
        Tokenizer.train([*TEXT, "\udc80"], 320)


@no_backend
def test_one_string_is_no_list_of_lines(tokenizer):
    """Its letters would be the lines."""
    for wrong in ("The fox", b"The fox"):
        with pytest.raises(InputError, match=r"expected a list of lines, .*The fox"):
            tokenizer.encode(wrong)
    with pytest.raises(InputError, match=r"list of lines, .*corpus\.txt.* read_lines"):
        Tokenizer.train("corpus.txt", 320)
    with pytest.raises(InputError, match="list of lines for each side"):
        ParallelText("The fox", "Der Fuch")
    with pytest.raises(InputError, match="line 2 is not text but int"):
        tokenizer.encode(["The fox", 7])


@no_backend
def test_one_row_is_no_list_of_rows(tokenizer):
    for wrong in ([5, 6], "56"):
        with pytest.raises(InputError, match=r"expected a list of ids, got '?5"):
            tokenizer.decode(wrong)
    with pytest.raises(InputError, match="expected a list of ids, got '56'"):
        tokenizer.pieces("56")
    with pytest.raises(InputError, match="expected a list of pieces, got 'The'"):
        tokenizer.ids_of("The")


@no_backend
def test_it_goes_to_another_process_whole(tokenizer):
    other = pickle.loads(pickle.dumps(tokenizer))
    assert other.model == tokenizer.model
    assert other.encode(TEXT) == tokenizer.encode(TEXT)


@no_backend
def test_special_ids(tokenizer):
    assert tokenizer.pieces(range(5)) == ["<pad>", "<s>", "</s>", "<unk>", "<0x00>"]
    ids = tokenizer.encode(list(HARD.values()))
    assert min(map(min, filter(None, ids))) > 3  # nothing is unknown, nothing added
    fox = tokenizer.encode(["The fox"])[0]
    assert tokenizer.decode([[1, *fox, 3, 2, 0, 0], [], [2]]) == ["The fox", "", ""]
    assert tokenizer.decode([np.array(fox, "int32")]) == ["The fox"]


@no_backend
def test_no_lines_and_no_rows(tokenizer):
    assert tokenizer.encode([]) == tokenizer.decode([]) == []
    assert tokenizer.encode(["", "a", ""])[::2] == [[], []]


@no_backend
def test_bytes_that_are_no_text_become_the_replacement_character(tokenizer):
    lone_continuation_byte = 4 + 0x80
    assert tokenizer.decode([[lone_continuation_byte]]) == ["\ufffd"]


@no_backend
@pytest.mark.parametrize("wrong", [320, -1, 2**40])
def test_ids_outside_of_the_vocabulary_are_refused(tokenizer, wrong):
    with pytest.raises(InputError, match=f"id {wrong} is outside .* 320 entries"):
        tokenizer.decode([[5], [5, wrong]])
    with pytest.raises(InputError, match=f"id {wrong} is outside"):
        tokenizer.pieces([wrong])


@no_backend
def test_pieces_spell_the_text(tokenizer):
    pieces = tokenizer.pieces(tokenizer.encode(["the lazy fox"])[0])
    assert "".join(pieces) == "the▁lazy▁fox"


@no_backend
def test_the_same_text_gives_the_same_bytes(run_python, tokenizer):
    code = (
        "import hashlib\n"
        "from keras_transformer.data.tokenizer import Tokenizer\n"
        f"lines = {TEXT!r}\n"
        "model = Tokenizer.train(lines, 320, normalization='identity').model\n"
        "print(hashlib.sha256(model).hexdigest())"
    )
    again = Tokenizer.train(iter(TEXT), 320, normalization="identity")
    here = hashlib.sha256(again.model).hexdigest()
    assert {run_python(code).strip() for _ in range(2)} == {here}
    assert hashlib.sha256(tokenizer.model).hexdigest() == here


@no_backend
def test_training_writes_nothing(capfd):
    Tokenizer.train(TEXT, 320)
    with pytest.raises(InputError):
        Tokenizer.train(TEXT, 100_000)
    assert capfd.readouterr() == ("", "")


@no_backend
def test_the_largest_vocabulary_is_named_and_works():
    with pytest.raises(InputError, match=r"give at most (\d+)") as caught:
        Tokenizer.train(TEXT, 50_000)
    largest = int(str(caught.value).split("at most ")[1].split(",")[0])
    assert Tokenizer.train(TEXT, largest).vocabulary_size == largest
    with pytest.raises(InputError, match=f"give at most {largest}"):
        Tokenizer.train(TEXT, largest + 1)


@no_backend
def test_the_smallest_vocabulary_is_named_and_works():
    with pytest.raises(InputError, match="give at least 260"):
        Tokenizer.train(TEXT, 259)
    many_characters = [chr(0x4E00 + i) for i in range(500)] * 2
    with pytest.raises(InputError, match="give at least 760"):
        Tokenizer.train(many_characters, 759)
    assert Tokenizer.train(many_characters, 760).vocabulary_size == 760


@no_backend
@pytest.mark.parametrize("lines", [[], [""], ["", ""]])
def test_nothing_to_train_on_is_refused(lines):
    with pytest.raises(InputError, match="no text"):
        Tokenizer.train(lines, 300)


@no_backend
def test_long_lines_are_trained_on():
    line = "unmistakable " * 1000
    learned = Tokenizer.train([line, "a"], 281)
    assert len(learned.encode(["unmistakable"])[0]) < len("unmistakable") / 2
    Tokenizer.train(["ab" * 40_000, "cd"], 266)  # one word of 80 kB


@no_backend
def test_normalization(tokenizer):
    compatible = Tokenizer.train(TEXT, 320, normalization="nfkc")
    assert round_trip(compatible, [" ﬁ  ① Cafe\u0301\u200c"]) == ["fi 1 Café\u200c"]
    folded = Tokenizer.train(TEXT, 320, normalization="nmt_nfkc")
    assert round_trip(folded, ["ﬁ ① Cafe\u0301"]) == ["fi 1 Café"]
    assert round_trip(tokenizer, ["ﬁ ①"]) == ["ﬁ ①"]


@no_backend
def test_words_of_a_line_in_its_normal_form(tokenizer):
    line = "It´s \u200b ½ \u2581 ﬁ"
    folded = Tokenizer.train(TEXT, 320, normalization="nmt_nfkc")
    assert folded.source_words(line) == [0, 0, 2, 4]  # "It ́s", nothing, "1⁄2", "fi"
    assert tokenizer.source_words(line) == [0, 1, 2, 4]


@no_backend
def test_an_id_may_be_spelled_in_digits(tokenizer):
    word = tokenizer.pieces([300])[0]
    digit = tokenizer.ids_of(["2"])[0]  # a piece comes first
    assert tokenizer.pieces([digit]) == ["2"]
    assert tokenizer.ids_of(["300", 300, word]) == [300] * 3


@no_backend
def test_save_and_load(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    tokenizer.save(path)
    tokenizer.save(path)  # replaces
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.model"]
    loaded = Tokenizer.load(path)
    assert loaded.model == tokenizer.model
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)


@no_backend
def test_unwritable_folder_is_refused(tokenizer, tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*absent"):
        tokenizer.save(tmp_path / "absent" / "tokenizer.model")


@no_backend
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "not a SentencePiece model"),
        (b"A text file.\nWith lines.\n", "not a SentencePiece model"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "not a SentencePiece model"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "tokenizer.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.load(path)
    assert str(path) in str(caught.value)


@no_backend
def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read"):
        Tokenizer.load(tmp_path)


@no_backend
def test_cut_off_files_are_refused(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    for length in range(1, len(tokenizer.model) - 100, 13):
        path.write_bytes(tokenizer.model[:length])
        with pytest.raises(InputError, match="cut off"):
            Tokenizer.load(path)


@no_backend
def test_a_spoilt_name_of_a_byte_is_refused(tokenizer):
    spoilt = tokenizer.model.replace(b"<0x1A>", b"<0\xff1A>")
    assert spoilt != tokenizer.model
    with pytest.raises(InputError, match="is not a SentencePiece model"):
        Tokenizer(spoilt)


@no_backend
def test_check_compares_with_a_config(tokenizer):
    config = {"vocabulary_size": 320, "pad_id": 0, "start_id": 1, "end_id": 2}
    tokenizer.check(**config, where="models/en-de")
    for name in config:
        with pytest.raises(InputError, match=rf"^models/en-de: .* {name} \d+ .* 77"):
            tokenizer.check(**{**config, name: 77}, where="models/en-de")


def test_keras_nlp_gives_the_same_ids(tokenizer):
    if keras.config.backend() != "tensorflow":
        pytest.skip("tensorflow-text runs on TensorFlow")
    pytest.importorskip("keras_nlp")
    pytest.importorskip("tensorflow_text")
    lines = [text for name, text in HARD.items() if name != "empty"] + TEXT
    theirs = tokenizer.to_keras_nlp()
    ids = [[int(token) for token in row] for row in theirs(lines)]
    assert ids == tokenizer.encode(lines)
    assert theirs.detokenize(ids) == lines
    assert theirs.vocabulary_size() == 320
