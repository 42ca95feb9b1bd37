"""Visualization of attention: maps of a sentence, pictures, a page, and a report.

`attention_maps` reads a sentence and its translation; `draw_heads`, `draw_alignment`
(matplotlib, the extra `plot`) and `html_page` show the result. `head_report` measures
what each head does over a corpus.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer.visualization.head_report import HeadReport as HeadReport
    from keras_transformer.visualization.head_report import head_report as head_report
    from keras_transformer.visualization.html_page import html_page as html_page
    from keras_transformer.visualization.maps import AttentionMaps as AttentionMaps
    from keras_transformer.visualization.maps import attention_maps as attention_maps
    from keras_transformer.visualization.pictures import (
        draw_alignment as draw_alignment,
    )
    from keras_transformer.visualization.pictures import draw_heads as draw_heads

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "head_report": ["HeadReport", "head_report"],
        "html_page": ["html_page"],
        "maps": ["AttentionMaps", "attention_maps"],
        "pictures": ["draw_alignment", "draw_heads"],
    },
)
