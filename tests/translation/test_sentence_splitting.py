"""Sentences of a text: none lost, white space kept, and translated one by one."""

import sys
import types
from pathlib import Path

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="needs hypothesis")

import keras_transformer as kt  # noqa: E402
from keras_transformer.errors import InputError  # noqa: E402
from keras_transformer.translation.long_lines import LinePart  # noqa: E402
from keras_transformer.translation.sentence_splitting import join_sentences  # noqa: E402
from keras_transformer.translation.sentence_splitting import split_sentences  # noqa: E402

FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"


def needs_library():
    return pytest.importorskip("sentencex", reason="needs sentencex")


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("text", "language", "sentences"),
    [
        ("", None, [""]),
        ("A cat.", None, ["A cat."]),
        ("Dr. Ada sleeps. She dreams!", "en", ["Dr. Ada sleeps.", "She dreams!"]),
        ("Er kam am 3. Mai. Ja.", "de", ["Er kam am 3. Mai.", "Ja."]),
        ("Er kam am 3. Mai. Ja.", "deu_Latn", ["Er kam am 3. Mai.", "Ja."]),
        ("I saw Ms. Lee. Ms. Ray left.", "en", ["I saw Ms. Lee.", "Ms. Ray left."]),
        ("We met at the Ms. ", "de", ["We met at the Ms."]),
        ("Le 9 sept. 2022. Oui.", "fr", ["Le 9 sept. 2022.", "Oui."]),
        ("En oct. Il part.", "fr", ["En oct.", "Il part."]),
        ("我爱你。你呢？", "zh", ["我爱你。", "你呢？"]),
        ("one\ntwo\r\n\n three", None, ["one", "two", "three"]),
        ("  a.  ", None, ["", "a."]),
    ],
)
def test_sentences(text, language, sentences):
    needs_library()
    parts = split_sentences(text, language)
    assert [part.text for part in parts] == sentences
    assert join_sentences(sentences, parts) == text


@pytest.mark.no_backend
@pytest.mark.parametrize("space", ["\xa0", "\u202f", "\u2009", "\u3000", "\x85"])
def test_a_space_of_several_bytes_after_a_capital_letter(space):
    """At which `sentencex` 1.0.32 panics."""
    needs_library()
    for text in (f"A{space}.", f"Grade A{space}. It has a grade.{space}Grade B"):
        parts = split_sentences(text)
        assert "".join(map("".join, parts)) == text


@pytest.mark.no_backend
@hypothesis.given(hypothesis.strategies.text("aAB. !?。\t\n\r\u2028\xa0\u3000é'\""))
@hypothesis.settings(deadline=None, derandomize=True, database=None, max_examples=300)
def test_nothing_is_lost(text):
    needs_library()
    parts = split_sentences(text)
    assert "".join(map("".join, parts)) == text
    assert all(part.text == part.text.strip() for part in parts)
    assert all(part.text for part in parts[1:])


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("\n" * 200_000, 1),
        ("A cat.\n" * 20_000, 20_000),
        ("A cat. " * 20_000, 20_000),
        ("Ms. Lee and " * 9_000, 1),
        ("a" * 100_000 + ". B c.", 2),
    ],
)
def test_the_work_grows_with_the_text(text, count, monkeypatch):
    """That of the library grows with the square of what it sees at once."""
    library = needs_library()
    sizes = []

    def segment(code, window):
        sizes.append(len(window))
        return library.segment(code, window)

    fake = types.SimpleNamespace(segment=segment)
    monkeypatch.setitem(sys.modules, "sentencex", fake)
    parts = split_sentences(text)
    assert len(parts) == count
    assert "".join(map("".join, parts)) == text
    assert sum(sizes) < 4 * len(text)


@pytest.mark.no_backend
def test_a_script_with_spaces_gets_them():
    parts = [LinePart("你好。", ""), LinePart("对。", "\n"), LinePart("好。", "")]
    assert join_sentences(["Hi.", "Yes.", "Ok."], parts) == "Hi. Yes.\nOk."
    assert join_sentences(["对。", "", "好。"], parts) == "对。\n好。"


@pytest.mark.no_backend
def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencex", None)
    with pytest.raises(
        InputError, match=r"needs .* sentencex, .* pip install sentence"
    ):
        split_sentences("a")


@pytest.mark.one_backend
def test_a_translator_translates_each_sentence_by_itself():
    needs_library()
    sources = (FOLDER / "source.txt").read_text("utf-8").splitlines()[:2]
    translator = kt.Translator.load(FOLDER)
    first, second = translator.translate(sources, beam_size=1)
    line = f" {sources[0]}  {sources[1]}"
    options = {"beam_size": 1, "split_sentences": True}
    found = translator.translate([line, "", sources[1]], **options)
    assert found == [f"{first}  {second}", "", second]
    with pytest.raises(InputError, match="belong to one sentence, but a line is split"):
        translator.translate(
            [line], return_details=True, return_attention_weights=True, **options
        )
