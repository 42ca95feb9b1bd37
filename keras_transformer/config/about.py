"""Facts about a model that no number shows: its name, its languages, its text.

A model folder has them as the section `about` of its `config.json`.
"""

from __future__ import annotations

from typing import Annotated
from typing import Any

import pydantic

from keras_transformer.config.documented import Documented
from keras_transformer.config.faults import validated

LONGEST_NAME = 100  # characters of a name, or of a code
LONGEST_TEXT = 300  # characters of what is said of the training text


def _one_line(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("expected one line of printable text")
    return text


Name = Annotated[
    str, pydantic.Field(max_length=LONGEST_NAME), pydantic.AfterValidator(_one_line)
]


class About(Documented):
    """Name, languages and training text of a model; all optional, none changes it.

    Raises:
        InputError: from `of`.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer.config.about import About
    >>> About(name="en-de", source_language="en", target_language="de").info()
    {'name': 'en-de', 'from': 'en', 'into': 'de'}
    """

    name: Name | None = None
    """Name of the model, as `serve` shows it."""
    source_language: Name | None = None
    """Source language's code, such as `en`, of a model of two languages."""
    target_language: Name | None = None
    """Target language's code, in the same way."""
    training_text: Annotated[str | None, pydantic.Field(max_length=LONGEST_TEXT)] = None
    """Training text, in words that follow "trained on"."""

    @pydantic.field_validator("training_text")
    @classmethod
    def _check_line(cls, text: str | None) -> str | None:
        return text and _one_line(text)

    @classmethod
    def of(cls, fields: Any, where: str = "about") -> About:
        """Like the constructor, with one clear sentence where a field is wrong.

        Args:
            fields: by name.
            where: what the message begins with.
        """
        return validated(cls, fields, where)

    def info(self) -> dict[str, str]:
        """The facts that `keras-transformer info` prints."""
        facts = {
            "name": self.name,
            "from": self.source_language,
            "into": self.target_language,
            "trained on": self.training_text,
        }
        return {name: fact for name, fact in facts.items() if fact}

    def filled(self, other: About) -> About:
        """The same, with the facts of another one where it has none."""
        given = other.model_dump(exclude_none=True)
        return About(**{**given, **self.model_dump(exclude_none=True)})
