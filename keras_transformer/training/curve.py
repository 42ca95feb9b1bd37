"""Plot of a run: likelihood, validation scores and learning rate over steps."""

from __future__ import annotations

import io
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

_TRAINING = "#8097b1"
_VALIDATION = "#d1495b"
_SCORE = "#2a6f97"
_INK = "#1f2937"
_QUIET = "#6b7280"
_GRID = "#e5e7eb"

#: Panel -> height and curves; a curve is a key of a line -> label, colour and style.
_PANELS = {
    "Negative log-likelihood of a token": (
        4,
        {
            "loss": ("training, smoothed loss", _TRAINING, ":"),
            "nll": ("training", _TRAINING, "-"),
            "val_nll": ("validation", _VALIDATION, "-"),
        },
    ),
    "Validation BLEU": (3, {"val_bleu": ("", _SCORE, "-")}),
    "Validation chrF": (3, {"val_chrf": ("", _SCORE, "-")}),
    "Learning rate": (1.6, {"learning_rate": ("", _QUIET, "-")}),
}


def draw(lines: Sequence[Mapping[str, Any]]) -> bytes | None:
    """The training curves of a run as a PNG, 960 pixels wide.

    Args:
        lines: of `RunLog`: `step` and any of `loss`, `nll`, `val_nll`, `val_bleu`,
            `val_chrf` and `learning_rate`; a panel without a point is left out.

    Returns:
        The file's content; None where there is no point.

    Raises:
        ImportError: where matplotlib is not installed.
    """
    # Figure, not pyplot, which would use a window system and keep every figure.
    from matplotlib.figure import Figure

    points = {name: _points(lines, name) for _, c in _PANELS.values() for name in c}
    shown = [
        (title, height, curves)
        for title, (height, curves) in _PANELS.items()
        if any(points[name] for name in curves)
    ]
    if not shown:
        return None
    heights = [height for _, height, _ in shown]
    figure = Figure((8, 0.4 + 0.77 * sum(heights)), dpi=120, layout="constrained")
    layout: Any = figure.get_layout_engine()
    layout.set(w_pad=0.15, h_pad=0.1)  # inches
    panels = figure.subplots(
        len(shown), sharex=True, squeeze=False, height_ratios=heights
    )
    for panel, (title, _, curves) in zip(panels[:, 0], shown, strict=True):
        _decorate(panel, title)
        for name, (label, color, style) in curves.items():
            _plot(panel, points[name], style, color=color, label=label)
        _finish(panel, curves)
    panels[-1, 0].set_xlabel("step", color=_QUIET)
    panels[-1, 0].xaxis.set_major_formatter("{x:,.0f}")
    panels[-1, 0].xaxis.get_major_locator().set_params(integer=True)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _points(lines: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, float]]:
    """Steps and values of the lines that have the key."""
    return [(x["step"], x[name]) for x in lines if x.get(name) is not None]


def _plot(
    panel: Any, points: list[tuple[int, float]], style: str, **options: Any
) -> None:
    if points:
        marker = "o" if len(points) < 40 else None
        panel.plot(*zip(*points, strict=True), style, marker=marker, ms=3, **options)


def _decorate(panel: Any, title: str) -> None:
    panel.set_title(title, loc="left", color=_INK, fontsize=11, weight="bold")
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(_GRID)
    panel.grid(axis="y", color=_GRID, linewidth=0.8)
    panel.tick_params(colors=_QUIET, length=0)
    panel.set_axisbelow(True)


def _finish(panel: Any, curves: Mapping[str, Any]) -> None:
    if "nll" in curves:
        _zoom(panel)
        panel.legend(frameon=False, labelcolor=_QUIET)
    elif "learning_rate" in curves:
        panel.set_ylim(bottom=0)
        panel.yaxis.set_major_formatter("{x:g}")
    else:
        _mark_best(panel)


def _zoom(panel: Any) -> None:
    """Cuts off the first steep fall, so that later values are readable."""
    curves = [line.get_ydata() for line in panel.lines]
    later = [value for curve in curves for value in curve[len(curve) // 10 :]]
    low, high = min(later), max(later)
    margin = 0.05 * (high - low) or 0.05
    panel.set_ylim(low - margin, high + margin)


def _mark_best(panel: Any) -> None:
    steps, values = panel.lines[0].get_data()
    best = values.argmax()
    panel.plot(steps[best], values[best], "o", color=_SCORE, ms=7)
    panel.margins(y=0.2)
    panel.annotate(
        f"{values[best]:.2f}",
        (steps[best], values[best]),
        (0, 6),
        textcoords="offset points",
        ha="center",
        va="bottom",
        color=_SCORE,
        weight="bold",
    )
