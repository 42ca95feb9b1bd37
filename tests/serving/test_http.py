"""The HTTP interface: what each path answers, and what it refuses."""

import re
import threading

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.config import faults
from keras_transformer.data.known_words import KnownWords
from keras_transformer.serving.limits import Limits

pytestmark = pytest.mark.no_backend


def test_one_text_or_several(server):
    assert server.post("/translate", {"text": "a b"}) == (
        200,
        {"translations": ["A B"]},
    )
    texts = ["a", "", " \t", "ä\u2028\n→"]
    assert server.post("/translate", {"texts": texts}) == (
        200,
        {"translations": ["A", "", "", "Ä\u2028\n→"]},
    )
    assert server.post("/translate", {"texts": []}) == (200, {"translations": []})


def test_words_that_the_model_has_not_learned_are_named(start_server):
    engine = FakeEngine()
    engine.known_words = KnownWords(
        description="words", words={"dog"}, examples=["dog"]
    )
    server = start_server(engine)
    texts = ["Dog 5", "the cat, the dog", ""]
    assert "unknown_words" not in server.post("/translate", {"texts": texts})[1]
    for request in ({"details": True}, {"n_best": 2}, {"attention": True}):
        answer = server.post("/translate", {"texts": texts, **request})[1]
        assert answer["unknown_words"] == [[], ["the", "cat"], []]
    info = server.get("/info")[1]
    assert info["knows"] == "1 words; other words it has not learned"
    assert info["examples"] == ["dog"]


def test_of_a_model_without_a_list_no_word_is_called_unknown(server):
    answer = server.post("/translate", {"text": "a", "details": True})[1]
    assert answer.keys() == {"translations", "details"}
    assert not server.get("/info")[1].keys() & {"knows", "examples"}


def test_n_best_with_scores_and_alignments(server):
    request = {"text": "a b", "n_best": 2, "alignments": True, "attention": True}
    status, answer = server.post("/translate", request)
    best, second = answer["details"][0]
    assert (status, answer["translations"]) == (200, ["A B"])
    assert [best["text"], second["text"]] == ["A B", "A B!"]
    assert [best["score"], second["score"]] == [-1.0, -2.0]
    assert best["log_probability"] == -2.0
    assert best["tokens"] == ["A", "B"]
    assert best["source_tokens"] == ["a", "b", "</s>"]
    assert best["alignments"] == [[0, 0], [1, 1]]
    assert best["attention"] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    plain = server.post("/translate", {"text": "a", "details": True})[1]["details"]
    assert plain[0][0].keys() == {
        "text",
        "score",
        "log_probability",
        "tokens",
        "finished",
    }


@pytest.mark.parametrize(
    ("end", "pairs"), [("<eos>", [[0, 0], [1, 1]]), (None, [[1, 0], [1, 1]])]
)
def test_nothing_is_aligned_with_the_end_however_it_is_spelled(
    end, pairs, start_server
):
    class Engine(FakeEngine):
        """Looks at the last token of the source most."""

        def translate(self, texts, options):
            ((best,),) = super().translate(texts, options)
            best.attention["cross"][..., -1] = 2
            return [[best]]

    engine = Engine()
    engine.end = end
    server = start_server(engine)
    answer = server.post("/translate", {"text": "a b", "alignments": True})[1]
    assert answer["details"][0][0]["alignments"] == pairs


def test_nothing_is_aligned_with_a_language(start_server):
    class Engine(FakeEngine):
        """Looks at the language most, then at the first word."""

        language = "<de>"

        def translate(self, texts, options):
            ((best,),) = super().translate(texts, options)
            best.attention["cross"][..., 0] = 3
            best.attention["cross"][..., 1] = 2
            return [[best]]

    server = start_server(Engine())
    answer = server.post("/translate", {"text": "a b", "alignments": True})[1]
    (best,) = answer["details"][0]
    assert best["source_tokens"] == ["<de>", "a", "b", "</s>"]
    assert best["alignments"] == [[1, 0], [1, 1]]


def test_beam_size_is_greedy_or_the_servers(server):
    for beam_size in (1, 4):
        assert (
            server.post("/translate", {"text": "a", "beam_size": beam_size})[0] == 200
        )
        assert server.engine.batches[-1][1].beam_size == beam_size
    status, answer = server.post("/translate", {"text": "a", "beam_size": 3})
    assert status == 400
    assert "give 1 for greedy search, or 4" in answer["error"]


def test_languages_are_checked_where_they_are_known(server, start_server):
    request = {"texts": ["a"], "src_lang": "en", "tgt_lang": "de"}
    assert server.post("/translate", request) == (200, {"translations": ["A"]})
    other = start_server(languages=("en", "fr"))
    assert other.post("/translate", {**request, "tgt_lang": "FR"})[0] == 200
    status, answer = other.post("/translate", request)
    assert status == 400
    assert answer["error"] == "tgt_lang 'de' is not served here; give 'fr'"


