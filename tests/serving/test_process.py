"""The server as a process: signals, and what the command line says."""

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

import keras_transformer
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

PROGRAM = Path(__file__).with_name("fake_engine.py")
ROOT = Path(keras_transformer.__file__).parents[1]
SERVE = ["-m", "keras_transformer.cli.main", "serve", FOLDER, "--port", "0"]
RUN = "runpy.run_path(sys.argv[0], run_name='__main__')"
#: The tests themselves may run under nohup, whose rule children inherit.
HANGUP = [
    "-c",
    f"import runpy, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    f"sys.argv.pop(0); {RUN}",
]
NOHUP = [
    "-c",
    f"import runpy, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    f"sys.argv.pop(0); {RUN}",
]
FEW_FILES = [
    "-c",
    f"import resource, runpy, sys; "
    f"resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); sys.argv.pop(0); {RUN}",
]
#: Of one length: each shape of a batch takes seconds to prepare.
PAIRS = list(zip(lines("source"), lines("greedy"), strict=True))[4:7]


@pytest.fixture
def start():
    """`start(host)`: the process of a fake engine, ready, and its port.

    With `program`, that one's.
    """
    processes = []

    def run(host="127.0.0.1", port=0, program=None):
        program = program or [PROGRAM, host, str(port)]
        process = subprocess.Popen(
            [sys.executable, *program],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        processes.append(process)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ready := re.search(r"ready after .*:(\d+)/", line):
                return process, int(ready[1]), lines
        process.wait(10)
        return process, None, lines

    yield run
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


def waiting_sentences(port):
    """How many the server has taken and not begun to translate."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    return float(re.search(r"^\w+_waiting_sentences (\S+)", text, re.MULTILINE)[1])


def ask_until_it_ends(process, port, requests):
    """Clients amid whose requests SIGTERM comes get all answers, and right ones.

    `requests(number)` gives the 8 texts of each request of a client, and translations.
    """
    right, wrong, taken = [], [], threading.Barrier(9)

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        taken.wait()
        with contextlib.closing(connection):
            for texts, translations in requests(number):
                body = json.dumps({"texts": texts})
                try:
                    connection.request("POST", "/translate", body)
                    response = connection.getresponse()
                except (ConnectionError, http.client.BadStatusLine):
                    return  # hung up before the request was taken
                answer = response.status, json.loads(response.read())
                expected = 200, {"translations": translations}
                (right if answer == expected else wrong).append(answer)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    taken.wait()
    before = waiting = 0
    end = time.monotonic() + 30
    # The signal is heard a tenth of a second later, when more must wait than are done.
    while (before < 16 or waiting < 40) and time.monotonic() < end:
        time.sleep(0.02)
        before, waiting = len(right), waiting_sentences(port)
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(20)
    assert process.wait(20) == 143
    assert not wrong
    assert before >= 16 and waiting >= 40
    assert sum(len(body["translations"]) for _, body in right[before:]) >= waiting


@pytest.mark.no_backend
def test_sigterm_under_load_finishes_what_was_taken(start):
    def requests(number):
        for i in range(1000):
            text = f"text {number} {i}"
            yield [text, *["slow"] * 7], [text.upper(), *["SLOW"] * 7]

    process, port, _ = start()
    ask_until_it_ends(process, port, requests)


@pytest.mark.one_backend("jax")  # which compiles sooner than PyTorch traces
def test_sigterm_under_load_finishes_what_a_model_was_given(start):
    def requests(number):
        for i in range(1000):
            text, translation = PAIRS[(number + i) % len(PAIRS)]
            yield [text] * 8, [translation] * 8

    options = ["--beam-size", "1", "--batch-size", "2", "--warm-up", "0"]
    process, port, _ = start(program=[*SERVE, *options])
    ask_until_it_ends(process, port, requests)


@pytest.mark.no_backend
def test_a_server_of_an_export_to_ctranslate2_loads_no_keras(run_python):
    code = (
        "import keras_transformer.serving.ctranslate2_engine, sys\n"
        "import keras_transformer.serving.server\n"
        "print('keras' in sys.modules)"
    )
    assert run_python(code) == "False\n"


@pytest.mark.no_backend
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_terminal_that_hangs_up_ends_it_as_sigterm_does(start):
    process, port, _ = start(program=[*HANGUP, str(PROGRAM), "127.0.0.1", "0"])
    answers = []

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection):
            body = json.dumps({"texts": ["slow"] * 40})
            connection.request("POST", "/translate", body)
            answers.append(json.loads(connection.getresponse().read()))

    thread = threading.Thread(target=client)
    thread.start()
    end = time.monotonic() + 20
    while not waiting_sentences(port) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    thread.join(20)
    assert answers == [{"translations": ["SLOW"] * 40}]
    assert process.wait(20) == 143


@pytest.mark.no_backend
@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_under_nohup_it_lives_on(start):
    program = [*NOHUP, str(PROGRAM), "127.0.0.1", "0"]
    process, port, _ = start(program=program)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert waiting_sentences(port) == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 143


@pytest.mark.no_backend
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit that Windows lacks")
def test_more_idle_connections_than_files_silence_nobody(start):
    program = [*FEW_FILES, str(PROGRAM), "127.0.0.1", "0"]
    process, port, lines = start(program=program)
    pattern = r"warning: this process may open few files .*: it serves \d+ conn"
    assert re.match(pattern, lines[0])
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            one = socket.create_connection(("127.0.0.1", port), timeout=10)
            stack.enter_context(contextlib.closing(one))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            assert connection.getresponse().read() == b'{"status": "alive"}'
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert len(process.stderr.read()) < 1000


@pytest.mark.no_backend
def test_ctrl_c_is_130(start):
    process, _, _ = start()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == "error: interrupted\n"


@pytest.mark.no_backend
def test_a_port_that_is_taken_is_one_error(start):
    _, port, _ = start()
    process, none, lines = start(port=port)
    assert (none, process.returncode) == (None, 2)
    assert lines == [
        f"error: cannot listen on 127.0.0.1, port {port}: Address already in use; "
        f"choose another\n"
    ]


@pytest.mark.no_backend
def test_a_door_that_is_open_to_all_is_warned_of(start):
    _, _, lines = start(host="0.0.0.0")
    assert lines[0].startswith("warning: 0.0.0.0 is open to other machines")
    _, _, lines = start()
    assert not [line for line in lines if "warning" in line]
