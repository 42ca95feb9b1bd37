"""Every word of the everyday grammar is one that a dictionary of its language knows."""

import os
import re
import shutil
import subprocess

import pytest
from everyday_forms import english_forms
from everyday_forms import french_forms
from everyday_forms import german_forms

from keras_transformer.data.phrasebook import everyday
from keras_transformer.data.phrasebook.carriers import CARRIERS
from keras_transformer.data.phrasebook.carriers import SHORT_CARRIERS

pytestmark = [
    pytest.mark.no_backend,
    pytest.mark.skipif(
        shutil.which("hunspell") is None and os.environ.get("HUNSPELL") != "required",
        reason="needs hunspell with its dictionaries de_DE, en_US and fr_FR",
    ),
]

#: Right, but in no dictionary here: three German verb forms, a profession, a surname.
KNOWN = {"einschläft", "ferngesehen", "gelächelt", "Rezeptionistin", "Keller"}
WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")


def unknown(dictionary, texts):
    """The words that are not in a dictionary."""
    words = sorted({word for text in texts for word in WORD.findall(text)})
    assert len(words) > 300
    done = subprocess.run(
        ["hunspell", "-l", "-i", "UTF-8", "-d", dictionary],
        input="\n".join(words),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return sorted({*done.stdout.split()} - KNOWN)


@pytest.mark.parametrize(
    ("dictionary", "texts"),
    [("en_US", english_forms), ("de_DE", german_forms), ("fr_FR", french_forms)],
)
def test_every_form_of_the_lexicon_is_a_word(dictionary, texts):
    assert not unknown(dictionary, texts())


@pytest.mark.parametrize(
    ("index", "dictionary"), [(0, "en_US"), (1, "de_DE"), (2, "fr_FR")]
)
def test_every_word_of_many_sentences_is_a_word(index, dictionary):
    texts = [sentence.texts[index] for sentence in everyday.sentences("words", 4000)]
    assert not unknown(dictionary, texts)


@pytest.mark.parametrize(
    ("language", "dictionary"), [("en", "en_US"), ("de", "de_DE"), ("fr", "fr_FR")]
)
def test_every_word_of_the_carriers_is_a_word(language, dictionary):
    templates = (each.templates[language] for each in (*CARRIERS, *SHORT_CARRIERS))
    texts = [re.sub("{.*?}", " ", template) for template in templates]
    assert not unknown(dictionary, texts)
