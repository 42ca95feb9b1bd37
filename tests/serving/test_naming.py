"""Names and languages that a server takes, and those that it refuses at once."""

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from keras_transformer.errors import InputError
from keras_transformer.serving.naming import parse_languages
from keras_transformer.serving.service import Service

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize("name", ["default", "en-de", "a.b_c-1", "büro"])
def test_a_name_that_a_path_can_hold(name):
    assert Service(engine=None, name=name).name == name


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "a b", "a?b", "a%2Fb", "a:b\n"])
def test_a_name_that_no_client_could_ask_for(name):
    with pytest.raises(InputError, match="does not fit into /v1/models/NAME; use"):
        Service(engine=None, name=name)


@pytest.mark.parametrize(
    ("codes", "pair"),
    [
        ("", (None, None)),
        ("en-de", ("en", "de")),
        ("EN-DE", ("EN", "DE")),
        ("zh-Hans-en", ("zh-Hans", "en")),
        ("en-zh-Hant-TW", ("en", "zh-Hant-TW")),
        ("pt-BR-es-419", ("pt-BR", "es-419")),
        ("eng_Latn-hin_Deva", ("eng_Latn", "hin_Deva")),
        ("english-german", ("english", "german")),
    ],
)
def test_two_languages(codes, pair):
    assert parse_languages(codes) == pair


@pytest.mark.parametrize(
    "codes", ["en", "en_de", "en-", "-de", "-", "en-de-fr", "zh-Hans", "en de", "e-d"]
)
def test_what_is_not_two_languages(codes):
    with pytest.raises(InputError, match=r"are not two codes; give source and target"):
        parse_languages(codes)
