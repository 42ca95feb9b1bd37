"""A tokenizer class of the user: in files, in a run, and in what is refused."""

import importlib
import linecache
import pickle
import sys

import pytest

import keras_transformer as kt
from keras_transformer.data import Tokenizer
from keras_transformer.data import phrasebook
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.encoded_corpus import encode_corpora
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.filters import Filters
from keras_transformer.data.tokenizer_bounds import load_within_bounds
from keras_transformer.errors import InputError
from keras_transformer.export import checks
from keras_transformer.training import TokenizerSection
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.corpora import make_tokenizers

MODULE = """
from keras_transformer.data import Tokenizer
class LowerCased(Tokenizer):
    @classmethod
    def train(cls, lines, vocabulary_size, **options):
        lines = [line.lower() for line in lines]
        return super().train(lines, vocabulary_size, **options)
    def encode(self, lines, **options):
        return super().encode([line.lower() for line in lines], **options)
class Other(Tokenizer):
    class Inner(Tokenizer):
        pass
def function():
    class Local(Tokenizer):
        pass
    return Local
"""
LINES = phrasebook.load("en", "de", "train")[0][:50]
NAME = "own_tokenizers_of_a_test"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The module, in a folder where Python looks."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    importlib.invalidate_caches()
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


# === Files ===


@pytest.mark.no_backend
def test_a_file_gives_the_class_back_as_itself(module, tmp_path):
    tokenizer = module.LowerCased.train(LINES, 340)
    tokenizer.save(tmp_path / "a.model")
    for back in (
        Tokenizer.load(tmp_path / "a.model"),
        load_within_bounds(tmp_path, "a.model", 340),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert type(back) is module.LowerCased
        assert (back.model, back.content) == (tokenizer.model, tokenizer.content)
        assert back.encode(["HELLO"]) == back.encode(["hello"]) != [[]]
    plain = Tokenizer(tokenizer.model)
    assert plain.content == tokenizer.model != tokenizer.content
    assert plain.encode(["HELLO"]) != plain.encode(["hello"])
    with pytest.raises(InputError, match="more pieces than the 300"):
        load_within_bounds(tmp_path, "a.model", 300)


@pytest.mark.no_backend
def test_a_file_imports_nothing(module, tmp_path):
    module.LowerCased.train(LINES, 340).save(tmp_path / "a.model")
    del sys.modules[NAME]
    hint = f"a.model: '{NAME}.LowerCased' .* not loaded; .* give --import {NAME}"
    with pytest.raises(InputError, match=hint):
        Tokenizer.load(tmp_path / "a.model")
    assert NAME not in sys.modules


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{NAME}.Missing\n", "has no subclass of keras_transformer.data.Tokenizer"),
        (f"{NAME}.function\n", "has no subclass of keras_transformer.data.Tokenizer"),
        ("keras_transformer.data.Tokenizer\n", "names no class"),
        (f"{NAME}.LowerCased", "names no class"),
        ("no class\n", "names no class"),
    ],
)
def test_a_name_that_is_no_such_class_is_refused(module, line, message, tmp_path):
    model = b"" if not line.endswith("\n") else Tokenizer.train(LINES, 340).model
    content = b"keras-transformer tokenizer " + line.encode() + model
    (tmp_path / "a.model").write_bytes(content)
    with pytest.raises(InputError, match=f"a.model: .*{message}"):
        Tokenizer.load(tmp_path / "a.model")


@pytest.mark.no_backend
def test_a_class_without_a_name_of_its_own_is_never_written(module, tmp_path):
    model = Tokenizer.train(LINES, 340).model
    for kind in (module.Other.Inner, module.function()):
        with pytest.raises(InputError, match="cannot be imported by the name"):
            kind(model).save(tmp_path / "a.model")
    assert not (tmp_path / "a.model").exists()


# === Runs ===


