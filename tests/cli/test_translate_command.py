"""`translate`: order, formats, pieces, and files that are whole or not there."""

import bz2
import contextlib
import gzip
import json
import lzma
import os
import resource
import select
import signal

import fake_program
import pytest

from keras_transformer.cli.formats import Format
from keras_transformer.cli.formats import written
from keras_transformer.data.known_words import KnownWords
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.translation.hypothesis import Hypothesis

pytestmark = pytest.mark.no_backend


def test_lines_keep_their_order_and_empty_ones_stay(model, invoke):
    result = invoke("translate", model, input="b\n\na\n")
    assert (result.exit_code, result.stdout) == (0, "B\n\nA\n")
    assert result.stderr.startswith("backend: ")


@pytest.mark.parametrize(
    ("content", "output"),
    [
        (b"", b""),
        (b"a", b"A\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", b"A\nB\n"),
        ("a\u2028b\x85c\x0cd\n".encode(), "A\u2028B\x85C\x0cD\n".encode()),
    ],
)
def test_only_line_feeds_end_lines(content, output, model, invoke, tmp_path):
    (tmp_path / "in").write_bytes(content)
    invoke("translate", model, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == output


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_input_is_translated(pack, model, invoke, start, tmp_path):
    text = "".join(f"{i}\n" for i in range(20_000)).encode()
    (tmp_path / "in").write_bytes(pack(text))
    arguments = ["translate", model, "--output", tmp_path / "out"]
    invoke(*arguments, "--input", tmp_path / "in", "--prefixes", tmp_path / "in")
    assert (tmp_path / "out").read_bytes() == text
    process = start("translate", model)
    assert process.communicate(pack(text))[0] == text
    (tmp_path / "in").write_bytes(pack(text)[:-9])
    with pytest.raises(InputError, match="in is a compressed file that is truncated"):
        invoke("translate", model, "--input", tmp_path / "in")


def test_input_that_is_no_text_is_named(model, invoke, start, tmp_path):
    (tmp_path / "in").write_bytes("a\nb\n".encode("utf-16-le"))
    with pytest.raises(InputError, match="in is UTF-16LE, not UTF-8; convert it"):
        invoke("translate", model, "--input", tmp_path / "in")
    process = start("translate", model)
    line = one_error(process, "a\nb\n".encode("utf-16"))
    assert "standard input is UTF-16, not UTF-8" in line
    (tmp_path / "in").write_bytes(gzip.compress(b"a\n" + bytes(20 << 20)))
    with pytest.raises(InputError, match="in, line 2: longer than 16 MiB"):
        invoke("translate", model, "--input", tmp_path / "in")
    process = start("translate", model, "--prefixes", tmp_path / "in")
    assert "standard input, line 2: longer" in one_error(process, b"a\n" + b"x" * 2**25)


def test_fewer_than_sixteen_batches_are_in_memory(model, invoke):
    lines = [str(i) for i in range(20)]
    result = invoke("translate", model, "--batch-size", 1, input="\n".join(lines))
    assert result.stdout.splitlines() == lines
    assert list(map(len, fake_program.Translator.last.calls)) == [8, 12]


def test_options_reach_the_model(model, invoke):
    options = ["--beam-size", 3, "--length-penalty", 1.5, "--batch-size", 2]
    options += ["--suppressed-tokens", "a", "--suppressed-tokens", "b", "--sampling"]
    invoke("translate", model, *options, input="a\n")
    assert fake_program.Translator.last.options == {
        "beam_size": 3,
        "length_penalty": 1.5,
        "suppressed_tokens": ["a", "b"],
        "sampling": True,
        "batch_size": 2,
        "split_sentences": False,
        "return_token_scores": False,
        "return_alignments": False,
        "return_attention_weights": False,
    }


def test_what_the_model_has_can_be_unset(model, invoke):
    fields = DecodingOptions.model_fields
    empty = {name for name in fields if fields[name].default in (None, ())}
    assert empty == {name for name, option in OPTIONS.items() if option.has_none}
    flags = [f"--{name.replace('_', '-')}=none" for name in sorted(empty)]
    invoke("translate", model, *flags, "--normalization=none", input="a\n")
    found = fake_program.Translator.last.options
    assert {name: found[name] for name in empty} == {
        **dict.fromkeys(empty),
        "suppressed_tokens": (),
    }
    assert found["normalization"] == "none"
    own = DecodingOptions(patience=2.0, mbr="chrf", mbr_candidates=2, max_length=9)
    chosen = {name: found[name] for name in empty} | {"beam_size": 1}
    assert own.updated(chosen).changed() == {"beam_size": 1}
    result = invoke("translate", model, "--patience", "nine", input="a\n")
    assert result.exit_code == 2
    assert "'nine' is not a valid float, and not none, which unsets it" in result.stderr


def test_prefixes_go_with_their_lines(model, invoke, tmp_path):
    (tmp_path / "p").write_text("x\n\ny\n")
    arguments = ["translate", model, "--prefixes", tmp_path / "p"]
    invoke(*arguments, input="a\nb\nc\n")
    assert fake_program.Translator.last.options["prefixes"] == ["x", "", "y"]
    result = invoke(*arguments, "--format", "jsonl", input="a\nb\nc\n")
    for line in result.stdout.splitlines():
        (found,) = json.loads(line)["hypotheses"]
        assert (found["prefix_log_probability"], found["log_probability"]) == (-0.5, -2)
    with pytest.raises(InputError, match="p has no line 4; give one"):
        invoke(*arguments, input="a\nb\nc\nd\n")
    with pytest.raises(InputError, match="p has more lines than the input"):
        invoke(*arguments, input="a\nb\n")


def test_models_that_translate_together(model, invoke):
    invoke("translate", model, "--ensemble", model, "--ensemble", model, input="a\n")
    assert fake_program.Translator.last.others == (model, model)
    with pytest.raises(InputError, match=r"there is no folder .*none; give a model"):
        invoke("translate", model, "--ensemble", model / "none", input="a\n")


def test_a_warning_is_one_line(model, invoke):
    result = invoke("translate", model, input="a\nlong\n")
    assert result.stdout == "A\nLONG\n"
    assert result.stderr.splitlines()[1:] == ["warning: line 2 is long"]


@pytest.fixture
def words(monkeypatch):
    known = KnownWords(description="words", words={"dog", "cat"})
    monkeypatch.setattr(fake_program.Translator, "known_words", known)


def test_words_that_the_model_has_not_learned_are_named_in_json(words, model, invoke):
    lines = ["dog", "The dog, the bird", "", "bird", *["x1"] * 9, "fish"]
    options = ["--format", "jsonl", "--batch-size", 1]
    result = invoke("translate", model, *options, input="\n".join(lines))
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    found = [row["unknown_words"] for row in rows]
    assert found[:4] == [[], ["The", "the", "bird"], [], ["bird"]]
    assert not any(found[4:-1])
    assert result.stderr.splitlines()[1:] == [
        "warning: 3 lines have words that the model has not learned, such as 'The', "
        "'the', 'bird': their translations are guesses"
    ]


def test_words_that_the_model_has_not_learned_leave_text_as_it_is(words, model, invoke):
    result = invoke("translate", model, input="a dog\nbird\x1b\n")
    assert result.stdout == "A DOG\nBIRD\x1b\n"
    assert result.stderr.splitlines()[1:] == [
        "warning: 1 line has words that the model has not learned, such as 'bird': "
        "their translations are guesses; --format jsonl lists them for each line"
    ]
    result = invoke("translate", model, input="dog\nA cat\n")
    assert len(result.stderr.splitlines()) == 1


def test_a_model_without_a_list_of_words_says_nothing_of_them(model, invoke):
    result = invoke("translate", model, "--format", "jsonl", input="bird\n")
    assert json.loads(result.stdout).keys() == {"source", "hypotheses"}
    assert len(result.stderr.splitlines()) == 1


def test_a_bar_is_drawn_on_a_terminal_alone(model, start, tmp_path):
    (tmp_path / "in").write_bytes(b"a\n" * 20)
    arguments = ["translate", model, "--input", tmp_path / "in", "--batch-size", 1]
    silent = start(*arguments)
    assert silent.communicate()[1].count(b"\n") == 1  # the backend
    ours, theirs = os.openpty()
    drawn = start(*arguments, stderr=theirs)
    assert drawn.communicate()[0] == b"A\n" * 20
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    assert b"20 lines" in text


def test_several_hypotheses_are_a_table(model, invoke):
    result = invoke("translate", model, "--top-beams", 2, input="a\n\nb\n")
    assert result.stdout.splitlines() == [
        "1\t1\t-1.000000\tA",
        "1\t2\t-2.000000\tA!",
        "2\t1\t0.000000\t",
        "3\t1\t-1.000000\tB",
        "3\t2\t-2.000000\tB!",
    ]


def test_jsonl_is_an_object_a_line(model, invoke):
    result = invoke("translate", model, "--format", "jsonl", input="ä\u2028\n\n")
    first, second = (json.loads(line) for line in result.stdout.strip().split("\n"))
    assert first["source"] == "ä\u2028"
    assert first["hypotheses"] == [
        {
            "text": "Ä\u2028",
            "score": -1.0,
            "log_probability": -2.0,
            "finished": True,
            "tokens": ["Ä", "\u2028"],
            "token_scores": [-1.0, -1.0],
            "alignment": "0-0",
        }
    ]
    assert second["hypotheses"][0]["text"] == ""
    assert second["hypotheses"][0]["token_scores"] == []


def test_jsonl_has_the_utility_of_mbr(model, invoke):
    options = ["--format", "jsonl", "--mbr", "chrf"]
    result = invoke("translate", model, *options, input="a\n")
    (hypothesis,) = json.loads(result.stdout)["hypotheses"]
    assert hypothesis["utility"] == 50.0


def test_the_table_of_mbr_has_the_utility(model, invoke):
    options = ["--mbr", "chrf", "--top-beams", 2]
    result = invoke("translate", model, *options, input="a\n")
    assert result.stdout == "1\t1\t50.000000\tA\n1\t2\t50.000000\tA!\n"


def test_attention_is_not_written_as_text(model, invoke):
    with pytest.raises(InputError, match="needs JSON lines; add"):
        invoke("translate", model, "--attention", input="a\n")


def test_a_translation_that_reached_its_limit_is_named(model, invoke):
    result = invoke("translate", model, input="a\ncut\nb\n")
    assert result.stdout == "A\nCUT\nB\n"
    warnings = [line for line in result.stderr.splitlines() if "warning" in line]
    assert warnings == [
        "warning: line 2: the translation reached its length limit and may be cut off, "
        "after 2 tokens"
    ]


def test_jsonl_of_a_model_without_attention_has_no_alignments(
    model, invoke, monkeypatch
):
    monkeypatch.setattr(fake_program.Translator, "attends", False)
    result = invoke("translate", model, "--format", "jsonl", input="a\n")
    (hypothesis,) = json.loads(result.stdout)["hypotheses"]
    assert (hypothesis["alignment"], hypothesis["token_scores"]) == ("", [-1.0])


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--length-penalty", "nan", "Input should be a finite number, got nan"),
        ("--beam-size", "0", "Input should be greater than or equal to 1, got 0"),
        ("--beam-size", "5000", "Input should be less than or equal to 1000, got 5000"),
        ("--temperature", "0", "greater than or equal to 0.000001, got 0.0"),
        (
            "--normalization",
            "gnnt",
            "Input should be 'gnmt', 'power', 'average' or 'none', got",
        ),
    ],
)
def test_a_wrong_value_is_refused_before_the_model_is_loaded(
    flag, value, message, model, invoke
):
    result = invoke("translate", model / "missing", flag, value, input="a\n")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert f"Invalid value for '{flag}': " in said and message in said
    assert "backend: " not in said


