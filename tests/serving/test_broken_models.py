"""Models that compute no numbers: the server says so, and is to blame."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

pytestmark = pytest.mark.no_backend


def test_a_model_of_no_numbers_is_500_and_says_so(server):
    for path, body in (
        ("/translate", {"texts": ["a", "nan", "b"]}),
        ("/v1/models/default:predict", {"instances": ["nan"]}),
    ):
        status, answer = server.post(path, body)
        assert status == 500
        assert "scores that are NaN" in answer["error"]
    assert server.lives()
