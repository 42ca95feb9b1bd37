"""Each sentence that is shown as an example is translated right.

By the committed SavedModel, and by the model that README's first command makes; that
one takes minutes to train, so it is only tried where EVERY_TEST is set.
"""

import os
import re
from pathlib import Path

import pytest

from keras_transformer.data import phrasebook
from keras_transformer.data.phrasebook import everyday

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "saved_models" / "phrasebook-en-de"
#: Files that show sentences, and how these stand there.
SHOWN = {
    "README.md": (
        r"echo '(.+)' \| keras-transformer translate",
        r'^lines = \["(.+)"\]',
        r'--text "(.+?)"',
    ),
    "docs/*.md": (r'--text "(.+?)"', r'"(?:text|texts|instances)": \[?"(.+?)"'),
    "tutorials/*/*.md": (r'"(?:text|texts|instances)": \[?"(.+?)"',),
    "tutorials/*.py": (r'^SENTENCE = "(.+)"',),
    "saved_models/*/README.md": (r'"instances": \["(.+?)"\]',),
    "keras_transformer/serving/static/index.html": (r'placeholder="(.+?)"',),
    "keras_transformer/serving/messages.py": (r'\{"text": "([^"]+)"\}',),
}
NOT_SHOWN = {"...", "A helicopter costs $48.90."}  # the second has an unknown word
#: Right translations of what no test part of the phrasebook has.
RIGHT = {
    "Hello, how are you?": "Hallo, wie geht es Ihnen?",
    "A man sleeps.": "Ein Mann schläft.",
    "A man sleeps on the train.": "Ein Mann schläft im Zug.",
    "The cathedral is 250 meters high.": "Der Dom ist 250 Meter hoch.",
    "My sister bought a new car yesterday.": (
        "Meine Schwester hat gestern ein neues Auto gekauft."
    ),
    "The train leaves at 9:30 AM.": "Der Zug fährt um 09:30 Uhr ab.",
    "Room 691 costs $48.90 per night.": "Das Zimmer 691 kostet 48,90 $ pro Nacht.",
    "I do not know if my brother bought a new car.": (
        "Ich weiß nicht, ob mein Bruder ein neues Auto gekauft hat."
    ),
    "The car that my sister bought is beautiful.": (
        "Das Auto, das meine Schwester gekauft hat, ist schön."
    ),
    "The book that my sister bought is beautiful.": (
        "Das Buch, das meine Schwester gekauft hat, ist schön."
    ),
    "The bag that my sister bought is beautiful.": (
        "Die Tasche, die meine Schwester gekauft hat, ist schön."
    ),
    "The flower that my sister bought is beautiful.": (
        "Die Blume, die meine Schwester gekauft hat, ist schön."
    ),
    "The skirt that my sister bought is beautiful.": (
        "Der Rock, den meine Schwester gekauft hat, ist schön."
    ),
    "The umbrella that my sister bought is beautiful.": (
        "Der Regenschirm, den meine Schwester gekauft hat, ist schön."
    ),
}


def shown():
    """Each sentence that stands in a file as an example, with the file."""
    for pattern, forms in SHOWN.items():
        paths = sorted(ROOT.glob(pattern))
        assert paths, pattern
        for path in paths:
            text = path.read_text(encoding="utf-8")
            for form in forms:
                for sentence in re.findall(form, text, flags=re.MULTILINE):
                    if sentence not in NOT_SHOWN:
                        yield path.relative_to(ROOT), sentence


def accepted():
    """Sentence -> its right translations."""
    english, german = phrasebook.load("en", "de", "test")
    known = {  # the tokenizer makes any space a plain one
        source: {re.sub(r"\s", " ", target)}
        for source, target in zip(english, german, strict=True)
    }
    for row in everyday.trial():
        known[row.english] = set(row.german)
    return known | {sentence: {right} for sentence, right in RIGHT.items()}


@pytest.mark.no_backend
def test_for_each_example_a_right_translation_is_known():
    files, known = set(), accepted()
    for path, sentence in shown():
        assert sentence in known, f"{path}: add the translation of {sentence!r} here"
        files.add(str(path))
    assert {
        "README.md",
        "keras_transformer/serving/static/index.html",
        "saved_models/phrasebook-en-de/README.md",
        "tutorials/03_train_a_translator.py",
        "tutorials/deployment/README.md",
    } <= files


@pytest.mark.no_backend
def test_the_translation_that_readme_shows_is_the_right_one():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pairs = re.findall(r"echo '(.+)' \| keras-transformer translate.*\n(.+)", text)
    known = accepted()
    assert pairs
    for sentence, translation in pairs:
        assert translation in known[sentence]


def examples():
    """All sentences that are shown or have a translation here."""
    return sorted({*RIGHT, *(sentence for _, sentence in shown())})


def wrong(translations):
    """Those of `examples` whose translation is not a right one, with it."""
    known = accepted()
    return {
        sentence: translation
        for sentence, translation in zip(examples(), translations, strict=True)
        if translation not in known[sentence]
    }


@pytest.mark.export
@pytest.mark.one_backend("tensorflow")
def test_the_committed_saved_model_translates_them():
    pytest.importorskip("tensorflow_text")
    import tensorflow as tf

    loaded = tf.saved_model.load(str(COMMITTED / "1"))
    answer = loaded.signatures["serving_default"](text=tf.constant(examples()))
    assert not wrong(text.decode() for text in answer["translation"].numpy())


@pytest.mark.one_backend("tensorflow")
@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("EVERY_TEST"),
    reason="needs EVERY_TEST: trains for minutes",
)
def test_the_model_of_the_first_command_translates_them(run_python, tmp_path):
    program = ["-m", "keras_transformer.cli.main"]
    run_python([*program, "train", f"--set=output={tmp_path / 'run'}"])
    sources, translations = tmp_path / "sources.txt", tmp_path / "translations.txt"
    sources.write_text("".join(f"{line}\n" for line in examples()), encoding="utf-8")
    command = ["translate", tmp_path / "run" / "averaged"]
    command += ["--input", sources, "--output", translations]
    run_python([*program, *map(str, command)])
    assert not wrong(translations.read_text(encoding="utf-8").splitlines())