def test_a_line_that_is_not_utf8_is_named(model, invoke, tmp_path):
    (tmp_path / "in").write_bytes(b"a\nb\n\xff\n")
    with pytest.raises(InputError, match="in, line 3: not UTF-8"):
        invoke("translate", model, "--input", tmp_path / "in")


def test_a_line_that_the_model_refuses_is_named(model, invoke):
    with pytest.raises(InputError, match="line 10 is bad"):
        invoke("translate", model, "--batch-size", 1, input="a\n" * 9 + "bad\n")


def test_a_missing_input_is_named(model, invoke, tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nothing: No such file"):
        invoke("translate", model, "--input", tmp_path / "nothing")


@pytest.mark.parametrize("times", [1, 100])  # too long for the name of a file
def test_a_sentence_in_place_of_a_file_is_to_be_piped(times, model, invoke):
    with pytest.raises(InputError, match=r"pipe it: echo .*tired"):
        invoke("translate", model, "I am tired. " * times)


def test_a_failed_translation_leaves_the_old_output(model, invoke, tmp_path):
    output = tmp_path / "out"
    output.write_text("old")
    with pytest.raises(InputError, match="line 9"):
        arguments = ["translate", model, "--output", output, "--batch-size", 1]
        invoke(*arguments, input="a\n" * 8 + "bad\n")
    assert output.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"model", "out"}


