"""Web page at `/`: files of this package only."""

from importlib import resources

#: Path -> file and media type.
FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

#: The page may load only its files, send requests only to its server, and not be
#: framed.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def read(path: str) -> tuple[bytes, str]:
    """Content and media type of one of `FILES`."""
    name, media_type = FILES[path]
    folder = resources.files("keras_transformer.serving") / "static"
    return (folder / name).read_bytes(), media_type
