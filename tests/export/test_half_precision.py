"""Models in mixed precision are exported in float32, by a process of their own."""

import keras
import pytest

from keras_transformer import Translator
from keras_transformer.export import process
from keras_transformer.export.saved_model import export as export_saved_model
from reference.fixture_folder import FOLDER


@pytest.mark.one_backend("tensorflow")
def test_a_saved_model_of_mixed_precision_is_made_in_float32(tmp_path, monkeypatch):
    exported = []
    monkeypatch.setattr(
        process, "export", lambda name, *arguments, **options: exported.append(name)
    )
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        translator = Translator.load(FOLDER)
        export_saved_model(translator, tmp_path / "out")
    finally:
        keras.config.set_dtype_policy(policy)
    assert exported == ["keras_transformer.export.saved_model"]
