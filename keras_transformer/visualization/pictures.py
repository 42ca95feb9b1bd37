"""Pictures of attention with matplotlib: heat maps of heads, lines between words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from typing import Any
from typing import Literal

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.models.word_attention import word_layer
from keras_transformer.visualization.maps import AXES
from keras_transformer.visualization.maps import TITLES
from keras_transformer.visualization.maps import AttentionMaps
from keras_transformer.visualization.tokens import Tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#1c1b19"
_QUIET = "#625d55"
_LINE = "#e2ddd2"
_ACCENT = "#0f766e"
_SHADES = ("#ffffff", "#c9e4e0", "#5fb3aa", _ACCENT, "#052e2a")  # none to most

#: Fonts that are tried in order for missing characters, if they are installed.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
    "Microsoft YaHei",
)
_WIDTH = 14.0  # inches that the cells of a row of maps should not exceed
_POINTS = 72  # in an inch
_FAINTEST = 0.1  # of the lines that are drawn


def draw_heads(
    maps: AttentionMaps,
    kind: str = "cross",
    layer: int = -1,
    head: int | Literal["mean"] | None = None,
) -> Figure:
    """Heat maps of one head of a layer, or of all its heads.

    Rows attend to columns; thin lines separate words. All maps of a figure share one
    scale.

    Args:
        maps: the attention maps of a sentence.
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer: the number of the layer; default: the last.
        head: the number of the head; `"mean"` for the mean of all; None for all.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or a notebook.

    Raises:
        InputError: where there is no such kind, layer or head, or matplotlib is
            not installed.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.visualization import AttentionMaps, draw_heads
    >>> from keras_transformer.visualization.tokens import Tokens
    >>> weights = {"cross": np.full((1, 4, 2, 3), 1 / 3, np.float32)}
    >>> tokens = Tokens(("a", "▁house", "</s>")), Tokens(("Haus", "</s>"))
    >>> figure = draw_heads(AttentionMaps(*tokens, weights))
    >>> [panel.get_title() for panel in figure.axes[:4]]
    ['head 0', 'head 1', 'head 2', 'head 3']

    Reference: Bahdanau et al., 2015, https://arxiv.org/abs/1409.0473, figure 3.
    """
    heads = maps.heads(kind, layer, head)
    rows, columns = maps.tokens(kind)
    count = len(maps.weights[kind])
    across = min(len(heads), 4)
    down = -(-len(heads) // across)
    cell = float(np.clip(_WIDTH / (across * len(columns)), 0.06, 0.26))
    width = across * (len(columns) * cell + 0.3) + 1.5
    figure = _figure((width, down * (len(rows) * cell + 0.4) + 1.5))
    figure.suptitle(f"{TITLES[kind]}, layer {layer % count}", color=_INK)
    panels = figure.subplots(down, across, squeeze=False)
    scale = {
        "cmap": _shades(),
        "vmin": 0.0,
        "vmax": max(weights.max() for weights in heads.values()),
    }
    for panel in panels.flat[len(heads) :]:
        panel.set_axis_off()
    for panel, (name, weights) in zip(panels.flat, heads.items(), strict=False):
        image = panel.imshow(weights, **scale)
        panel.set_title(name, color=_QUIET, fontsize=10)
        _label(panel, rows, columns, min(10.0, 0.8 * cell * _POINTS))
    for panel in panels[:, 1:].flat:
        panel.set_yticklabels([])
    row_name, column_name = AXES[kind]
    figure.supylabel(row_name, color=_QUIET, fontsize=9)
    figure.supxlabel(column_name, color=_QUIET, fontsize=9)
    bar = figure.colorbar(image, ax=panels, format="{x:.0%}", shrink=0.5, pad=0.01)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=_QUIET, labelsize=8, length=0)
    return figure


def draw_alignment(
    maps: AttentionMaps,
    layer: int | None = None,
    head: int | Literal["mean"] = "mean",
) -> Figure:
    """The words of both sides, joined by lines as strong as the cross-attention.

    Args:
        maps: the attention maps of a sentence.
        layer: the number of the layer; default: the last but one, which follows words
            best.
        head: the number of the head; default: the mean of all.

    Returns:
        A `matplotlib.figure.Figure`, for `savefig` or a notebook.

    Raises:
        InputError: where there is no such layer or head, or matplotlib is
            not installed.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.visualization import AttentionMaps, draw_alignment
    >>> from keras_transformer.visualization.tokens import Tokens
    >>> weights = {"cross": np.full((1, 4, 2, 3), 1 / 3, np.float32)}
    >>> tokens = Tokens(("a", "▁house", "</s>")), Tokens(("Haus", "</s>"))
    >>> figure = draw_alignment(AttentionMaps(*tokens, weights))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['a', 'house', '⟨end⟩', 'Haus', '⟨end⟩']

    Reference: Garg et al., 2019, https://arxiv.org/abs/1909.02074, section 3.
    """
    target, source, weights = maps.word_weights(layer, head)
    count = len(maps.weights["cross"])
    layer = word_layer(count) if layer is None else layer % count
    (heads,) = maps.heads("cross", layer, head)
    figure = _figure((6.5, 0.8 + 0.3 * max(len(source), len(target))))
    panel = figure.subplots()
    panel.set_axis_off()
    panel.set(xlim=(0, 1), ylim=(1, 0))
    panel.set_title(f"Cross-attention, layer {layer}, {heads}", fontsize=11)
    source_heights, target_heights = _heights(source), _heights(target)
    style = {"va": "center", "fontsize": 11, "color": _INK, **_text_style()}
    for words, heights, x, side in (
        (source, source_heights, 0.3, "right"),
        (target, target_heights, 0.7, "left"),
    ):
        for word, y in zip(words, heights, strict=True):
            panel.text(x, y, word, ha=side, **style)
    for t, s in np.argwhere(weights >= _FAINTEST):
        weight = min(float(weights[t, s]), 1.0)
        ends = (0.32, 0.68), (source_heights[s], target_heights[t])
        panel.plot(*ends, color=_ACCENT, alpha=weight, linewidth=1 + 3 * weight)
    return figure


def _figure(size: tuple[float, float]) -> Figure:
    """An empty figure with a size in inches, without a window or global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(
            "pictures need matplotlib, which is not installed; run pip install "
            "matplotlib, or write .html"
        ) from None
    return Figure(size, dpi=130, layout="compressed")


def _label(panel: Any, rows: Tokens, columns: Tokens, size: float) -> None:
    """Tokens along a map, and lines where words begin."""
    style = {"fontsize": size, "color": _INK, **_text_style()}
    panel.set_xticks(range(len(columns)), columns.labels, rotation=90, **style)
    panel.set_yticks(range(len(rows)), rows.labels, **style)
    panel.tick_params(length=0)
    panel.spines[:].set_color(_LINE)
    for tokens, draw in ((rows, panel.axhline), (columns, panel.axvline)):
        for place, (before, after) in enumerate(pairwise(tokens.numbers)):
            if before != after:
                draw(place + 0.5, color=_LINE, linewidth=0.4)


def _text_style() -> dict[str, Any]:
    """Text style with fonts for many languages, and without formulas in dollars."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    family = [font for font in _FONTS if font in installed]
    return {"family": family, "parse_math": False}


def _heights(words: Sequence[str]) -> np.ndarray:
    """The heights of words from top to bottom, between 0 and 1."""
    return (np.arange(len(words)) + 0.5) / len(words)


def _shades() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", _SHADES)