@pytest.mark.no_backend
def test_a_text_is_encoded_again_when_the_code_of_the_class_changes(module, tmp_path):
    """A mended `encode` would else leave a cache of what it wrote before."""
    module.LowerCased.train(LINES, 340).save(tmp_path / "a.model")
    text = tmp_path / "a.txt"
    text.write_text("Ein Haus\n")
    files = CorpusFiles(source=(text,), target=(text,))

    def encoded():
        tokenizer = Tokenizer.load(tmp_path / "a.model")
        encoder = PairEncoder(tokenizer, tokenizer, Filters(99))
        found = encode_corpora(tmp_path / "cache", [files], encoder, workers=1)
        return tokenizer.decode(found.pairs.source.lists())

    assert encoded() == ["ein haus"]
    (tmp_path / "modules" / f"{NAME}.py").write_text(
        MODULE.replace("lower()", "upper()")
    )
    linecache.checkcache()
    importlib.reload(module)
    assert encoded() == ["EIN HAUS"]
    derived = f"from {NAME} import LowerCased\nclass Derived(LowerCased): pass\n"
    (tmp_path / "modules" / "derived_tokenizers.py").write_text(derived)
    derived = importlib.import_module("derived_tokenizers")
    derived.Derived.train(LINES, 340).save(tmp_path / "a.model")
    assert encoded() == ["EIN HAUS"]
    (tmp_path / "modules" / f"{NAME}.py").write_text(MODULE)
    linecache.checkcache()
    importlib.reload(module)
    importlib.reload(derived)
    assert encoded() == ["ein haus"]  # by the code of a base in another module
    del sys.modules["derived_tokenizers"]
    assert len([path for path in (tmp_path / "cache").iterdir() if path.is_dir()]) == 4


@pytest.mark.no_backend
def test_a_config_names_the_class_of_a_plain_file_alone(module, tmp_path):
    Tokenizer.train(LINES, 340).save(tmp_path / "plain.model")
    module.Other.train(LINES, 340).save(tmp_path / "other.model")
    kind, folder = f"{NAME}.LowerCased", tmp_path / "run"
    folder.mkdir()
    plain = TokenizerSection(kind=kind, path=tmp_path / "plain.model")
    assert type(make_tokenizers(plain, list, folder)[0]) is module.LowerCased
    assert type(make_tokenizers(plain, list, folder)[1]) is module.LowerCased
    (folder / "tokenizer.model").unlink()
    other = TokenizerSection(kind=kind, path=tmp_path / "other.model")
    with pytest.raises(InputError, match=r"LowerCased, but .*Other; remove the kind"):
        make_tokenizers(other, list, folder)


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("LowerCased", "expected a class of your own as module.Class"),
        ("nowhere.LowerCased", "there is no module nowhere"),
    ],
)
def test_a_name_that_is_no_class_is_one_clear_fault(config_file, kind, message):
    with pytest.raises(InputError, match=f"tokenizer.kind: {message}"):
        load_config(config_file, [f"tokenizer.kind={kind}"])


@pytest.mark.one_backend
def test_a_run_trains_with_it_and_its_folder_has_it(module, config_file):
    keys = [f"tokenizer.kind={NAME}.LowerCased", "training.steps=2"]
    train(load_config(config_file, keys))
    run = config_file.parent / "runs" / "small"
    translator = kt.Translator.load(run / "averaged")
    assert type(translator.tokenizer) is module.LowerCased
    loud, quiet = translator.translate(["GOOD MORNING", "good morning"])
    assert loud == quiet
    with pytest.raises(InputError, match="LowerCased is a tokenizer of your own"):
        checks.exportable_model(translator)
    train(load_config(config_file, [*keys, "training.steps=3"]))
    del sys.modules[NAME]
    with pytest.raises(InputError, match=f"give --import {NAME}"):
        kt.Translator.load(run / "averaged")
    with pytest.raises(InputError, match=f"give --import {NAME}"):
        train(load_config(run / "config.yaml"))
    assert NAME not in sys.modules
