"""An imported model of many languages behind HTTP: the language of each text."""

import sys
from pathlib import Path

import keras
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")
sys.path.append(str(Path(__file__).parents[1] / "importing"))

import multilingual_folders

import keras_transformer as kt
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.loading import load_engine

pytestmark = [
    pytest.mark.one_backend("jax"),
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="once is enough"),
]

TEXT = "the cat sleeps under the old table"
SOURCE = {"source_language": "eng_Latn"}


def test_each_text_is_translated_into_its_language(start_server, tmp_path):
    foreign = multilingual_folders.write(tmp_path / "foreign", "NLLB", layers=1)
    kt.importing.convert(foreign, tmp_path / "model")
    limits = Limits(batch_size=1, answer_seconds=100)
    engine = load_engine(tmp_path / "model", limits)
    server = start_server(engine, limits, warm_up_tokens=0)
    translator = kt.Translator.load(tmp_path / "model")
    scores = []
    for target in ("deu_Latn", "fra_Latn"):
        codes = {**SOURCE, "target_language": target}
        request = {"text": TEXT, "beam_size": 1, "details": True, **codes}
        status, answer = server.post("/translate", request)
        assert status == 200, answer
        ((right,),) = translator.translate(
            [TEXT], beam_size=1, return_details=True, **codes
        )
        assert answer["translations"] == [right.text]
        scores.append(answer["details"][0][0]["score"])
        assert scores[-1] == pytest.approx(right.score, abs=1e-5)
    assert abs(scores[0] - scores[1]) > 1e-3
    status, answer = server.post("/translate", {"text": TEXT, **SOURCE})
    assert status == 400
    assert "give target_language" in answer["error"]