def test_models_have_names_versions_and_states(start_server):
    server = start_server(name="en-de")
    status, answer = server.get("/v1/models/en-de")
    assert (status, answer["model_version_status"][0]["state"]) == (200, "AVAILABLE")
    assert server.get("/v1/models/en-de/versions/1")[0] == 200
    path = "/v1/models/en-de/versions/1:predict"
    assert server.post(path, {"instances": ["a"]})[0] == 200
    metadata = server.get("/v1/models/en-de/metadata")[1]["metadata"]
    signatures = metadata["signature_def"]["signature_def"]
    shape = signatures["translate_n_best"]["outputs"]["scores"]["tensor_shape"]
    assert [size["size"] for size in shape["dim"]] == ["-1", "4"]
    for path in ("/v1/models/other", "/v1/models/en-de/versions/2"):
        status, answer = server.get(path)
        assert status == 404 and "en-de/1" in answer["error"]
    assert server.post("/v1/models/other:predict", {"instances": ["a"]})[0] == 404


def test_it_is_alive_before_it_is_ready(start_server):
    engine = FakeEngine()
    engine.prepared.clear()
    server = start_server(engine, wait=False)
    assert server.get("/health")[0] == 200
    assert server.get("/ready")[0] == 503
    assert server.post("/translate", {"text": "a"})[0] == 503
    state = server.get("/v1/models/default")[1]["model_version_status"][0]["state"]
    assert state == "LOADING"
    engine.prepared.set()
    server.until(lambda: server.service.ready)
    assert server.get("/ready") == (200, {"status": "ready"})
    assert server.lives()


def test_a_key_opens_what_is_closed(start_server):
    server = start_server(key="ä secret")
    for path in ("/health", "/ready", "/v1/models/default"):
        assert server.get(path)[0] == 200
    assert server.send("GET", "/")[0] == 200
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic x"},
        {"X_API_Key": ""},
    ):
        status, answer = server.post("/translate", {"text": "a"}, **headers)
        assert status == 401 and "Authorization: Bearer KEY" in answer["error"]
        assert server.get("/info", **headers)[0] == 401
        assert server.send("GET", "/metrics", **headers)[0] == 401
    secret = "ä secret".encode()
    right = {"Authorization": b"Bearer " + secret}, {"X_API_Key": secret}
    for headers in right:
        assert server.post("/translate", {"text": "a"}, **headers)[0] == 200


BAD_BODIES = {
    b"": "not JSON",
    b"{": "not JSON",
    b"[1, 2": "not JSON",
    b"nan": "not JSON",
    b'{"text": NaN}': "NaN is not a JSON",
    b'{"text": "\xff\xfe"}': "not UTF-8 (byte 10)",
    b'{"text": "a\\u0000b"}': "text 1 holds a NUL",
    b'{"texts": ["a", "\\ud800"]}': "text 2 holds a lone surrogate",
    b"[" * 50_000: "nested too deeply",
    b"9" * 10_000: "not JSON",
    b"null": "must be an object",
    b'"a"': "must be an object",
    b"[]": "must be an object",
    b"{}": 'either "text"',
    b'{"text": "a", "texts": ["b"]}': 'either "text"',
    b'{"text": 7}': "text: Input should be a valid string",
    b'{"texts": "a"}': "texts: Input should be a valid list",
    b'{"texts": [["a"]]}': "texts.0: Input should be a valid string",
    b'{"text": "a", "n_best": "2"}': "n_best: Input should be a valid integer",
    b'{"text": "a", "n_best": true}': "n_best: Input should be a valid integer",
    b'{"text": "a", "n_best": 0}': "n_best 0 must be between 1 and",
    b'{"text": "a", "n_best": 5}': "n_best 5 must be between 1 and",
    b'{"text": "a", "n_best": 1e400}': "n_best",
    b'{"text": "a", "beam_sise": 2}': "did you mean 'beam_size'",
    b'{"text": "a", "max_length": 2}': "max_length is an option of the model",
    b'{"text": "a", "colour": 2}': "unknown key colour; use alignments, attention, be",
}


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_bad_body_is_named(body, server):
    status, answer = server.post("/translate", body)
    assert status == 400
    assert BAD_BODIES[body] in answer["error"]
    assert "\n" not in answer["error"] and len(answer["error"]) < 500
    assert server.lives()


def test_limits_are_named(start_server):
    limits = Limits(sentences=2, characters=9, request_characters=10, body_bytes=1000)
    server = start_server(limits=limits)
    assert server.post("/translate", {"texts": ["a" * 9, "b"]})[0] == 200
    for body, status, message in (
        ({"texts": ["a"] * 3}, 400, "3 texts are more than the 2 of one request"),
        ({"texts": ["a", "b" * 10]}, 400, "text 2 has 10 characters, more than the 9"),
        (
            {"texts": ["a" * 9, "bb"]},
            400,
            "2 texts have 11 characters, more than the 10",
        ),
        ({"text": "a" * 1000}, 413, "the body is larger than 1000 bytes"),
        ({"text": "a" * 10_000_000}, 413, "the body is larger than 1000 bytes"),
    ):
        found, answer = server.post("/translate", body)
        assert (found, message in answer["error"]) == (status, True), answer
    assert server.lives()
    long = start_server()
    status, answer = long.post("/translate", {"texts": ["", "a", "a " * 60]})
    assert status == 400 and "line 3 has 61 tokens" in answer["error"]
    many = {"texts": ["a " * 48] * 128, "n_best": 4, "attention": True}
    status, answer = long.post("/translate", many)
    assert status == 400 and "attention of this much text" in answer["error"]


