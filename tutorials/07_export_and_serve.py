# %% [markdown]
# # Lesson 7: export and serve
#
# A trained model goes where its users are: as a SavedModel for TensorFlow and TF
# Serving, as ONNX for ONNX Runtime, as a CTranslate2 model for C++. None of the three
# needs Keras or this package where it runs.
#
# What to expect: a small model is trained and exported three times; programs without
# Keras translate the test sentences, and each gives the text that Keras gives. Requests
# to TF Serving are built and answered, by gRPC and by REST. About ten minutes on two
# CPU cores; `TUTORIAL_FAST=1` makes it about one, with a model that has learned little.
#
# In a clone of the repository: `pip install '.[all]'`.

# %%
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt

from keras_transformer.data import phrasebook

FAST = bool(os.environ.get("TUTORIAL_FAST"))
FRAMEWORKS = re.compile(r"WARNING: All log|normalizer|[IWE]\d{4} ")  # their greetings


def start(command, backend=None):
    """A command of this package as a process; shown as one would type it."""
    variables = {"KERAS_BACKEND": backend} if backend else {}
    print("$", *(f"{name}={value}" for name, value in variables.items()), command)
    return subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.cli.main", *shlex.split(command)[1:]],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def run(command, backend=None):
    """Runs it to its end, and shows what it says."""
    process = start(command, backend)
    messages, _ = process.communicate()
    print(*(x for x in messages.splitlines() if not FRAMEWORKS.match(x)), sep="\n")
    assert process.returncode == 0


def python(*arguments, lines=""):
    """What another Python program prints; `lines` are its standard input."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=lines,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# %% [markdown]
# ## A model
#
# Lesson 4 in a few lines. The run translates the test text at its end, here by greedy
# search: that is what all exports will be held against.

# %%
SIZES = {"train": 32, "validation": 2, "test": 4}
for part, size in SIZES.items():
    pairs = list(zip(*phrasebook.load("en", "de", part), strict=True))
    if FAST:  # of about one length, so that they fill a batch of one shape
        pairs = dict.fromkeys(pairs)
        pairs = sorted(pairs, key=lambda pair: abs(len(pair[1]) - 40))[:size]
    elif part != "train":
        pairs = pairs[:200]
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        Path(f"{part}.{language}").write_text(text, encoding="utf-8")

D, LAYERS, V, STEPS = (32, 1, 360, 120) if FAST else (128, 2, 3000, 1600)
CONFIG = f"""\
model:
  preset: tiny
  hidden_dim: {D}
  intermediate_dim: {2 * D}
  num_encoder_layers: {LAYERS}
  num_decoder_layers: {LAYERS}
  normalize_first: true
  dropout: 0.0
tokenizer: {{vocabulary_size: {V}, split_digits: true}}
data:
  train: [{{source: train.en, target: train.de}}]
  test: {{source: test.en, target: test.de}}
  batch_tokens: {2048 if FAST else 1536}
training:
  steps: {STEPS}
  warmup_steps: {STEPS // 7}
  learning_rate: 0.005
  schedule: cosine
  average_last: 1
decoding: {{beam_size: 1}}
output: runs/en-de
"""
Path("en-de.yaml").write_text(CONFIG)
run("keras-transformer train en-de.yaml")

MODEL = "runs/en-de/averaged"
source = Path("test.en").read_text(encoding="utf-8")
sources = source.splitlines()
hypotheses = Path("runs/en-de/test.hypotheses.txt").read_text(encoding="utf-8")
expected = hypotheses.splitlines()
assert len(expected) == len(sources)

# %% [markdown]
# ## Three exports
#
# TensorFlow writes SavedModel and ONNX. On JAX or PyTorch the command starts a process
# with TensorFlow by itself; here that way is cut short. CTranslate2 is filled from the
# weights on any backend.

# %%
FORMATS = {"saved_model": "tensorflow", "onnx": "tensorflow", "ctranslate2": None}
for name, backend in FORMATS.items():
    output = f"--format {name} --output exports/{name}"
    if name == "saved_model":  # its card shows the first
        output += " --examples test.en"
    run(f"keras-transformer export {MODEL} {output}", backend)

for path in sorted(Path("exports").glob("*/*")):
    print(path)

# %% [markdown]
# ## SavedModel, without Keras
#
# Strings go in and come out: tokenizer, search and weights are in the graph. What it
# needs besides TensorFlow are the operations of TensorFlow Text, which TF Serving has
# linked in, and which a program of one's own loads. The first lines of this one see to
# it that neither Keras nor this package can be imported.
#
# The program below also stands in for TF Serving: a gRPC server with its interface,
# `PredictionService`, over the same signatures. What the client sends it is what it
# would send to `tensorflow/serving`, in whose place it answers.

# %%
WITHOUT_KERAS = """
import sys

sys.modules["keras"] = sys.modules["keras_transformer"] = None

import importlib.util
import json
from concurrent import futures
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc

text = Path(importlib.util.find_spec("tensorflow_text").origin).parent
tf.load_op_library(str(text / "python/ops/_sentencepiece_tokenizer.so"))
signatures = tf.saved_model.load("exports/saved_model/1").signatures
lines = sys.stdin.read().splitlines()


def texts(tensor):
    return [text.decode() for text in tensor]


# The graph, called.
answer = signatures["translate_greedy"](text=tf.constant(lines))
called = texts(answer["translation"].numpy())


# The graph, served.
class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
    def Predict(self, request, context):
        signature = signatures[request.model_spec.signature_name]
        inputs = {name: tf.make_ndarray(x) for name, x in request.inputs.items()}
        answer = signature(**{name: tf.constant(x) for name, x in inputs.items()})
        response = predict_pb2.PredictResponse()
        for name, tensor in answer.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor.numpy()))
        return response


