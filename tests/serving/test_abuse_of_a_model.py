"""Clients that do what none should, before a real model: it translates on."""

import json
import random
import threading

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from keras_transformer.serving.limits import Limits
from keras_transformer.serving.loading import load_engine
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

pytestmark = pytest.mark.one_backend

#: Few, and of like length: each shape of a batch takes seconds to prepare.
PAIRS = list(zip(lines("source"), lines("beam"), strict=True))[4:8]
HEAD = b"POST /translate HTTP/1.1\r\nHost: localhost\r\n"
ODD = ["\u2581", "\u0301" * 3, "🐌" * 2, "\u202e abc", "ß\r\nß", "\x7f\x1b[2J"]


def leave(server, text):
    """Asks, and does not wait for the answer."""
    body = json.dumps({"text": text}).encode()
    with server.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def break_off(server, text):
    """Says that more will come than does."""
    with server.connect() as connection:
        connection.sendall(HEAD + b'Content-Length: 999\r\n\r\n{"text": "')
        connection.sendall(text.encode())


def abuse(server, seed, answers):
    """Bad requests of one client in any order, and good ones between them."""
    chance = random.Random(seed)
    for _ in range(3):
        source, right = chance.choice(PAIRS)
        for act in chance.sample([leave, break_off], 2):
            act(server, source)
        for body, status in (
            (b"{", 400),
            (json.dumps({"text": "a " * 1500}).encode(), 400),
            (json.dumps({"text": "a" * 10**7}).encode(), 413),
            ({"text": chance.choice(ODD), "n_best": 4, "attention": True}, 200),
        ):
            answers.append((server.post("/translate", body)[0], status))
        found = server.post("/translate", {"texts": ["", source]})
        answers.append((found, (200, {"translations": ["", right]})))


def test_a_model_translates_among_abuse_and_after_it(start_server):
    limits = Limits(batch_size=2, answer_seconds=100)
    server = start_server(load_engine(FOLDER, limits), limits, warm_up_tokens=0)
    answers = []
    with server.leaking_nothing():
        clients = [
            threading.Thread(target=abuse, args=(server, seed, answers))
            for seed in range(3)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join(300)
    assert len(answers) == 3 * 3 * 5
    assert [answer for answer, right in answers if answer != right] == []
    sources, translations = map(list, zip(*PAIRS, strict=True))
    found = server.post("/translate", {"texts": sources})
    assert found == (200, {"translations": translations})
    server.until(lambda: server.metric("waiting_sentences") == 0)
