"""Names and languages that a server takes, and those that it refuses at once."""

from pathlib import Path

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra serve")

from fake_engine import FakeEngine

from keras_transformer.config.about import About
from keras_transformer.errors import InputError
from keras_transformer.serving.naming import model_name
from keras_transformer.serving.naming import parse_languages
from keras_transformer.serving.service import Service

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize("name", ["default", "en-de", "a.b_c-1", "büro"])
def test_a_name_that_a_path_can_hold(name):
    assert Service(FakeEngine(), name=name).name == name


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "a b", "a?b", "a%2Fb", "a:b\n"])
def test_a_name_that_no_client_could_ask_for(name):
    with pytest.raises(InputError, match="does not fit into /v1/models/NAME; use"):
        Service(FakeEngine(), name=name)


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


@pytest.mark.parametrize(
    ("name", "folder", "right"),
    [
        (None, "runs/long/averaged", "long"),
        (None, "runs/long/best", "long"),
        (None, "models/en-de", "en-de"),
        (None, "averaged", "averaged"),
        (None, "my model (2)", "my-model-2"),
        (None, "...", "model"),
        ("phrase book", "models/en-de", "phrase-book"),
        ("/", "models/en-de", "en-de"),
    ],
)
def test_a_model_has_its_own_name_or_its_folders(name, folder, right, tmp_path):
    path = Path("/" if folder == "averaged" else tmp_path) / folder
    assert model_name(About(name=name), path) == right
