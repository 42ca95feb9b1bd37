"""How the program ends: 0, 1, 2, 130 and 143."""

import json
import re
import signal
import time

import pytest
import typer

from keras_transformer.cli.main import application

pytestmark = pytest.mark.no_backend

HEAVY = {"jax", "keras", "numpy", "sacrebleu", "tensorflow", "torch"}


def test_done_is_0(model, start):
    process = start("translate", model)
    assert process.communicate(b"a\n")[0] == b"A\n"
    assert process.returncode == 0


def test_bad_input_is_2_and_one_line(start):
    process = start("info", "no-model")
    output, error = process.communicate()
    assert (process.returncode, output) == (2, b"")
    assert error == (
        b"error: there is no folder no-model; give a model folder that training wrote\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["tranlsate"],
        ["translate"],
        ["translate", "m", "--beam-size", "0"],
        ["translate", "m", "--beam-size", "x"],
        ["translate", "m", "--length-penalty", "-1"],
        ["translate", "m", "--format", "xml"],
        ["translate", "m", "--no-such-option"],
        ["train", "a.yaml", "b.yaml"],
    ],
)
def test_bad_arguments_are_2(arguments, invoke):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


TAKES_A_LIST = {
    ("train", "--set"),
    ("translate", "--suppressed-tokens"),
    ("translate", "--ensemble"),
    ("compile", "--suppressed-tokens"),
    ("score", "--ensemble"),
    ("distill", "--suppressed-tokens"),
    ("distill", "--ensemble"),
    ("backtranslate", "--suppressed-tokens"),
    ("backtranslate", "--ensemble"),
    ("score", "--metric"),
    ("evaluate", "--metric"),
    ("evaluate", "--suppressed-tokens"),
    ("evaluate", "--reference"),
    ("compare", "--reference"),
    ("export", "--suppressed-tokens"),
    *(
        (command, "--import")
        for command in (
            *("train", "translate", "score", "evaluate", "average", "export"),
            *("attention", "info", "compile", "serve", "distill", "backtranslate"),
        )
    ),
}


def test_an_option_that_takes_one_value_is_given_once(invoke):
    program = typer.main.get_command(application())
    lists = set()
    for command in program.commands.values():
        for option in command.params:
            if option.param_type_name != "option":
                continue
            if option.multiple:
                lists.add((command.name, option.opts[0]))
                continue
            value = [] if option.is_flag else ["2"]
            for again in [option.opts[0], *option.secondary_opts]:
                twice = [option.opts[0], *value, again, *value]
                result = invoke(command.name, *twice)
                assert result.exit_code == 2
                assert " is given more than once; give it once" in result.stderr
    assert lists == TAKES_A_LIST
    assert "give it once" in invoke("--version", "--version").stderr


def test_a_fault_of_ours_is_1_and_asks_for_a_report(model, start):
    process = start("translate", model)
    output, error = process.communicate(b"fault\n")
    assert (process.returncode, output) == (1, b"")
    assert b"Traceback" in error and b"RuntimeError: a fault" in error
    assert error.endswith(
        b"error: this is a bug in keras-transformer; please report the lines above\n"
    )


def test_a_mistake_in_code_of_the_user_is_2_and_says_where(model, start):
    process = start("translate", model)
    output, error = process.communicate(b"mistake\n")
    assert (process.returncode, output) == (2, b"")
    assert b"Traceback" in error and b"RuntimeError: a mistake of the user" in error
    *_, last = error.decode().splitlines()
    assert re.fullmatch(
        r"error: the code in \S*fake_program\.py, line \d+, failed, as the lines above "
        r"say; mend it there",
        last,
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_a_command_and_leaves_nothing(
    number, code, model, start, tmp_path
):
    process = start("translate", model, "--output", tmp_path / "out")
    process.stdin.write(b"wait\n")
    process.stdin.close()
    while process.stderr.readline() != b"waiting\n":
        time.sleep(0.01)
    process.send_signal(number)
    assert process.wait(timeout=20) == code
    assert b"Traceback" not in process.stderr.read()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    process.stdin = None


@pytest.mark.parametrize(
    ("arguments", "code", "heavy"),
    [
        (["--version"], 0, HEAVY),
        (["--help"], 0, HEAVY),
        (["train", "--help"], 0, HEAVY),
        (["score", "--help"], 0, HEAVY),
        # A config with a fault does not wait for Keras.
        (["train", "--set", "training.step=100"], 2, HEAVY - {"numpy", "sacrebleu"}),
    ],
)
def test_help_version_and_refusals_load_nothing_heavy(
    arguments, code, heavy, run_python
):
    program = (
        "import json, sys\n"
        f"sys.argv = ['keras-transformer', *{arguments}]\n"
        "from keras_transformer.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as done:\n"
        f"    assert (done.code or 0) == {code}, done.code\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    output = run_python(program, env={"KERAS_TRANSFORMER_RESTART": "never"})
    assert code or "keras-transformer" in output
    assert not heavy & set(json.loads(output.splitlines()[-1]))
