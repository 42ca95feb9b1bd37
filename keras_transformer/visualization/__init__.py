"""Attention that one can look at: maps of a sentence, pictures, a page, and a report.

`attention_maps` reads a sentence and its translation; `draw_heads`, `draw_alignment`
(matplotlib, the extra `plot`) and `html_page` show what it found. `head_report` counts
what each head does over a corpus.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "head_report": ["HeadReport", "head_report"],
        "html_page": ["html_page"],
        "maps": ["AttentionMaps", "attention_maps"],
        "pictures": ["draw_alignment", "draw_heads"],
    },
)
