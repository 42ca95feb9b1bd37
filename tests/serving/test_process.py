"""The server as a process: signals, and what the command line says."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

import keras_transformer

pytestmark = pytest.mark.no_backend

PROGRAM = Path(__file__).with_name("fake_engine.py")
ROOT = Path(keras_transformer.__file__).parents[1]


@pytest.fixture
def start(tmp_path):
    """`start(host)`: the process of a fake engine, ready, and its port."""
    processes = []

    def run(host="127.0.0.1", port=0):
        process = subprocess.Popen(
            [sys.executable, PROGRAM, host, str(port)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            # A test run in the background ignores ctrl-C, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
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


def test_sigterm_under_load_finishes_what_was_taken(start):
    process, port, _ = start()
    right, wrong, taken = [], [], threading.Barrier(9)

    def client(number):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        taken.wait()
        with contextlib.closing(connection):
            for i in range(1000):
                text = f"text {number} {i}"
                body = json.dumps({"texts": [text, "slow"]})
                try:
                    connection.request("POST", "/translate", body)
                    response = connection.getresponse()
                except (ConnectionError, http.client.BadStatusLine):
                    return  # hung up before the request was taken
                answer = response.status, json.loads(response.read())
                expected = 200, {"translations": [text.upper(), "SLOW"]}
                (right if answer == expected else wrong).append(answer)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    taken.wait()
    end = time.monotonic() + 30
    while len(right) < 16 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join(20)
    assert process.wait(20) == 143
    assert not wrong
    assert len(right) >= 16


def test_a_server_of_an_export_to_ctranslate2_loads_no_keras(run_python):
    code = (
        "import keras_transformer.serving.ctranslate2_engine, sys\n"
        "import keras_transformer.serving.server\n"
        "print('keras' in sys.modules)"
    )
    assert run_python(code) == "False\n"


def test_ctrl_c_is_130(start):
    process, _, _ = start()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert process.stderr.read() == "error: interrupted\n"


def test_a_port_that_is_taken_is_one_error(start):
    _, port, _ = start()
    process, none, lines = start(port=port)
    assert (none, process.returncode) == (None, 2)
    assert lines == [
        f"error: cannot listen on 127.0.0.1, port {port}: Address already in use; "
        f"choose another\n"
    ]


def test_a_door_that_is_open_to_all_is_warned_of(start):
    _, _, lines = start(host="0.0.0.0")
    assert lines[0].startswith("warning: 0.0.0.0 is open to other machines")
    _, _, lines = start()
    assert not [line for line in lines if "warning" in line]