@pytest.mark.parametrize("output", ["no/such/folder", "file/out", "model"])
def test_an_output_that_cannot_be_written_is_named(output, model, invoke, tmp_path):
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f"cannot write .*{output}: "):
        invoke("translate", model, "--output", tmp_path / output, input="a\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_output_over_a_link_keeps_the_link(model, invoke, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    invoke("translate", model, "--output", tmp_path / "link", input="a\n")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "A\n"


def test_output_follows_input_before_its_end(model, start):
    process = start("translate", model, "--batch-size", 1)
    process.stdin.write(b"a\n" * 8)
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(8)] == [b"A\n"] * 8
    assert process.communicate(b"b\n")[0] == b"B\n"


def test_a_pause_of_the_input_has_what_came_before_it_translated(model, start):
    process = start("translate", model)
    for lines in (b"a\nb\n", b"c\n"):
        process.stdin.write(lines + b"begun")
        process.stdin.flush()
        came, _, _ = select.select([process.stdout], [], [], 60)
        assert came, "it waits for more lines"
        assert os.read(process.stdout.fileno(), 99).endswith(lines.upper())
    assert process.communicate(b"\nd")[0] == b"BEGUN\nD\n"


def test_text_is_utf8_whatever_the_locale(model, start):
    process = start("translate", model, env={"LC_ALL": "C", "PYTHONUTF8": "0"})
    assert process.communicate("ä→\n".encode())[0] == "Ä→\n".encode()


