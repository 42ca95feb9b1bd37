"""Every format on the same real sentences: seconds, size, BLEU, and which texts differ.

    python benchmarks/exports.py MODEL --source F --reference F [--formats ...]

Prints a table. Each format translates in a process of its own, greedily and with a
beam, once to warm up and `--repeats` times more, of which the median counts. Seconds of
the processors, over all threads, hardly depend on what else the machine does. Texts are
compared with those of `Translator` on the first backend; exits with 1 where one in
float32 differs though its score is not within 1e-4, or more than 2 in 1000 differ, or
where CTranslate2 gives a reference another log-probability, by more than 1e-3.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")
FORMATS = {
    "saved_model": [None],
    "onnx": [None, "int8"],
    "litert": [None, "float16", "int8"],
    "ctranslate2": [None, "float16", "int8_float32", "int8"],
}
METRIC = "bleu"
_MOST_APART = 1e-3  # of log-probabilities of whole sentences

EXPORT = """
import importlib, json, sys
from keras_transformer.translator import Translator
form, model, output, options = json.loads(sys.argv[1])
module = importlib.import_module(f"keras_transformer.export.{form}")
print(json.dumps(str(module.export(Translator.load(model), output, **options))))
"""

#: Each defines `translate(lines, beam_size)`.
USES = {
    "translator": """
from keras_transformer.translator import Translator
translate = Translator.load(folder).translate
def translate(lines, beam_size, translate=translate):
    return translate(lines, beam_size=beam_size)
""",
    "saved_model": """
import importlib.util
from pathlib import Path
import tensorflow as tf
text = Path(importlib.util.find_spec("tensorflow_text").origin).parent
tf.load_op_library(str(text / "python" / "ops" / "_sentencepiece_tokenizer.so"))
signatures = tf.saved_model.load(folder).signatures
def translate(lines, beam_size):
    name = "translate_greedy" if beam_size == 1 else "serving_default"
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    found = [""] * len(lines)
    for first in range(0, len(order), 64):
        rows = order[first : first + 64]
        result = signatures[name](text=tf.constant([lines[i] for i in rows]))
        for row, text in zip(rows, result["translation"].numpy()):
            found[row] = text.decode()
    return found
""",
    "program": """
sys.path.insert(0, folder)
from translate import Translator
translate = Translator(folder, threads=threads).translate
""",
}
RUN = """
import json, statistics, sys, time
folder, path, beam_size, repeats, threads = json.loads(sys.argv[1])
{use}
lines = open(path, encoding="utf-8").read().split("\\n")[:-1]
seconds, busy = [], []
for _ in range(1 + repeats):
    start, begun = time.perf_counter(), time.process_time()
    found = translate(lines, beam_size)
    seconds.append(time.perf_counter() - start)
    busy.append(time.process_time() - begun)
later = [statistics.median(times[1:] or times) for times in (seconds, busy)]
print(json.dumps([found, seconds[0], *later]))
"""


#: Log-probabilities of given translations, by CTranslate2.
SCORE = """
import json, sys
folder, source, reference = json.loads(sys.argv[1])
sys.path.insert(0, folder)
from translate import Translator
translator = Translator(folder)
end = [translator.description["ids"]["end"]]
pairs = (
    (translator.source, source, end * translator.description["source_end"]),
    (translator.target, reference, end),
)
ids = []
for tokenizer, path, last in pairs:
    lines = open(path, encoding="utf-8").read().split("\\n")[:-1]
    ids.append([tokenizer.encode(line) + last for line in lines])
