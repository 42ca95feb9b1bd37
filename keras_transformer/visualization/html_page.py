"""Interactive HTML page of a sentence's attention, in one file that works offline."""

import json
from importlib import resources
from typing import Any
from typing import Literal

import numpy as np

from keras_transformer.visualization.maps import AXES
from keras_transformer.visualization.maps import TITLES
from keras_transformer.visualization.maps import AttentionMaps

_PLACE = "{{data}}"


def html_page(
    maps: AttentionMaps,
    kind: str | None = None,
    layer: int = -1,
    head: int | Literal["mean"] = "mean",
) -> str:
    """An interactive page with a choice of kind, layer and head.

    It works offline, with mouse, touch and keyboard, in light and dark mode.

    Args:
        maps: the attention maps of a sentence.
        kind: `"encoder"`, `"decoder"` or `"cross"`, the kind shown first; default:
            `"cross"`.
        layer: the layer shown first; default: the last.
        head: the head shown first; default: the mean of all.

    Returns:
        The text of the file, for writing as UTF-8.

    Raises:
        InputError: where there is no such kind, layer or head.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.visualization import AttentionMaps, html_page
    >>> from keras_transformer.visualization.tokens import Tokens
    >>> maps = AttentionMaps(
    ...     Tokens(("a", "</s>")), Tokens(("ein", "</s>")),
    ...     {"cross": np.full((1, 1, 2, 2), 0.5, np.float32)},
    ... )
    >>> html_page(maps).startswith("<!doctype html>")
    True
    """
    kind = kind or "cross"
    maps.heads(kind, layer, head)  # refuses an unknown kind, layer or head
    first: dict[str, Any] = {"kind": kind, "layer": layer % len(maps.weights[kind])}
    first["head"] = head if head == "mean" else head % maps.weights[kind].shape[1]
    data = {
        "source": " ".join(maps.source.words),
        "target": " ".join(maps.target.words),
        "kinds": [_kind(maps, name) for name in maps.weights],
        "first": first,
    }
    folder = resources.files("keras_transformer.visualization")
    page = (folder / "page.html").read_text("utf-8")
    return page.replace(_PLACE, _escaped(data))


def _kind(maps: AttentionMaps, name: str) -> dict[str, Any]:
    rows, columns = maps.tokens(name)
    return {
        "name": name,
        "title": TITLES[name],
        "axes": AXES[name],
        "rows": rows.labels,
        "columns": columns.labels,
        # Thousandths: a third of the digits, and finer than visible.
        "weights": np.rint(maps.weights[name] * 1000).astype(int).tolist(),
    }


def _escaped(data: Any) -> str:
    r"""JSON that is safe in a script element: `<` is `\u003c`."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", r"\u003c")
