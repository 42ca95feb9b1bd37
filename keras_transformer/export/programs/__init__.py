"""Programs that stand in an export and know nothing of this package.

`translate.py` reads lines and writes translations. `engine.py` beside it runs the
model: `onnx_engine.py`, `litert_engine.py` or `ctranslate2_engine.py` of this folder.
`search.py` is the search that ONNX and LiteRT need around their decoder step, and
`rules.py` says what that may choose.
"""
