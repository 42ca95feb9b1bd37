"""A model class of the user's own module: files name it, and import nothing."""

import json
import sys

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.user_modules import import_module
from reference.weights import randomize

pytestmark = pytest.mark.one_backend

MODULE = """
import keras
import keras_transformer as kt
from keras import ops

class OwnConfig(kt.TransformerConfig):
    factor: float = 1.0

@keras.saving.register_keras_serializable(package="own")
class Own(kt.Transformer):
    config_class = OwnConfig
    def logits(self, hidden):
        return self.config.factor * super().logits(hidden)

class Plus(keras.layers.Layer):
    def build(self, shape):
        self.plus = self.add_weight(shape=(shape[-1],), initializer="ones")
    def call(self, inputs):
        return inputs + self.plus

class Unnamed(kt.Transformer):
    @staticmethod
    def block_parts(config, side, policy, position):
        parts = kt.Transformer.block_parts(config, side, policy, position)
        norm = Plus(dtype=policy)
        parts["feed_forward_residual"] = kt.layers.Residual(normalization=norm)
        return parts

class Argument(kt.Transformer):
    def __init__(self, config, factor=1.0, **options):
        super().__init__(config, **options)
        self.factor = factor
    def get_config(self):
        return {**super().get_config(), "factor": self.factor}

number = 7
"""
FIELDS = {
    **{"vocabulary_size": 270, "hidden_dim": 16, "intermediate_dim": 24},
    **{"num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1},
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The user's module `own_module`, imported from the working directory."""
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield import_module("own_module", "--import")
    sys.modules.pop("own_module", None)


@pytest.fixture(scope="module")
def tokenizer():
    return kt.data.Tokenizer.train(["ein Hund", "a dog"], 270)


def test_a_folder_gives_back_the_class_once_its_module_is_imported(
    module, tokenizer, tmp_path
):
    model = randomize(module.Own({**FIELDS, "factor": 3.0}))
    kt.Translator(model, tokenizer).save(tmp_path / "model")
    assert kt.Translator(model, tokenizer).info()["kind"] == "own_module.Own"
    loaded = kt.Translator.load(tmp_path / "model").model
    assert type(loaded) is module.Own and loaded.config.factor == 3.0
    ids = {"source": np.array([[5, 6, 2]]), "target": np.array([[1, 7, 8]])}
    logits = [ops.convert_to_numpy(each(ids)) for each in (model, loaded)]
    np.testing.assert_array_equal(*logits)
    del sys.modules["own_module"]
    with pytest.raises(InputError, match=r"'own_module.Own'.*give --import own_module"):
        kt.Translator.load(tmp_path / "model")
    assert "own_module" not in sys.modules


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("own_module.number", "has no model class 'own_module.number'"),
        ("own_module.OwnConfig", "has no model class"),
        ("keras_transformer.models.Transformer", "is not available; use transformer"),
        (["transformer"], "is not available; use transformer"),
        ("no_such_module.Own", "give --import no_such_module"),
    ],
)
def test_a_folder_with_another_name_is_refused(
    kind, message, module, tokenizer, tmp_path
):
    kt.Translator(module.Own(FIELDS), tokenizer).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": kind}))
    with pytest.raises(InputError, match=message):
        kt.Translator.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Unnamed", "'decoder_0/.*plus.* of Unnamed has another name in each model"),
        ("Argument", "Argument also takes factor; make it a field of its config_class"),
    ],
)
def test_what_would_be_lost_is_refused(name, message, module, tokenizer, tmp_path):
    model = getattr(module, name)(kt.TransformerConfig(**FIELDS))
    with pytest.raises(InputError, match=message):
        kt.Translator(model, tokenizer).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_class_that_no_module_has_is_refused(tokenizer, tmp_path):
    class Local(kt.Transformer):
        pass

    model = Local(kt.TransformerConfig(**FIELDS))
    with pytest.raises(InputError, match="define it at the top of a module of its own"):
        kt.Translator(model, tokenizer).save(tmp_path / "model")


def test_a_new_vocabulary_keeps_the_class(module, tokenizer):
    new = kt.data.Tokenizer.train(["ein Baum a tree"] * 9, 275)
    model = module.Own({**FIELDS, "factor": 3.0})
    changed = kt.models.with_new_vocabulary(model, [tokenizer] * 2, [new] * 2)
    assert type(changed) is module.Own and changed.config.factor == 3.0


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("../own", "", "no name of a module; give one such as my_layers, without"),
        ("absent_module", None, "there is no module absent_module, neither in"),
        ("broken_module", "1 / 0", r"fails with ZeroDivisionError.*line 1\); mend it"),
        ("needing_module", "import absent_library", "'absent_library'.*line 1"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(
    name, text, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(InputError, match=f"--import: .*{message}"):
        import_module(name, "--import")
