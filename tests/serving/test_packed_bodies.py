"""Bodies in gzip: what is unpacked, and what is refused."""

import gzip
import json

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "x-gzip"])
def test_a_body_in_gzip_is_unpacked(encoding, server):
    request = {"texts": ["a b", "ä" * 3000]}
    packed = gzip.compress(json.dumps(request).encode())
    assert len(packed) < 200
    answer = {"translations": ["A B", "Ä" * 3000]}
    headers = {"Content_Encoding": encoding}
    assert server.post("/translate", packed, **headers) == (200, answer)
    parts = [gzip.compress(part) for part in (b'{"text":', b"", b'"a"}')]
    many = b"".join(
        gzip.compress(bytes([byte])) for byte in json.dumps(request).encode()
    )
    assert server.post("/translate", many, **headers) == (200, answer)
    for path, right in (("/translate", 200), ("/v1/models/default:predict", 400)):
        assert server.post(path, b"".join(parts), **headers)[0] == right
    assert server.post("/translate", {"text": "a"}, Content_Encoding="identity") == (
        200,
        {"translations": ["A"]},
    )


def test_a_body_in_gzip_has_the_limits_of_any_other(server):
    limit = server.service.limits.body_bytes
    bomb = gzip.compress(bytes(2**28))
    whole = gzip.compress(b'{"text": "a"}')
    headers = {"Content_Encoding": "gzip"}
    for body, status, message in (
        (gzip.compress(b" " * (limit + 1)), 413, f"larger than {limit} bytes"),
        (gzip.compress(b" " * limit) + whole, 413, f"larger than {limit} bytes"),
        (bomb, 413, f"larger than {limit} bytes"),
        (whole[:-1], 400, "gzip data is truncated"),
        (whole + b"more", 400, "is not gzip"),
        (b'{"text": "a"}', 400, "is not gzip"),
        (b"", 400, "is not JSON"),
    ):
        found, answer = server.post("/translate", body, **headers)
        assert (found, message in answer["error"]) == (status, True), answer
    status, answer = server.post("/translate", whole, Content_Encoding="br")
    assert (status, "send gzip or none" in answer["error"]) == (415, True)
    assert server.lives()