def test_one_fault_of_many_is_enough(server, monkeypatch):
    """Each that is told of costs time, in which nobody else is answered."""
    counts = []
    first_fault = faults.first_fault

    def counting(error, *arguments):
        counts.append(error.error_count())
        return first_fault(error, *arguments)

    monkeypatch.setattr(faults, "first_fault", counting)
    for body, message in (
        ({"texts": [1] * 9999}, "texts.0: Input should be a valid string"),
        ({f"key{i}": 1 for i in range(500)}, "unknown key key0"),
    ):
        status, answer = server.post("/translate", body)
        assert (status, message in answer["error"]) == (400, True), answer
    assert counts == [1]


def test_a_request_may_be_one_sentence(start_server):
    server = start_server(limits=Limits(characters=9, request_characters=2))
    assert server.post("/translate", {"texts": ["a" * 9]})[0] == 200
    assert server.get("/info")[1]["limits"]["request_characters"] == 9


def test_no_request_may_be_larger_than_the_queue(start_server):
    server = start_server(limits=Limits(queue_sentences=3))
    assert server.post("/translate", {"texts": ["a"] * 3})[0] == 200
    status, answer = server.post("/translate", {"texts": ["a"] * 4})
    assert status == 400 and "4 texts are more than the 3 of one" in answer["error"]
    assert server.get("/info")[1]["limits"]["sentences"] == 3


def sentences(server):
    """How many are with the model, done or waiting."""
    return len(server.engine.batches) + server.metric("waiting_sentences")


def test_a_full_queue_says_come_back(start_server):
    limits = Limits(queue_sentences=2, batch_size=1, wait_seconds=0.0)
    server = start_server(limits=limits)
    waiting = [
        threading.Thread(target=server.post, args=("/translate", {"text": text}))
        for text in ("wait", "a", "b")
    ]
    for number, thread in enumerate(waiting):
        thread.start()
        server.until(lambda n=number: sentences(server) > n)
    status, headers, body = server.send("POST", "/translate", {"text": "c"})
    assert (status, headers["Retry-After"]) == (429, "1")
    assert b"too many sentences are waiting" in body
    server.engine.go.set()
    for thread in waiting:
        thread.join(10)
    assert server.lives()


def test_an_answer_that_takes_too_long_is_given_up(start_server):
    server = start_server(limits=Limits(answer_seconds=0.2))
    status, answer = server.post("/translate", {"text": "wait"})
    assert (status, "no translation within 0.2 s" in answer["error"]) == (504, True)
    server.engine.go.set()
    assert server.lives()


def test_a_fault_of_ours_is_500_and_hits_no_other(server, capfd):
    answers = {}

    def ask(text):
        answers[text] = server.post("/translate", {"text": text})

    threads = [threading.Thread(target=ask, args=(text,)) for text in ("a", "fault")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert answers["a"] == (200, {"translations": ["A"]})
    status, answer = answers["fault"]
    assert (status, "the server failed" in answer["error"]) == (500, True)
    errors = []
    server.until(
        lambda: errors.append(capfd.readouterr().err) or "a fault" in errors[-1]
    )
    assert server.lives()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_whose_model_is_gone_says_so(start_server):
    server = start_server()
    for text in ("end", "a"):
        status, answer = server.post("/translate", {"text": text})
        assert status == 503 and answer["error"]
        server.until(lambda: server.service.batcher.ended)
    for path in ("/health", "/ready"):
        status, answer = server.get(path)
        assert (status, "the model has failed" in answer["error"]) == (503, True)
    assert server.metric("ready") == 0


def test_unknown_paths_and_methods(server):
    for path in ("/translate/", "/v1/models/default/versions/" + "9" * 5000):
        status, headers, _ = server.send("GET", path)
        assert (status, headers.get_content_type()) == (404, "application/json")
    assert server.get("/nothing") == (404, {"error": "Not Found"})
    status, headers, _ = server.send("GET", "/translate")
    assert (status, headers["Allow"]) == (405, "POST")


def test_metrics_count(start_server):
    server = start_server()
    server.post("/translate", {"texts": ["a", "b"]})
    server.post("/translate", {})
    assert server.metric("sentences_total") == 2
    assert server.metric("batch_sentences_sum") == 2
    assert server.metric("ready") == 1
    assert server.metric('requests_total{route="translate",status="200"}') == 1
    assert server.metric('requests_total{route="translate",status="400"}') == 1


def test_the_page_needs_nothing_from_elsewhere(server):
    for path, kind in (
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ):
        status, headers, body = server.send("GET", path)
        assert (status, headers.get_content_type()) == (200, kind)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        addresses = re.findall(rb"\w+://[^\s\"']+", body)
        assert set(addresses) <= {b"http://www.w3.org/2000/svg"}  # a name, not a link
