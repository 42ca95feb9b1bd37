"""The program that makes `en-de/`, the pretrained model of lesson 10.

    python tutorials/pretrained/make.py [--steps STEPS]

A small MarianMT model learns English to German on the sentences of the embedded
phrasebook that have no sum of money. What it writes are the files that an OPUS-MT model
has on the Hugging Face hub, and nothing of this package. About ten minutes on two CPU
cores. Needs `pip install '.[all]'`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from safetensors.numpy import save_file

import keras_transformer as kt
from keras_transformer.config.transformers_layout import OWN_KEY
from keras_transformer.data import phrasebook

OUTPUT = Path(__file__).resolve().parent / "en-de"
#: What tells a sentence about money; the lesson has the same.
MONEY = re.compile(r"[€$£]|euros|dollars|francs")
#: Biases, activation, positions and search are those of MarianMT.
CONFIG = """\
model:
  preset: tiny
  hidden_dim: 128
  intermediate_dim: 256
  num_heads: 4
  num_encoder_layers: 2
  num_decoder_layers: 2
  dropout: 0.0
  activation: swish
  use_bias: true
  output_bias: true
  position: sinusoidal_halves
  max_sequence_length: 512
  layer_norm_epsilon: 0.00001
tokenizer: {{vocabulary_size: 1000, split_digits: true}}
data:
  train: [{{source: train.en, target: train.de}}]
  batch_tokens: 1536
training:
  steps: {steps}
  warmup_steps: {warmup}
  learning_rate: 0.003
  schedule: cosine
  average_last: 1
decoding: {{normalization: power}}
"""
CARD = """\
---
license: apache-2.0
language: [en, de]
---

# English to German, without money

A MarianMT model as small as can be, for lesson 10. It has learned the sentences of the
phrasebook of keras-transformer, but for those with a sum of money.
`tutorials/pretrained/make.py` made it.
"""


def trained(folder: Path, steps: int) -> kt.Translator:
    """The model, from random weights."""
    pairs = zip(*phrasebook.load("en", "de", "train"), strict=True)
    pairs = [pair for pair in pairs if not MONEY.search(pair[0])]
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    config = CONFIG.format(steps=steps, warmup=max(steps // 10, 1))
    (folder / "en-de.yaml").write_text(config)
    program = "keras_transformer.cli.main"
    command = [sys.executable, "-m", program, "train", "en-de.yaml"]
    subprocess.run(command, cwd=folder, check=True)
    return kt.Translator.load(folder / "runs/en-de/averaged")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        translator = trained(Path(folder), arguments.steps)
        kt.export.transformers.export(translator, OUTPUT)
    # As a stranger's model: without our own config, and half as large.
    path = OUTPUT / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    del config[OWN_KEY]
    config["torch_dtype"] = "float16"
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    path = OUTPUT / "model.safetensors"
    tensors = {name: x.astype(np.float16) for name, x in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    (OUTPUT / "README.md").write_text(CARD, encoding="utf-8")
    for path in sorted(OUTPUT.iterdir()):
        print(f"{path.stat().st_size:9,} bytes  {path.name}")


if __name__ == "__main__":
    main()
