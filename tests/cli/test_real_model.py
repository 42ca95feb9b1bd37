"""The commands with a real model folder: tiny, of random weights."""

import importlib.util
import json

import numpy as np
import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.models import Transformer
from keras_transformer.translator import Translator
from reference import configs

LINES = ["a house", "", "ein Haus a house", "Haus"]


@pytest.fixture(scope="module")
def translator():
    tokenizer = Tokenizer.train(["ein Haus a house"] * 9, 270)
    config = configs.tiny(vocabulary_size=270)
    return Translator(Transformer(config), tokenizer, beam_size=2)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "random"
    translator.save(path)
    return path


@pytest.mark.one_backend
def test_translate_gives_what_the_library_gives(folder, translator, invoke):
    options = ["--format", "jsonl", "--top-beams", 2]
    result = invoke("translate", folder, *options, input="\n".join(LINES))
    expected = translator.translate(LINES, top_beams=2, return_details=True)
    rows = [json.loads(line) for line in result.stdout.strip().split("\n")]
    assert [row["source"] for row in rows] == LINES
    for row, hypotheses in zip(rows, expected, strict=True):
        assert [h["text"] for h in row["hypotheses"]] == [h.text for h in hypotheses]
        assert [h["score"] for h in row["hypotheses"]] == pytest.approx(
            [h.score for h in hypotheses], abs=1e-5
        )


@pytest.mark.one_backend
def test_attention_is_the_mean_of_layers_and_heads(folder, translator, invoke):
    options = ["--format", "jsonl", "--attention"]
    result = invoke("translate", folder, *options, input="\n".join(LINES))
    expected = translator.translate(
        LINES, return_details=True, return_attention_weights=True
    )
    rows = [json.loads(line) for line in result.stdout.strip().split("\n")]
    for row, (best,) in zip(rows, expected, strict=True):
        (found,) = row["hypotheses"]
        assert found["source_tokens"] == best.source_tokens
        if row["source"]:
            T, S = len(best.ids), len(best.source_tokens)
            assert best.source_tokens[-1] == "</s>"
            mean = best.attention["cross"].mean((0, 1))
            assert np.shape(found["attention"]) == mean.shape == (T, S)
            np.testing.assert_allclose(found["attention"], mean, atol=1e-4)
        else:
            assert found["attention"] == found["source_tokens"] == []


@pytest.mark.one_backend
def test_score_gives_what_the_library_gives(folder, translator, invoke, tmp_path):
    files = tmp_path / "source", tmp_path / "target"
    for file, lines in zip(files, (LINES, LINES[::-1]), strict=True):
        file.write_text("\n".join(lines) + "\n")
    result = invoke("score", folder, "--source", files[0], "--target", files[1])
    expected = translator.score(LINES, LINES[::-1])
    assert list(map(float, result.stdout.split())) == pytest.approx(
        [score.log_probability for score in expected], abs=1e-4
    )


@pytest.mark.one_backend
def test_info_names_the_weights(folder, translator, invoke):
    lines = invoke("info", folder).stdout.splitlines()
    assert f"weights: {translator.model.config.num_weights}" in lines
    assert "beam size: 2" in lines


@pytest.mark.no_tensorflow
@pytest.mark.skipif(
    not (importlib.util.find_spec("jax") or importlib.util.find_spec("torch")),
    reason="needs JAX or PyTorch",
)
def test_without_tensorflow_another_backend_runs(folder, run_python, tmp_path):
    output = run_python(
        ["-m", "keras_transformer.cli.main", "info", str(folder)],
        block=("tensorflow",),
        env={"KERAS_BACKEND": "", "KERAS_HOME": str(tmp_path)},
    )
    assert output.startswith("kind: transformer\nweights: ")
