"""The card of an export with a program `translate.py`."""

from typing import Any

from keras_transformer.export.web_page import npm_command

_PROGRAM = """{card}

# For {name}

The model above, for programs without Keras. In this folder:

```
pip install {packages}
python translate.py < source.txt > target.txt
```

`model.json` names the files and says how a search uses them, for a program in any
language. The weights are in {precision}.{languages}
"""
_PAGE = """
`{page}` translates in a browser, which no text leaves. It needs two libraries beside
it, and a server of files:

```
{npm_command}
python -m http.server
```
"""
#: The name and the packages of a format that `translate.py` runs.
_FORMATS = {
    "onnx": ("ONNX Runtime", "numpy sentencepiece onnxruntime"),
    "litert": ("LiteRT", "numpy sentencepiece ai-edge-litert"),
    "ctranslate2": ("CTranslate2", "sentencepiece ctranslate2"),
}


def program_card(card: str, description: dict[str, Any]) -> str:
    """The text of the README.md of an export with a program `translate.py`.

    Args:
        card: of the model; "" where there is none.
        description: the contents of its `model.json`.
    """
    name, packages = _FORMATS[description["format"]]
    around = description.get("languages")
    pair = f"{around['source']}-{around['target']}" if around else ""
    program = _PROGRAM.format(
        card=card.strip() or "# A translation model",
        name=name,
        packages=packages,
        precision=description["quantization"] or "float32",
        languages=only_languages(pair),
    )
    if page := description.get("page"):
        program += _PAGE.format(page=page, npm_command=npm_command())
    return program


def only_languages(pair: str) -> str:
    """What a card says of the languages of a multilingual model's export."""
    return f"\nOf its languages it has {pair} alone." if pair else ""
