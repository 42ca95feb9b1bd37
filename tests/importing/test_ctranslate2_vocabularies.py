"""Vocabularies of CTranslate2 folders: ids of both sides, languages, bytes."""

import ctranslate2_folders
import pytest
from typer.testing import CliRunner

from keras_transformer.cli.main import application
from keras_transformer.importing.families import language_codes
from keras_transformer.importing.families.ctranslate2_vocabulary import NO_ROW
from keras_transformer.importing.families.ctranslate2_vocabulary import arranged
from keras_transformer.importing.families.ctranslate2_vocabulary import languages_of
from keras_transformer.importing.families.ctranslate2_vocabulary import tokenizers
from keras_transformer.importing.source import Source

pytestmark = pytest.mark.no_backend

GIVEN = {**ctranslate2_folders.CONFIG, "pad": None}
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b"]


def test_a_shared_vocabulary_keeps_its_ids():
    pieces = FAIRSEQ.copy()
    found = arranged((pieces, pieces), GIVEN, starts_with_zeros=False)
    assert found.shared
    assert found.target.pieces == FAIRSEQ
    assert found.target.rows == list(range(6))
    assert found.special_ids == {"pad_id": 1, "start_id": 0, "end_id": 2}


def test_special_pieces_of_the_source_move_to_the_ids_of_the_target():
    source = ["▁x", "</s>", "▁y", "▁z"]
    target = ["<blank>", "<s>", "</s>", "▁a"]
    found = arranged((source, target), GIVEN, starts_with_zeros=False)
    assert found.target.pieces == [*target, "<unk>"]
    assert found.target.rows == [0, 1, 2, 3, NO_ROW]
    assert found.source.pieces == ["<blank>", "<s>", "</s>", "▁x", "▁y", "▁z", "<unk>"]
    assert found.source.rows == [NO_ROW, NO_ROW, 1, 0, 2, 3, NO_ROW]
    assert found.special_ids == {"pad_id": 0, "start_id": 1, "end_id": 2}


def test_a_start_of_zeros_is_a_row_of_its_own():
    pieces = ["</s>", "<unk>", "▁a", "<pad>"]
    given = {**GIVEN, "decoder_start_token": "</s>"}
    found = arranged((pieces, ["</s>", "<unk>"]), given, starts_with_zeros=True)
    assert found.target.pieces == ["</s>", "<unk>", "<pad1>"]
    assert found.source.pieces == ["</s>", "<unk>", "<pad1>", "▁a", "<pad>"]
    assert found.special_ids == {"pad_id": 2, "start_id": 2, "end_id": 0}


def test_names_that_fill_a_vocabulary_up_may_come_twice():
    pieces = [*FAIRSEQ, "<extra_id_0>", "<extra_id_0>"]
    found = arranged((pieces, pieces), GIVEN, starts_with_zeros=False)
    assert found.target.pieces[-2:] == ["<extra_id_0>", "<filler>"]


@pytest.mark.parametrize(
    ("codes", "spelled", "told_by_start", "layout"),
    [
        (language_codes.NLLB, "{}", False, ("source", "text", "end")),
        (language_codes.M2M100, "__{}__", False, ("source", "text", "end")),
        (language_codes.MBART_50, "{}", False, ("source", "text", "end")),
        (language_codes.MBART_25, "{}", True, ("text", "end", "source")),
    ],
)
def test_languages_are_those_that_a_vocabulary_spells(
    codes, spelled, told_by_start, layout
):
    pieces = [*FAIRSEQ, *map(spelled.format, codes), "<mask>"]
    found = languages_of(pieces, told_by_start=told_by_start)
    assert found.codes == {code: number for number, code in enumerate(codes, 6)}
    assert found.source_layout == layout
    assert (found.decoder_start == "target") == told_by_start


def test_a_vocabulary_without_languages_has_none():
    assert languages_of([*FAIRSEQ, "de_DE"], told_by_start=False) is None
    # Of such a start, only mBART-25's is known.
    pieces = [*FAIRSEQ, *language_codes.NLLB]
    assert languages_of(pieces, told_by_start=True) is None


def test_bytes_need_no_tokenizer(tmp_path):
    pieces = ["<pad>", "</s>", "<unk>", *map(chr, range(256)), "<extra_id_0>"]
    given = {**GIVEN, "decoder_start_token": "<pad>"}
    found = arranged((pieces, pieces), given, starts_with_zeros=False)
    source = Source(tmp_path)
    tokenizer, _ = tokenizers(source, source, found)
    assert tokenizer.encode(["Ab"]) == [[68, 101]]
    assert tokenizer.special_ids == found.special_ids


def test_the_command_takes_tokenizers(tmp_path):
    folder = ctranslate2_folders.write(tmp_path / "foreign")
    given = ctranslate2_folders.write_tokenizers(tmp_path / "tokenizers")
    arguments = ["import", str(folder), "--dry-run"]
    for name, path in given.items():
        arguments += [f"--{name.replace('_', '-')}", str(path)]
    text = CliRunner().invoke(application(), arguments, catch_exceptions=False).output
    assert "family: CTranslate2" in text
    assert "left out" not in text
