"""Folders changed at random: each loads, or is refused with one clear line."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
FILES = ("config.json", "model.weights.h5", "tokenizer.model")
EXPORT = (
    *("model.bin", "model.json", "config.json"),
    *("shared_vocabulary.json", "tokenizer.model"),
)
LOAD = """
import keras_transformer as kt
load = kt.Translator.load
"""
#: The library may write to standard error in C++; what it does is seen by its end.
LOAD_EXPORT = """
from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits

def load(folder):
    engine = CTranslate2Engine(folder, Limits())
    engine.translate(["a b", "c"], Options(engine.beam_size, attention=True))
"""

FUZZ = """
import random, resource, sys, time
from pathlib import Path
from keras_transformer.errors import InputError
{load}
folder, fixture = Path({folder!r}), Path({fixture!r})
files = {{name: (fixture / name).read_bytes() for name in {files!r}}}
load(fixture)  # what is loaded on first use, is
random = random.Random({seed})
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
forbidden = []

def watch(event, arguments):
    if event in {{"pickle.find_class", "subprocess.Popen", "os.system", "os.exec"}}:
        forbidden.append((event, arguments))
    if event == "open" and isinstance(arguments[0], (str, Path)):
        path = Path(arguments[0]).resolve()
        if not path.is_relative_to(folder.resolve()):
            forbidden.append((event, arguments))

def flip(content):
    content = bytearray(content)
    for _ in range(random.choice([1, 1, 4, 64])):
        # Half of them where a format keeps its own facts.
        end = len(content) if random.random() < 0.5 else min(len(content), 4096)
        content[random.randrange(end)] = random.choice([0, 1, 127, 255, 9, 57, 45])
    return content

def cut(content):
    return content[: random.randrange(len(content))]

def repeat(content):
    at, size = random.randrange(len(content)), random.randrange(1, 64)
    times = random.randrange(2, 9)
    return content[:at] + content[at : at + size] * times + content[at:]

def drop(content):
    at = random.randrange(len(content))
    return content[:at] + content[at + random.randrange(1, 64) :]

def other_numbers(content):
    if b"{{" not in content[:1]:
        return flip(content)
    digits = b"0123456789"
    at = random.choice([i for i, byte in enumerate(content) if byte in digits])
    value = random.choice([b"-1", b"0", b"1e9", b"99999999999", b"0.5", b"null", b"[]"])
    return content[:at] + value + content[at + 1 :]

ends = {{True: 0, False: 0}}
stop = time.monotonic() + {seconds}
sys.addaudithook(watch)
while time.monotonic() < stop and sum(ends.values()) < 2000:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for _ in range(random.choice([1, 1, 2])):
        name = random.choice([*files])
        change = random.choice([flip, cut, repeat, drop, other_numbers])
        (folder / name).write_bytes(change(files[name]))
    try:
        load(folder)
        ends[True] += 1
    except InputError as error:
        assert "\\n" not in str(error), error
        ends[False] += 1
    except BaseException:
        print("changed:", name, change.__name__, file=sys.stderr)
        raise
assert not forbidden, forbidden[:3]
growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin  # KiB
assert growth < 512 * 1024, growth
print(ends[True], ends[False])
"""


@pytest.mark.one_backend
def test_folders_changed_at_random_load_or_are_refused(tmp_path, run_python):
    fuzz(run_python, tmp_path, FOLDER, FILES, LOAD)


@pytest.mark.one_backend
@pytest.mark.export
def test_exports_changed_at_random_load_or_are_refused(tmp_path, run_python):
    pytest.importorskip("ctranslate2")
    pytest.importorskip("prometheus_client")
    from keras_transformer.export import ctranslate2
    from keras_transformer.translator import Translator

    export = ctranslate2.export(Translator.load(FOLDER), tmp_path / "export")
    (tmp_path / "changed").mkdir()
    fuzz(run_python, tmp_path / "changed", export, EXPORT, LOAD_EXPORT)


def fuzz(run_python, folder, fixture, files, load):
    code = FUZZ.format(
        folder=str(folder),
        fixture=str(fixture),
        files=files,
        load=load,
        seed=1,
        seconds=5,
    )
    loaded, refused = map(int, run_python(code).split()[-2:])
    assert refused > 10
    assert loaded > 0
