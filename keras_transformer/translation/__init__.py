"""Between strings and ids: what a `Translator` does around its model."""
