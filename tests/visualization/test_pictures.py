"""Figures of attention: what they hold, and that any text can be drawn."""

import io
import struct

import numpy as np
import pytest
from sample_maps import HARD
from sample_maps import maps

pytest.importorskip("matplotlib", reason="needs the extra plot")

from keras_transformer.errors import InputError
from keras_transformer.visualization import draw_alignment
from keras_transformer.visualization import draw_heads

pytestmark = pytest.mark.no_backend

SOURCE = ["The", "▁c", "at", "▁costs", "▁$5", "▁\\or", "▁$6", ".", "</s>"]
TARGET = ["Été", "▁Größe", "▁kostet", "▁€", "</s>"]


def png(figure):
    """Width and height of the picture that a figure becomes."""
    content = io.BytesIO()
    figure.savefig(content, format="png", bbox_inches="tight")
    data = content.getvalue()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("head", [None, 1, "mean"], ids=str)
def test_a_map_for_each_head(kind, head):
    found = maps(SOURCE, TARGET, heads=5)
    figure = draw_heads(found, kind, 0, head)
    *panels, bar = [panel for panel in figure.axes if panel.axison]
    expected = list(found.heads(kind, 0, head).items())
    assert [panel.get_title() for panel in panels] == [name for name, _ in expected]
    for panel, (_, weights) in zip(panels, expected, strict=True):
        np.testing.assert_array_equal(panel.images[0].get_array(), weights)
    rows, columns = found.tokens(kind)
    assert [t.get_text() for t in panels[0].get_yticklabels()] == rows.labels
    assert [t.get_text() for t in panels[-1].get_xticklabels()] == columns.labels
    top = max(weights.max() for _, weights in expected)
    assert bar.get_ylim()[1] == pytest.approx(top)
    assert min(png(figure)) > 200


def test_lines_are_as_strong_as_the_weights():
    found = maps(["a", "▁b", "</s>"], ["x", "▁y", "</s>"], layers=1, heads=1)
    found.weights["cross"][0, 0] = [[0.9, 0.1, 0.0], [0.02, 0.5, 0.48], [0, 0, 1]]
    (panel,) = draw_alignment(found).axes
    words = [text.get_text() for text in panel.texts]
    assert words == ["a", "b", "⟨end⟩", "x", "y", "⟨end⟩"]
    assert [line.get_alpha() for line in panel.lines] == pytest.approx(
        [0.9, 0.1, 0.5, 0.48, 1.0]
    )
    # To the height of its word.
    assert panel.lines[2].get_ydata()[1] == panel.texts[4].get_position()[1]
    assert min(png(draw_alignment(found))) > 200


def test_an_alignment_is_of_any_layer_and_head():
    found = maps(SOURCE, TARGET, layers=3)
    titles = [
        draw_alignment(found, *arguments).axes[0].get_title()
        for arguments in ((), (-1,), (0, -1))
    ]
    assert titles == [
        "Cross-attention, layer 1, mean of all heads",
        "Cross-attention, layer 2, mean of all heads",
        "Cross-attention, layer 0, head 2",
    ]


@pytest.mark.filterwarnings("ignore:Glyph:UserWarning")  # not every font has all
def test_any_text_can_be_drawn_and_opened():
    words = [*HARD, *(f"▁word{i}" for i in range(100))]
    found = maps(words, HARD[::-1], layers=1, heads=2)
    for figure in (draw_heads(found), draw_alignment(found)):
        assert min(png(figure)) > 200 and max(png(figure)) < 8000


def test_nothing_of_pyplot_is_left_behind(run_python):
    run_python(
        "import sys\n"
        "sys.path.insert(0, 'tests/visualization')\n"
        "from sample_maps import maps\n"
        "import matplotlib\n"
        "from matplotlib import pyplot\n"
        "before = dict(matplotlib.rcParams)\n"
        "from keras_transformer.visualization import draw_alignment, draw_heads\n"
        "draw_heads(maps('ab', 'cd')), draw_alignment(maps('ab', 'cd'))\n"
        "assert not pyplot.get_fignums()\n"
        "assert dict(matplotlib.rcParams) == before\n"
    )


def test_without_matplotlib_the_error_says_what_to_install(run_python):
    output = run_python(
        "import sys\n"
        "sys.path.insert(0, 'tests/visualization')\n"
        "from sample_maps import maps\n"
        "from keras_transformer.errors import InputError\n"
        "from keras_transformer.visualization import draw_heads, html_page\n"
        "html_page(maps('ab', 'cd'))\n"
        "try:\n"
        "    draw_heads(maps('ab', 'cd'))\n"
        "except InputError as error:\n"
        "    print(error)\n",
        block=("matplotlib",),
    )
    assert "pip install matplotlib" in output


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no layer 2; choose one from 0 to 1"):
        draw_alignment(maps(SOURCE, TARGET), layer=2)
