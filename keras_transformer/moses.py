"""Moses' tokenizer as sacreBLEU takes one; needs `sacremoses`."""

from sacrebleu.tokenizers.tokenizer_base import BaseTokenizer

from keras_transformer.errors import InputError


class MosesTokenizer(BaseTokenizer):
    """Moses' scripts `normalize-punctuation` and `tokenizer` for one language.

    Args:
        language: a code that Moses knows, such as `"de"`.

    Raises:
        InputError: where it knows no rules for it.
        ImportError: without `sacremoses`.
    """

    def __init__(self, language: str) -> None:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes

        languages = set(NonbreakingPrefixes().available_langs.values())
        if language not in languages:  # sacremoses would take English
            raise InputError(
                f"Moses has no rules for the language {language!r}; use one of "
                f"{', '.join(sorted(languages))}"
            )
        self._signature = f"moses-{language}-{sacremoses.__version__}"
        self._normalizer = sacremoses.MosesPunctNormalizer(language)
        self._tokenizer = sacremoses.MosesTokenizer(language)

    def signature(self) -> str:
        """The name and version, for a signature of sacreBLEU."""
        return self._signature

    def __call__(self, line: str) -> str:
        """The line, its tokens with a space between."""
        # The scripts read a line with its end, which one of their rules looks at.
        normal = self._normalizer.normalize(f"{line}\n")
        return self._tokenizer.tokenize(normal, return_str=True)
