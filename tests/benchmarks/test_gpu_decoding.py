"""`gpu/decoding.py` and its peers at toy size, and how its batches are cut."""

import importlib.util
import json

import pytest
from gpu import decoding
from peers.batches import by_length

from keras_transformer.data import phrasebook


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_tables_of_decoding(run_benchmark, ours):
    arguments = ["--size", "toy", "--batch", 4, "--sentences", 6, "--rounds", 2]
    arguments += ["--seconds", 0, "--only", ours]
    output, found = run_benchmark("gpu.decoding", *arguments, "--beam", 2)
    (numbers,) = found["rounds"]["batch 4, beam 2"].values()
    assert f"| {ours} |" in output
    for row in numbers:
        assert row["sentences"] == 6 and row["tokens"] % (16 * 2) == 0
        assert row["tokens_per_second"] > 0


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "programs"),
    [
        ("ctranslate2", ["CTranslate2, float32"]),
        ("transformers", ["Hugging Face Marian", "Hugging Face Marian compiled"]),
    ],
)
def test_peers_decode(run_benchmark, tmp_path, module, programs):
    if not importlib.util.find_spec(module):
        pytest.skip(f"needs {module}, of benchmarks/requirements.txt")
    lines = phrasebook.load("de", "fr", "test")[0]
    (tmp_path / "text.de").write_text("\n".join(lines), encoding="utf-8")
    arguments = ["--size", "toy", "--batch", 4, "--sentences", 6, "--rounds", 1]
    arguments += ["--seconds", 0, "--float32", "--source", tmp_path / "text.de"]
    output, found = run_benchmark("gpu.decoding", *arguments, "--only", programs[0])
    greedy, beam = (found["rounds"][f"batch 4, beam {size}"] for size in (1, 4))
    assert list(greedy) == programs and list(beam) == programs[:1]
    for row in (*greedy.values(), *beam.values()):
        assert row[0]["sentences"] == 6 and row[0]["tokens_per_second"] > 0
    assert f"| {programs[0]} |" in output


@pytest.mark.no_backend
def test_rounds_of_another_card_are_not_gone_on_with(tmp_path, monkeypatch):
    path = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["decoding", "--json", str(path)])
    found = {
        "benchmark": "decoding",
        "settings": {
            "preset": "base",
            "vocabulary_size": 37_000,
            "sentences": 1000,
            "bfloat16": True,
            "source": None,
            "tokenizer": None,
        },
        "machine": {**decoding.Machine().facts, "device": "NVIDIA L4"},
    }
    path.write_text(json.dumps({**found, "rounds": {}}))
    with pytest.raises(SystemExit, match="device NVIDIA L4, here "):
        decoding.main()


@pytest.mark.no_backend
def test_batches_are_of_similar_length():
    sentences = [[5] * length for length in (3, 40, 17, 16, 2)]
    found = by_length(sentences, 2, most=9)
    sizes = [([len(row) for row in rows], length) for rows, length in found]
    assert sizes == [([40, 17], 64), ([16, 3], 16), ([2], 16)]


@pytest.mark.no_backend
def test_few_batches_are_spread_over_all_lengths():
    sentences = [[5] * length for length in range(1, 101)]
    found = by_length(sentences, 1, most=4)
    assert [len(rows[0]) for rows, _ in found] == [100, 75, 50, 25]