needs_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs /dev/full"
)


def one_error(process, input=b"a\n"):
    """The only line of stderr but for the backend's; the exit code is 2."""
    error = process.communicate(input)[1].decode()
    assert process.returncode == 2, error
    backend, line = error.splitlines()
    assert backend.startswith("backend: ") and line.startswith("error: ")
    return line


@needs_full
def test_a_full_disk_is_one_error(model, start):
    process = start("translate", model, "--output", "/dev/full")
    assert "cannot write /dev/full: No space left on device" in one_error(process)


@needs_full
def test_a_full_disk_under_standard_output_is_one_error(model, start):
    with open("/dev/full", "wb") as full:
        process = start("translate", model, stdout=full)
        assert "cannot write standard output: No space left" in one_error(process)


def test_a_file_that_may_not_grow_leaves_nothing(model, start, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    output = tmp_path / "out"
    process = start("translate", model, "--output", output, preexec_fn=limit)
    assert "out: File too large" in one_error(process, b"abcdefg\n" * 1000)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("command", ["translate", "info"])
def test_a_reader_that_has_enough_ends_a_command_without_an_error(
    command, model, start
):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = start(command, model, stdout=pipe)
    _, errors = process.communicate(b"a\n", timeout=120)
    assert process.returncode == 128 + signal.SIGPIPE
    assert b"error" not in errors and b"Traceback" not in errors


@pytest.mark.parametrize("flags", [[], ["--split-sentences"]])
def test_lines_are_split_where_that_is_asked_for(flags, model, invoke):
    invoke("translate", model, *flags, input="a. b.\n")
    assert fake_program.Translator.last.options["split_sentences"] == bool(flags)


def test_a_tab_between_sentences_makes_no_column():
    """Which a line that is split keeps, as its text has it."""
    hypothesis = Hypothesis("Ja.\tNein.", ["Ja.", "Nein."], [5, 6, 2], -1.0, -0.5, True)
    text = written(Format.text, 3, ["Yes.\tNo."], [[hypothesis]], [None], 2)
    assert text == "3\t1\t-0.500000\tJa. Nein.\n"
    text = written(Format.text, 3, ["Yes.\tNo."], [[hypothesis]], [None], 1)
    assert text == "Ja.\tNein.\n"
