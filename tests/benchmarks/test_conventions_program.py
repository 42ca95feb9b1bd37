"""The table of conventions has the figures of the runs behind it."""

import gzip
import json

import conventions
import pytest

pytestmark = pytest.mark.one_backend("torch")

CHANGES = [
    "model.hidden_dim=16",
    "model.intermediate_dim=24",
    "model.num_heads=2",
    "model.num_encoder_layers=1",
    "model.num_decoder_layers=1",
    "tokenizer.vocabulary_size=280",
    "data.batch_tokens=64",
    "training.steps=2",
    "training.warmup_steps=1",
    "training.validate_every=1",
    "decoding.max_length=6",
]


def write_text(folder):
    """The files of Multi30k, of a few lines."""
    for language in ("en", "de"):
        lines = "".join(f"{n} and {n + 1} {language}\n" for n in range(20))
        for part in ("val", "test_2016_flickr"):
            (folder / f"{part}.{language}").write_text(lines, encoding="utf-8")
        (folder / f"train.{language}.gz").write_bytes(gzip.compress(lines.encode()))


def test_a_row_has_the_last_figures_of_a_run(tmp_path, monkeypatch, capsys):
    write_text(tmp_path)
    arguments = ["marian", "--text", str(tmp_path), "--output", str(tmp_path / "runs")]
    changes = [word for change in CHANGES for word in ("--set", change)]
    monkeypatch.setattr("sys.argv", ["conventions.py", *arguments, *changes])
    conventions.main()
    shown = capsys.readouterr().out.splitlines()[-3:]
    heads, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in shown)
    figures = dict(zip(heads, row, strict=True))
    log = tmp_path / "runs" / "marian" / "logs" / "metrics.jsonl"
    last = json.loads(log.read_text("utf-8").splitlines()[-1])
    assert last["step"] == 2
    assert figures["conventions"] == "marian"
    assert float(figures["validation nll"]) == pytest.approx(last["val_nll"], abs=6e-4)
    assert float(figures["learning rate"]) == pytest.approx(
        last["learning_rate"], rel=5e-3
    )
    assert 0 <= float(figures["BLEU cased"]) <= float(figures["BLEU uncased"]) <= 100
