"""What `export` and `serve` hand on, and what they refuse before anything loads."""

import sys
import types

import fake_program
import pytest

from keras_transformer.cli import backend
from keras_transformer.config.about import About
from keras_transformer.engines import EngineName
from keras_transformer.errors import InputError
from keras_transformer.serving.limits import Limits

pytestmark = pytest.mark.no_backend


# === export ===


@pytest.fixture
def exports(monkeypatch):
    """`[(format, translator, output, options)]` of what was exported."""
    calls = []

    def module(form):
        def export(translator, output, **options):
            calls.append((form, translator, output, options))
            return output / "1"

        return types.SimpleNamespace(export=export)

    for form in ("saved_model", "onnx", "litert", "ctranslate2", "transformers"):
        name = f"keras_transformer.export.{form}"
        monkeypatch.setitem(sys.modules, name, module(form))
    return calls


@pytest.mark.parametrize("form", ["onnx", "litert", "ctranslate2"])
def test_export_hands_on_the_quantization_and_the_search(
    form, model, invoke, exports, tmp_path
):
    output = tmp_path / "out"
    options = ["--format", form, "--output", output, "--quantization", "int8"]
    search = ["--min-length", 3, "--suppressed-tokens", "a", "--mbr", "none"]
    result = invoke("export", model, *options, *search)
    assert result.stdout == f"{output / '1'}\n"
    translator = fake_program.Translator.last
    given = {"min_length": 3, "suppressed_tokens": ["a"], "mbr": None}
    given |= {"quantization": "int8", "card": ""}
    assert exports == [(form, translator, output, given)]


def test_export_of_a_saved_model_has_the_search_and_the_card(
    model, invoke, exports, tmp_path
):
    (model / "README.md").write_text("# A card", encoding="utf-8")
    (tmp_path / "lines").write_text("one\ntwo\n", encoding="utf-8")
    options = ["--version", 3, "--beam-size", 2, "--length-penalty", 1]
    options += ["--patience", "none", "--no-sampling", "--examples", tmp_path / "lines"]
    invoke(
        "export",
        model,
        "--format",
        "saved_model",
        "--output",
        tmp_path / "out",
        *options,
    )
    ((_, _, _, given),) = exports
    assert given == {
        "version": 3,
        "beam_size": 2,
        "length_penalty": 1.0,
        "patience": None,
        "sampling": False,
        "card": "# A card",
        "warm_up": ["one", "two"],
    }


def test_export_to_transformers_has_the_search_and_the_card(
    model, invoke, exports, tmp_path
):
    (model / "README.md").write_text("# A card", encoding="utf-8")
    output = ["--output", tmp_path / "out"]
    invoke("export", model, "--format", "transformers", *output, "--beam-size", 2)
    ((*_, options),) = exports
    assert options == {"beam_size": 2, "card": "# A card"}


def test_export_to_onnx_has_the_page_and_its_packages(model, invoke, exports, tmp_path):
    output, assets = tmp_path / "out", tmp_path / "packages"
    page = ["--web", "--assets", assets]
    invoke("export", model, "--format", "onnx", "--output", output, *page)
    ((*_, options),) = exports
    assert (options["web"], options["assets"]) == (True, assets)


@pytest.mark.parametrize(
    ("form", "option"),
    [
        ("saved_model", "--quantization=int8"),
        ("onnx", "--version=3"),
        ("litert", "--web"),
        ("litert", "--assets=node"),
        ("litert", "--examples=test.en"),
        ("ctranslate2", "--version=3"),
        ("transformers", "--quantization=int8"),
    ],
)
def test_export_refuses_options_of_other_formats(
    form, option, model, invoke, exports, tmp_path
):
    name = option.partition("=")[0]
    with pytest.raises(
        InputError, match=f"the format {form} has no option {name}; leave it"
    ):
        invoke("export", model, "--format", form, "--output", tmp_path / "out", option)
    assert not exports


def test_export_refuses_formats_that_there_are_not(model, invoke, tmp_path):
    result = invoke("export", model, "--format", "pickle", "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "'pickle' is not one of" in result.stderr


# === serve ===


@pytest.fixture
def served(monkeypatch):
    """`[(service, host, port, key, access_log)]` of the servers that were started."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    from keras_transformer.serving import loading
    from keras_transformer.serving import server

    calls = []
    engine = types.SimpleNamespace(beam_size=4, languages=None, about=About())

    def load(folder, limits, **options):
        engine.loaded = folder, limits, options
        return engine

    monkeypatch.setattr(loading, "load_engine", load)

    def serve(*arguments, access_log):
        calls.append((*arguments, access_log))

    monkeypatch.setattr(server, "serve", serve)
    monkeypatch.delenv("KERAS_TRANSFORMER_API_KEY", raising=False)
    return calls


def test_serve_keeps_to_this_machine_unless_told_otherwise(model, invoke, served):
    result = invoke("serve", model)
    ((service, host, port, key, access_log),) = served
    assert "names no languages, so that those of requests are not" in result.stderr
    assert (host, port, key, access_log) == ("127.0.0.1", 8501, None, False)
    assert service.engine.loaded[1] == Limits()
    assert service.name == model.name
    assert service.languages == (None, None)


def test_serve_obeys_its_options(model, invoke, served, monkeypatch):
    monkeypatch.setenv("KERAS_TRANSFORMER_API_KEY", "secret")
    address = ["--host", "0.0.0.0", "--port", 0, "--name", "mine"]
    search = ["--beam-size", 2, "--length-penalty", 1, "--languages", "en-de"]
    sizes = ["--batch-size", 8, "--queue", 9, "--warm-up", 0, "--timeout", 10]
    texts = ["--max-body", 11, "--max-sentences", 12, "--max-characters", 13]
    invoke("serve", model, *address, *search, *sizes, *texts, "--access-log")
    ((service, *rest),) = served
    assert rest == ["0.0.0.0", 0, "secret", True]
    assert (service.name, service.languages) == ("mine", ("en", "de"))
    folder, limits, options = service.engine.loaded
    assert folder == model
    assert (limits.batch_size, limits.queue_sentences) == (8, 9)
    assert limits.answer_seconds == 10
    bounds = (limits.body_bytes, limits.sentences, limits.characters)
    assert bounds == (11, 12, 13)
    languages = {"source_language": None, "target_language": None}
    assert options.pop("before_keras").func is backend.activate
    engine = {"engine": EngineName.keras}
    expected = {"beam_size": 2, "length_penalty": 1.0, **languages, **engine}
    assert options == expected


@pytest.mark.parametrize("option", ["--name=a/b", "--languages=en_de"])
def test_serve_refuses_a_name_before_it_loads_the_model(option, model, invoke, served):
    with pytest.raises(InputError, match=r"a/b' does not fit|en_de' are not two codes"):
        invoke("serve", model, option)
    assert not served


def test_serve_says_what_is_not_installed(model, invoke, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("starlette")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [n for n in sys.modules if n.startswith("keras_transformer.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(
        InputError,
        match=r"uvicorn.*, which is not installed; run pip install starlette uvicorn",
    ):
        invoke("serve", model)
