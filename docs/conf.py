"""Sphinx's configuration of the documentation; see build.py."""

import inspect
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # documents this clone, installed or not

import keras_transformer
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.documented import Documented
from keras_transformer.training.config import RunConfig

project = "keras-transformer"
author = "the keras-transformer authors"
copyright = f"{author}; Apache License 2.0"
version = release = keras_transformer.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Sources are where they are read in a clone, so that links work in both places.
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "tutorials/README.md",
    "tutorials/*/README.md",
    "tutorials/notebooks/*.ipynb",
    "benchmarks/README.md",
    "benchmarks/serving.md",
    "benchmarks/gpu/README.md",
    "keras_transformer/data/phrasebook/README.md",
    "keras_transformer/data/phrasebook/everyday/README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
]
exclude_patterns = ["build", ".*", "**/.*", "runs", "tests", "saved_models"]

nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # any code in a docstring; a public name becomes a link
    ("py:class", ".*"),  # types of other libraries, and of no public module
    ("py:exc", ".*"),
]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_dmath_allow_digits = False
myst_dmath_allow_space = False
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks hold their outputs
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("Call arguments", "params_style")]
default_role = "py:obj"
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "keras-transformer"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_search_scorer = str(Path(__file__).with_name("search_scorer.js"))

_LINK = re.compile(r"\[([^\]]+)\]\(\s*(https?://[^)\s]+)\s*\)")
_PIECES = re.compile(r"(`[^`]+`|\*\*\w[\w ]*:\*\*|\[[^\]]+\]\(\s*https?://[^)]+\))")


def restructured(lines: list[str]) -> list[str]:
    """A docstring of this package as reStructuredText; napoleon reads its sections."""
    text = "\n".join(lines)
    text = re.sub(r"^Call arguments of [^\n]+:$", "Call arguments:", text, flags=re.M)
    paragraphs: list[str] = []
    in_code = False
    for paragraph in re.split(r"\n[ \t]*\n", text):
        in_code = paragraph.startswith("    ") and (in_code or _opens_code(paragraphs))
        if in_code or re.match(r"\s*>>> ", paragraph):
            paragraphs.append(paragraph)
        elif paragraph.strip() == "Example:":
            paragraphs.append(".. rubric:: Example")
        else:
            paragraphs.append(_prose(paragraph))
    return "\n\n".join(paragraphs).split("\n")


def _opens_code(paragraphs: list[str]) -> bool:
    """Whether indented lines after these paragraphs are code, as in Markdown."""
    last = paragraphs[-1] if paragraphs else ""
    if not last.endswith(":") or last.startswith("    "):
        return False
    paragraphs[-1] += ":"
    return True


def _prose(text: str) -> str:
    text = re.sub(r"^(Reference|Masking|Training|Static shapes): ", r"**\1:** ", text)
    pieces = _PIECES.split(text)
    for i, piece in enumerate(pieces):
        if i % 2 and piece.startswith("`"):
            code = piece[1:-1]
            name = re.fullmatch(r"[A-Za-z_][\w.]*", code)
            pieces[i] = piece if name else f"``{code}``"
            if i + 1 < len(pieces) and re.match(r"[\w(]", pieces[i + 1]):
                pieces[i] += "\\ "
        elif i % 2 and piece.startswith("["):
            pieces[i] = _LINK.sub(r"`\1 <\2>`__", piece)
        elif not i % 2:
            pieces[i] = re.sub(r"[*|]|(?<=\w)_(?!\w)", _escaped, piece)
    return "".join(pieces)


def _escaped(match: re.Match[str]) -> str:
    before = match.string[: match.start()].rpartition("\n")[2]
    after = match.string[match.end() :][:1]
    is_bullet = match[0] == "*" and not before.strip() and after == " "
    return match[0] if is_bullet else f"\\{match[0]}"


def process_docstring(app, what, name, obj, options, lines):
    lines[:] = restructured(lines)


def without_validators(annotation: str) -> str:
    """A type with `Annotated[X, ...]` as X: the rest is how pydantic checks it."""
    while match := re.search(r"\bAnnotated\[", annotation):
        depth, comma = 1, None
        for place in range(match.end(), len(annotation)):
            depth += annotation[place] in "[({"
            depth -= annotation[place] in "])}"
            if comma is None and depth == 1 and annotation[place] == ",":
                comma = place
            if depth == 0:
                break
        kept = annotation[match.end() : comma]
        annotation = annotation[: match.start()] + kept + annotation[place + 1 :]
    return annotation


def process_signature(app, what, name, obj, options, signature, return_annotation):
    """The arguments of a class's `__init__`, which Keras hides behind its own."""
    annotations = getattr(app.env.current_document, "autodoc_annotations", {})
    found = annotations.get(name, {})
    for parameter, annotation in found.items():
        found[parameter] = without_validators(annotation)
    if what == "class":  # which returns what its call returns, not None
        found.pop("return", None)
    if what != "class" or "(*args, **kwargs)" not in (signature or ""):
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return str(inspect.Signature(plain)), None


def skip_member(app, what, name, obj, skip, options):
    """Leaves out what the arguments of a config say, and what nobody wrote about."""
    if isinstance(obj, property) and not (obj.__doc__ or "").strip():
        return True
    if name in _FIELDS and not callable(obj) and not isinstance(obj, property):
        return True
    if callable(obj) and not inspect.isclass(obj) and what == "class":
        return name in {"call", "build", "get_config", "compute_output_shape"} or skip
    return skip


def _config_fields() -> set[str]:
    found = {*DecodingOptions.model_fields, *RunConfig.model_fields, "model_config"}
    classes = [Documented]
    while classes:
        config = classes.pop()
        classes += config.__subclasses__()
        found |= set(config.model_fields)
    return found


_FIELDS = _config_fields()


def inline_math(translator, node):
    """A formula as MathML, which browsers typeset without a script."""
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block_math(translator, node):
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-process-signature", process_signature, priority=900)
    app.connect("autodoc-skip-member", skip_member)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