server = grpc.server(futures.ThreadPoolExecutor(1))
prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
address = f"localhost:{server.add_insecure_port('localhost:0')}"
server.start()

# The client, as it talks to TF Serving on port 8500.
request = predict_pb2.PredictRequest()
request.model_spec.name = "en-de"
request.model_spec.signature_name = "translate_greedy"
request.inputs["text"].CopyFrom(tf.make_tensor_proto(lines[:1]))
with grpc.insecure_channel(address) as channel:
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    response = service.Predict(request, timeout=60)
server.stop(None)

served = texts(response.outputs["translation"].string_val)
print(json.dumps({"called": called, "request": str(request), "served": served}))
"""
answer = json.loads(python("-c", WITHOUT_KERAS, lines=source).splitlines()[-1])
found = {"saved_model": answer["called"]}
print(answer["request"])
print(*answer["served"])
assert answer["served"] == expected[:1]

# %% [markdown]
# TF Serving itself takes the folder as it is; the card in it, `README.md`, has these
# lines with the right names, to be run in `exports`:

# %%
card = Path("exports/saved_model/README.md").read_text(encoding="utf-8")
print(card[card.index("docker run") : card.index("The same by gRPC")])

# %% [markdown]
# ## ONNX
#
# An encoder, run once, and a step of the decoder, run once for a position. The loop
# around them is a small program beside the files, in NumPy; `model.json` says in words
# what it does, for any other language.

# %%
translate = ["exports/onnx/translate.py", "--beam-size", "1"]
print("$ python", *translate, "< test.en")
found["onnx"] = python(*translate, lines=source).splitlines()
print(*found["onnx"][:2], sep="\n")

# %% [markdown]
# ## CTranslate2
#
# The fastest of them on CPUs: the whole search runs in C++.

# %%
translate = ["exports/ctranslate2/translate.py", "--beam-size", "1"]
print("$ python", *translate, "< test.en")
found["ctranslate2"] = python(*translate, lines=source).splitlines()
print(*found["ctranslate2"][:2], sep="\n")

# %% [markdown]
# ## The same translations

# %%
megabytes = {}
for name, lines in found.items():
    files = [path for path in Path("exports", name).rglob("*") if path.is_file()]
    megabytes[name] = sum(path.stat().st_size for path in files) / 1e6
    same = sum(line == right for line, right in zip(lines, expected, strict=True))
    print(f"{name:12} {megabytes[name]:6.2f} MB   {same} of {len(expected)} the same")
    # Where two words are equally likely but for rounding, either is right.
    assert same == len(expected) if FAST else same >= 0.99 * len(expected)

weights = Path(MODEL, "model.weights.h5").stat().st_size / 1e6
figure, axes = plt.subplots(figsize=(7, 2.4))
axes.barh(list(megabytes), list(megabytes.values()))
axes.axvline(weights, color="gray", linestyle=":", label="the weights alone")
axes.invert_yaxis()
axes.set(xlabel="MB")
axes.legend()
figure.tight_layout()
figure.savefig("lesson_7_sizes.png")

# %% [markdown]
# ## REST
#
# `keras-transformer serve` speaks TF Serving's REST interface: a client of the three
# signatures that translate text moves between the two unchanged. Only a line that is
# too long differs: TF Serving cuts and marks it, `serve` refuses it. `serve` takes a
# model folder, or as here the CTranslate2 export, for which it needs neither Keras nor
# a backend.

# %%
server = start("keras-transformer serve exports/ctranslate2 --port 0 --name en-de")
for message in server.stdout:
    print(message, end="")
    if ready := re.search(r"ready after .* (http://\S+)", message):
        break
body = json.dumps({"signature_name": "translate_greedy", "instances": sources[:1]})
print(f"\nPOST {ready[1]}v1/models/en-de:predict\n{body}")
url = f"{ready[1]}v1/models/en-de:predict"
with urllib.request.urlopen(url, data=body.encode()) as response:
    answer = json.load(response)
print(json.dumps(answer, indent=1, ensure_ascii=False))
server.send_signal(signal.SIGTERM)
server.communicate()
assert [each["translation"] for each in answer["predictions"]] == expected[:1]

# %% [markdown]
# How fast each of them is, what int8 costs and where LiteRT stands is measured in
# `tutorials/deployment/README.md`; how CTranslate2's beam search differs, too.

# %% [markdown]
# ## What was seen
#
# * One model goes out in three formats, and none needs Keras where it runs.
# * Each gives the text that Keras gives.
# * TF Serving's requests are answered by gRPC, and by `serve` over REST.
#
# ## Exercise
#
# Export to LiteRT as well, with `--quantization float16`, and run the `translate.py`
# beside it. How large is the file, and how many of the texts are the same? Then export
# ONNX with `--quantization int8`, and score both with `keras-transformer compare`.
