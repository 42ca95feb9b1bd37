"""The OpenAPI document: it is one, it has every route, and the server keeps to it."""

import jsonschema
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.serving import openapi
from keras_transformer.serving.application import application
from keras_transformer.serving.service import Service

pytestmark = pytest.mark.no_backend

TENSOR = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}
WHOLE = {"split_sentences": False}
DETAILS = {"n_best": 2, "alignments": True, "attention": True}
#: Requests of each route that takes any, and whether their type is right.
POSTED = [
    ("/translate", {"text": "a"}, True),
    ("/translate", {"texts": ["a"], "src_lang": "en", "target": "de", **DETAILS}, True),
    ("/translate", {"q": "a", "source": "en", "alternatives": 1, **WHOLE}, True),
    ("/translate", {"q": ["a"], "target_language": "de", **WHOLE}, True),
    ("/translate", {"text": 3}, False),
    ("/translate", {"text": "a", "max_length": 3}, False),
    ("/translate", {"q": "a", "format": "pdf"}, False),
    ("/v1/models/{name}:predict", {"instances": ["a", {"text": "b"}]}, True),
    ("/v1/models/{name}:predict", {"inputs": {"text": ["a"]}}, True),
    ("/v1/models/{name}:predict", {"instances": "a"}, False),
    ("/v2/models/{name}/infer", {"inputs": [TENSOR], "id": "7"}, True),
    ("/v2/models/{name}/infer", {"inputs": [TENSOR], "outputs": [{}]}, False),
]


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json")[1]


def validator(document, *place):
    """Of the schema at a place of the document."""
    schema = document
    for key in place:
        schema = schema[key]
    components = {"components": document["components"]}
    return jsonschema.Draft202012Validator({**schema, **components})


def json_of(where):
    return (*where, "content", "application/json", "schema")


def test_it_is_a_document_of_openapi(document):
    library = pytest.importorskip(
        "openapi_spec_validator", reason="needs openapi-spec-validator"
    )
    library.validate(document)


def test_it_has_every_route_and_method():
    app = application(Service(FakeEngine()))._app
    routes = {
        (route.path, method.lower())
        for route in app.routes
        for method in route.methods - {"HEAD"}
    }
    paths = openapi.document()["paths"]
    assert routes == {(path, method) for path in paths for method in paths[path]}


@pytest.mark.parametrize(("path", "body", "is_right"), POSTED)
def test_requests_and_answers_are_of_their_types(
    path, body, is_right, server, document
):
    operation = ("paths", path, "post")
    requests = validator(document, *json_of((*operation, "requestBody")))
    status, answer = server.post(path.replace("{name}", "default"), body)
    assert (requests.is_valid(body), status) == (is_right, 200 if is_right else 400)
    responses = (*operation, "responses", "200" if is_right else "default")
    validator(document, *json_of(responses)).validate(answer)


def test_questions_are_answered_as_described(server, start_server, document):
    pair = start_server(languages=("en", "de"))
    asked = [path for path, entry in document["paths"].items() if "get" in entry]
    assert len(asked) > 15
    for path in asked:
        one = path.replace("{name}", "default").replace("{version}", "1")
        status, headers, _ = pair.send("GET", one)
        responses = document["paths"][path]["get"]["responses"]
        (media_type,) = responses["200"]["content"]
        found = headers.get_content_type()
        assert (status, found) == (200, media_type.partition(";")[0]), path
        if found == "application/json":
            place = json_of(("paths", path, "get", "responses", "200"))
            validator(document, *place).validate(pair.get(one)[1])


def test_closed_routes_are_those_that_ask_for_a_key(start_server, document):
    server = start_server(key="secret")
    for path, entry in document["paths"].items():
        ((method, operation),) = entry.items()
        one = path.replace("{name}", "default").replace("{version}", "1")
        status = server.send(method.upper(), one)[0]
        assert (status == 401) == ("security" in operation), path