print(json.dumps(translator.engine.score(*ids)))
"""


def in_process(code, arguments, backend="tensorflow", threads=0):
    """What the code prints last, as JSON, from a fresh process."""
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    if threads:
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        environment |= dict.fromkeys(names, str(threads))
    if threads == 1:  # JAX has all processors or one
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        sys.exit(f"exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def size_of(folder):
    """Bytes of the files of a model, without its programs and texts."""
    kinds = (".py", ".md", "README.md", "model.json")
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return sum(f.stat().st_size for f in files if not f.name.endswith(kinds))


def candidates(model, backends, names, folder, beam_size):
    """Name, use, folder, backend and whether it must be exact, of what is measured.

    A SavedModel has greedy search and one of `beam_size`.
    """
    for backend in backends:
        yield f"Translator, {backend}", "translator", str(model), backend, True
    for name in names:
        for quantization in FORMATS[name]:
            output = str(Path(folder) / f"{name}-{quantization or 'float32'}")
            options = {"quantization": quantization}
            if name == "saved_model":
                options = {"beam_size": beam_size}
            path = in_process(EXPORT, [name, str(model), output, options])
            use = "saved_model" if name == "saved_model" else "program"
            full = f"{name} {quantization or 'float32'}"
            yield full, use, path, "tensorflow", quantization is None


def measure(arguments, beam_size):
    """Prints a row for each candidate; returns the texts of those in float32."""
    from keras_transformer.evaluation import evaluate

    references = arguments.reference.read_text("utf-8").split("\n")[:-1]
    print(f"\nbeam size {beam_size}\n")
    print("| format | first | seconds | processors | MB | BLEU | identical texts |")
    print("|---|---|---|---|---|---|---|")
    exact, ours, bleu = {}, None, None
    for name, use, folder, backend, full in arguments.candidates:
        task = [folder, str(arguments.source), beam_size]
        task += [arguments.repeats, arguments.threads]
        code = RUN.format(use=USES[use])
        found, first, seconds, busy = in_process(code, task, backend, arguments.threads)
        ours = found if ours is None else ours
        (bleu,) = evaluate(
            found, references, metrics=[METRIC], tokenize=arguments.tokenize
        )
        same = sum(a == b for a, b in zip(ours, found, strict=True))
        if full and not (beam_size > 1 and name.startswith("ctranslate2")):
            exact[name] = found  # CTranslate2's beam search has rules of its own
        size = size_of(folder) / 1e6
        print(
            f"| {name} | {first:.2f} | {seconds:.2f} | {busy:.2f} | {size:.2f} "
            f"| {bleu.score:.2f} | {same} of {len(ours)} |",
            flush=True,
        )
    print(f"\n{bleu.signature}")
    return exact


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    parser.add_argument("--formats", nargs="*", default=list(FORMATS))
    parser.add_argument("--beam-sizes", nargs="*", type=int, default=[1, 4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokenize", default="13a", help="of BLEU; none: it is done")
    parser.add_argument("--threads", type=int, default=0, help="0: as each likes")
    arguments = parser.parse_args()
    wide = [size for size in arguments.beam_sizes if size > 1]
    if len(wide) > 1 and "saved_model" in arguments.formats:
        parser.error("--beam-sizes: a SavedModel has one above 1; give no more")
    lines = arguments.source.read_text("utf-8").split("\n")[:-1]
    with tempfile.TemporaryDirectory() as folder:
        arguments.candidates = list(
            candidates(
                arguments.model,
                arguments.backends,
                arguments.formats,
                folder,
                wide[0] if wide else None,
            )
        )
        good = True
        for beam_size in arguments.beam_sizes:
            exact = measure(arguments, beam_size)
            good &= tell_differences(arguments.model, lines, exact)
        good &= scores_agree(arguments)
    return 0 if good else 1


def scores_agree(arguments):
    """Whether CTranslate2 and `Translator` say the same of the references."""
    from keras_transformer.translator import Translator

    paths = (arguments.source, arguments.reference)
    texts = (path.read_text("utf-8").split("\n")[:-1] for path in paths)
    ours, good = None, True
    for name, _, folder, _, full in arguments.candidates:
        if full and name.startswith("ctranslate2"):
            ours = ours or Translator.load(arguments.model).score(*texts)
            theirs = in_process(SCORE, [folder, *map(str, paths)])
            pairs = zip(ours, theirs, strict=True)
            apart = max(abs(a.log_probability - b) for a, b in pairs)
            print(f"\n{name}: log-probabilities of the references within {apart:.1e}")
            good &= apart <= _MOST_APART
    return good


def tell_differences(model, lines, exact):
    """How close the choice was, for each text in float32 that differs; whether it was.

    The two texts are scored by the model itself. Under greedy search only the tokens
    must be close where they part: such a line is for a person to look at.
    """
    names = list(exact)
    ours = exact[names[0]]
    rows = [
        (name, i)
        for name in names[1:]
        for i, (a, b) in enumerate(zip(ours, exact[name], strict=True))
        if a != b
    ]
    if not rows:
        return True
    from keras_transformer.translator import Translator

    translator = Translator.load(model)
    alpha = translator.length_penalty
    sources = [lines[i] for _, i in rows]
    texts = [[exact[name][i] for name, i in rows], [ours[i] for _, i in rows]]
    theirs, own = (translator.score(sources, side) for side in texts)
    print("\n| format | line | score of `Translator`'s text | of its own |")
    print("|---|---|---|---|")
    good = all(
        sum(name == other for other, _ in rows) <= 0.002 * len(ours) for name in names
    )
    for (name, i), *pair in zip(rows, own, theirs, strict=True):
        a, b = (s.log_probability / ((5 + s.num_tokens) / 6) ** alpha for s in pair)
        good &= abs(a - b) <= 1e-4
        print(f"| {name} | {i + 1} | {a:.6f} | {b:.6f} |")
    return good


if __name__ == "__main__":
    sys.exit(main())
