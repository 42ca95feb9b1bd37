"""A corpus that is translated into a folder: shards, stops, parts, its manifest."""

import dataclasses
import json

import pytest

from keras_transformer.corpus_translation import Request
from keras_transformer.corpus_translation import translate_corpus
from keras_transformer.data.translated_corpus import TranslatedCorpus
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

LINES = ["a", "", "b c", "d", "ä", "f", "g"]
REQUEST = Request("source", {"m": "1" * 64}, {"in": "2" * 64}, 7, {"beam_size": 4}, 3)
VERSIONS = {"keras_transformer": "1"}


def upper(lines, first_line):
    return [f"{first_line + i} {line.upper()}" for i, line in enumerate(lines)]


def run(folder, translate=upper, request=REQUEST, versions=VERSIONS, **options):
    said = []
    whole = translate_corpus(
        folder, iter(LINES), translate, request, versions, say=said.append, **options
    )
    return whole, said


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture
def whole(tmp_path):
    run(tmp_path / "whole")
    return tmp_path / "whole"


def test_the_manifest_names_every_file_and_who_wrote_it(whole):
    corpus = TranslatedCorpus(whole)
    assert [path.name for path in corpus.source] == [
        f"source-0000{number}.txt" for number in (1, 2, 3)
    ]
    source, target = (
        "".join(map(read, side)) for side in (corpus.source, corpus.target)
    )
    assert source == "".join(f"{line}\n" for line in LINES)
    assert target == "".join(f"{line}\n" for line in upper(LINES, 1))
    manifest = json.loads(read(whole / "manifest.json"))
    assert manifest["models"] == REQUEST.models
    assert manifest["options"] == {"beam_size": 4}
    assert manifest["versions"] == VERSIONS
    assert [file["lines"] for file in manifest["target"]] == [3, 3, 1]


def read(path):
    return path.read_text(encoding="utf-8")


def test_a_nul_that_a_model_writes_becomes_a_space(tmp_path):
    run(tmp_path, lambda lines, first: ["a\0b"] * len(lines))
    assert read(tmp_path / "target-00003.txt") == "a b\n"


def test_back_translation_writes_the_source(tmp_path):
    run(tmp_path, request=dataclasses.replace(REQUEST, input_side="target"))
    corpus = TranslatedCorpus(tmp_path)
    assert read(corpus.target[2]) == "g\n"
    assert read(corpus.source[2]) == "7 G\n"


def test_what_was_stopped_goes_on_to_the_same_bytes(whole, tmp_path):
    def stopped(lines, first_line):
        if first_line == 4:
            raise KeyboardInterrupt
        return upper(lines, first_line)

    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        run(folder, stopped)
    with pytest.raises(InputError, match=r"no manifest\.json: .*not finished"):
        TranslatedCorpus(folder)
    firsts = []

    def counted(lines, first_line):
        firsts.append(first_line)
        return upper(lines, first_line)

    assert run(folder, counted)[0]
    assert firsts == [4, 7]
    assert contents(folder) == contents(whole)
    assert run(folder, counted) == (True, [f"{folder} is finished already: 7 lines"])
    assert firsts == [4, 7]


def test_parts_make_the_same_corpus(whole, tmp_path):
    folder = tmp_path / "parts"
    done, said = run(folder, part=(2, 2))
    assert not done and "part 2 of 2 is finished; 2 of 3 shards" in said[-1]
    assert run(folder, part=(1, 2))[0]
    assert contents(folder) == contents(whole)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {"m": "3" * 64}}, "other models"),
        ({"inputs": {"in": "3" * 64}}, "other inputs"),
        ({"options": {"beam_size": 5}}, "beam_size: 4 -> 5"),
        ({"options": {"beam_size": 4, "seed": 1}}, "seed: None -> 1"),
        ({"shard_lines": 2}, "shard_lines: 3 -> 2"),
        ({"input_side": "target"}, "input_side: source -> target"),
    ],
)
def test_another_request_is_refused(whole, changes, message):
    with pytest.raises(InputError, match=f"another request .*{message}"):
        run(whole, request=dataclasses.replace(REQUEST, **changes))


def test_what_an_error_asks_for_is_the_same_request(whole, tmp_path):
    """Smaller batches where memory ended, and a word on lines that are too long."""
    options = {"beam_size": 4, "batch_size": 64, "long_lines": "error"}
    begun = dataclasses.replace(REQUEST, options=options)

    def stopped(lines, first_line):
        if first_line == 4:
            raise InputError("line 4 has 99 tokens")
        return upper(lines, first_line)

    with pytest.raises(InputError, match="line 4"):
        run(tmp_path / "begun", stopped, begun)
    changed = {**options, "batch_size": 8, "long_lines": "split"}
    now = dataclasses.replace(REQUEST, options=changed)
    done, said = run(tmp_path / "begun", request=now)
    assert done and "goes on with batches of 8 lines" in said[0]
    texts = {name: text for name, text in contents(whole).items() if "txt" in name}
    assert texts.items() <= contents(tmp_path / "begun").items()
    with pytest.raises(InputError, match="long_lines: split -> truncate"):
        run(
            tmp_path / "begun",
            request=dataclasses.replace(
                REQUEST, options={**changed, "long_lines": "truncate"}
            ),
        )


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_file_that_is_gone_is_written_again(whole, side):
    before = contents(whole)
    (whole / f"{side}-00002.txt").unlink()
    done, said = run(whole)
    assert done and said[-1].endswith("7 lines in 3 shards")
    assert contents(whole) == before


def test_moved_models_and_texts_are_the_same_request(whole):
    moved = dataclasses.replace(
        REQUEST, models={"n": "1" * 64}, inputs={"other": "2" * 64}
    )
    said = run(whole, request=moved, versions={"keras_transformer": "2"})[1]
    assert "begun with keras_transformer 1, and goes on with keras_tr" in said[0]


def test_foreign_and_damaged_folders_are_refused(whole, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(InputError, match="is no corpus of this command"):
        run(tmp_path / "other")
    (whole / "request.json").write_text("[]")
    with pytest.raises(InputError, match=r"request\.json is damaged"):
        run(whole)
    for text in ("{", '{"format_version": 2}', read(whole / "manifest.json")[:-9]):
        (whole / "manifest.json").write_text(text)
        with pytest.raises(InputError, match=r"manifest\.json is damaged, or of a"):
            TranslatedCorpus(whole)


def test_a_manifest_names_files_of_its_folder_alone(whole):
    text = read(whole / "manifest.json").replace("source-00001.txt", "../secret.txt")
    (whole / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="is damaged"):
        TranslatedCorpus(whole)
