r"""Control characters made visible: a terminal would obey them.

They come from files of others and from models: a title of the window, a text that is
overwritten, keys that are pressed. Shown as in Python: the escape character as `\x1b`.
"""

import unicodedata

_SHOWN = {
    code: f"\\x{code:02x}"
    for code in range(0xA0)
    if unicodedata.category(chr(code)) == "Cc" and chr(code) not in "\t\n"
}


def escaped(text: str) -> str:
    """The text without control characters but tabs and line feeds."""
    return text.translate(_SHOWN)
